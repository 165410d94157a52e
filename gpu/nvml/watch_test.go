//go:build cgo && linux

package nvml

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// eventSet returns what is sent to events. Inside of a synctest bubble the
// time of its waits costs nothing.
func (b *fixture) eventSet() *mock.EventSet {
	return &mock.EventSet{
		WaitFunc: func(millis uint32) (nvml.EventData, nvml.Return) {
			if ret := b.ret("Wait"); ret != nvml.SUCCESS {
				return nvml.EventData{}, ret
			}
			select {
			case e := <-b.events:
				return e, nvml.SUCCESS
			case <-time.After(time.Duration(millis) * time.Millisecond):
				return nvml.EventData{}, nvml.ERROR_TIMEOUT
			}
		},
		FreeFunc: func() nvml.Return { return nvml.SUCCESS },
	}
}

// seen collects what a watcher reports.
type seen struct {
	mu       sync.Mutex
	readings [][]Reading
	faults   []Fault
}

func (s *seen) options(devices []gpu.Device) WatchOptions {
	return WatchOptions{
		Devices:  devices,
		Readings: func(r []Reading) { s.mu.Lock(); defer s.mu.Unlock(); s.readings = append(s.readings, r) },
		Fault:    func(f Fault) { s.mu.Lock(); defer s.mu.Unlock(); s.faults = append(s.faults, f) },
	}
}

func (s *seen) last() []Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readings[len(s.readings)-1]
}

func (s *seen) reported() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Fault(nil), s.faults...)
}

// onWatch runs a test beside a watcher of all devices of a fixture.
func onWatch(t *testing.T, prepare func(*fixture), test func(*fixture, *seen)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t)
		prepare(b)
		d := b.open(t)
		cards, err := d.Cards()
		if err != nil {
			t.Fatal(err)
		}
		s := &seen{}
		w, err := d.Watch(s.options(Devices(cards)))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		test(b, s)
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func nothing(*fixture) {}

func TestSamples(t *testing.T) {
	onWatch(t, nothing, func(b *fixture, s *seen) {
		r := s.last()[2]
		if r.Device != 2 || r.Utilization != 0.5 || r.Average != 0.5 || !r.Listed || len(r.Processes) != 2 || r.Memory.Free != 30*giB || r.Lost {
			t.Errorf("reading %+v", r)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(s.readings); n != 6 {
			t.Errorf("%d samples in a second, want one at once and 5 more", n)
		}
		if f := s.reported(); len(f) != 0 {
			t.Errorf("faults %v", f)
		}
	})
}

func TestAverageFollows(t *testing.T) {
	onWatch(t, nothing, func(b *fixture, s *seen) {
		b.busy.Store(100)
		time.Sleep(time.Second)
		synctest.Wait()
		r := s.last()[0]
		if want := 1 - 0.5/2.718281828; r.Utilization != 1 || r.Average < want-0.01 || r.Average > want+0.01 {
			t.Errorf("after one window: %v, average %v, want %v", r.Utilization, r.Average, want)
		}
	})
}

// watchCalls are the questions of a sample.
var watchCalls = []string{
	"GetUtilizationRates", "GetMemoryInfo_v2", "GetComputeRunningProcesses", "GetMPSComputeRunningProcesses",
	"GetTotalEccErrors", "GetSupportedEventTypes", "RegisterEvents", "EventSetCreate",
}

func TestEachSampledCallNotSupported(t *testing.T) {
	for _, call := range watchCalls {
		for _, ret := range []nvml.Return{nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_UNKNOWN} {
			onWatch(t, func(b *fixture) { b.fail(call, ret) }, func(b *fixture, s *seen) {
				time.Sleep(time.Second)
				synctest.Wait()
				r := s.last()[0]
				if r.Lost || len(s.reported()) != 0 {
					t.Errorf("%s answers %v: reading %+v, faults %v", call, ret, r, s.reported())
				}
				if r.Memory.Free != 30*giB {
					t.Errorf("%s answers %v: memory %+v", call, ret, r.Memory)
				}
				if silent := r.Utilization < 0; silent != (call == "GetUtilizationRates") {
					t.Errorf("%s answers %v: utilization %v", call, ret, r.Utilization)
				}
			})
		}
	}
}

func TestDeviceLostAndFound(t *testing.T) {
	for _, call := range []string{"GetUtilizationRates", "GetMemoryInfo_v2", "GetComputeRunningProcesses", "GetMPSComputeRunningProcesses"} {
		onWatch(t, nothing, func(b *fixture, s *seen) {
			b.fail(call, nvml.ERROR_GPU_IS_LOST)
			time.Sleep(time.Second)
			synctest.Wait()
			f := s.reported()
			if len(f) != 8 || f[3].Kind != Lost || f[3].Severity != Fatal || f[3].Device != 3 || !s.last()[3].Lost {
				t.Fatalf("%s: faults %+v, reading %+v", call, f, s.last()[3])
			}
			b.fail(call, nvml.SUCCESS)
			time.Sleep(time.Second)
			synctest.Wait()
			if f := s.reported(); len(f) != 16 || f[15].Kind != Found || s.last()[3].Lost {
				t.Errorf("%s: faults %+v, reading %+v", call, f, s.last()[3])
			}
		})
	}
}

// TestMissingDevice: a device that is not there when the watch begins is lost,
// and found when it comes.
func TestMissingDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newFixture(t), &seen{}
		w, err := b.open(t).Watch(s.options([]gpu.Device{{Index: 0, UUID: "GPU-new", MemoryBytes: giB}}))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if f := s.reported(); len(f) != 1 || f[0].Kind != Lost || !s.last()[0].Lost {
			t.Errorf("faults %+v", f)
		}
		b.later.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		if f := s.reported(); len(f) != 2 || f[1].Kind != Found {
			t.Errorf("faults %+v", f)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestEventsBecomeFaults(t *testing.T) {
	xid := func(n uint64) nvml.EventData {
		return nvml.EventData{EventType: nvml.EventTypeXidCriticalError, EventData: n, GpuInstanceId: everywhere}
	}
	for _, tt := range []struct {
		event nvml.EventData
		want  Fault
	}{
		{xid(31), Fault{Kind: XID, Severity: OfProcess, Number: 31, Text: "XID 31: memory page fault"}},
		{xid(79), Fault{Kind: XID, Severity: Fatal, Number: 79, Text: "XID 79: the GPU has fallen off the bus"}},
		{xid(94), Fault{Kind: XID, Severity: Degraded, Number: 94, Text: "XID 94: memory error contained to the program that met it"}},
		{xid(9999), Fault{Kind: XID, Severity: Fatal, Number: 9999, Text: "XID 9999: hardware or driver error"}},
		{nvml.EventData{EventType: nvml.EventTypeDoubleBitEccError, GpuInstanceId: everywhere},
			Fault{Kind: ECC, Severity: Fatal, Text: "uncorrectable memory error"}},
	} {
		onWatch(t, nothing, func(b *fixture, s *seen) {
			tt.event.Device = b.Devices[4]
			b.events <- tt.event
			synctest.Wait()
			tt.want.Device = 4
			f := s.reported()
			if len(f) != 1 || f[0].At.IsZero() {
				t.Fatalf("faults %+v", f)
			}
			if f[0].At = (time.Time{}); f[0] != tt.want {
				t.Errorf("fault\n got %+v\nwant %+v", f[0], tt.want)
			}
		})
	}
}

// TestEventsOfSlices: an event with an instance concerns one slice, one without
// the whole card; one of a card that cannot be named concerns all devices.
func TestEventsOfSlices(t *testing.T) {
	for _, tt := range []struct {
		name     string
		card     int
		instance uint32
		want     []int
	}{
		{"one slice", 0, 1, []int{1}},
		{"whole card", 0, everywhere, []int{0, 1, 2}},
		{"another card", 1, everywhere, []int{3}},
		{"a slice that is not watched", 0, 6, nil},
		{"no name", -1, everywhere, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
	} {
		onWatch(t, func(b *fixture) { b.slices(0, 3) }, func(b *fixture, s *seen) {
			e := nvml.EventData{EventType: nvml.EventTypeXidCriticalError, EventData: 48, GpuInstanceId: tt.instance}
			if tt.card >= 0 {
				e.Device = b.Devices[tt.card]
			}
			b.events <- e
			synctest.Wait()
			var got []int
			for _, f := range s.reported() {
				got = append(got, f.Device)
			}
			if len(got) != len(tt.want) {
				t.Fatalf("%s: devices %v, want %v", tt.name, got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Errorf("%s: devices %v, want %v", tt.name, got, tt.want)
				}
			}
		})
	}
}

func TestEventsFailWithoutSpinning(t *testing.T) {
	onWatch(t, func(b *fixture) { b.fail("Wait", nvml.ERROR_GPU_IS_LOST) }, func(b *fixture, s *seen) {
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if f := s.reported(); len(f) != 0 {
			t.Errorf("faults %v", f)
		}
		b.fail("Wait", nvml.SUCCESS)
		b.events <- nvml.EventData{Device: b.Devices[0], EventType: nvml.EventTypeXidCriticalError, EventData: 79, GpuInstanceId: everywhere}
		synctest.Wait()
		if f := s.reported(); len(f) != 1 {
			t.Errorf("faults %v", f)
		}
	})
}

// TestMemoryErrorsAreCountedWithoutEvents: where the driver sends no events,
// the counter reports.
func TestMemoryErrorsAreCountedWithoutEvents(t *testing.T) {
	for _, without := range []bool{true, false} {
		onWatch(t, func(b *fixture) {
			if without {
				b.fail("GetSupportedEventTypes", nvml.ERROR_NOT_SUPPORTED)
			}
		}, func(b *fixture, s *seen) {
			b.errors.Store(2)
			time.Sleep(time.Second)
			synctest.Wait()
			f := s.reported()
			if without && (len(f) != 1 || f[0].Kind != ECC || f[0].Device != 6) || !without && len(f) != 0 {
				t.Errorf("without events %v: faults %+v", without, f)
			}
		})
	}
}

func TestCloseGivesUpOnADeadDriver(t *testing.T) {
	b, s := newFixture(t), &seen{}
	release, entered := make(chan struct{}), make(chan struct{}, 64)
	mocked(b, 0).GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		entered <- struct{}{}
		<-release
		return nvml.Utilization{}, nvml.ERROR_GPU_IS_LOST
	}
	b.fail("EventSetCreate", nvml.ERROR_NOT_SUPPORTED)
	w, err := b.open(t).Watch(s.options([]gpu.Device{{UUID: "GPU-0", MemoryBytes: giB}}))
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Close(ctx); err == nil || !strings.Contains(err.Error(), "does not return") {
		t.Errorf("error %v", err)
	}
	close(release)
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWatchNeedsDevices(t *testing.T) {
	if _, err := newFixture(t).open(t).Watch(WatchOptions{}); err == nil {
		t.Error("a watch of nothing is no error")
	}
}
