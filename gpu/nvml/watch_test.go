//go:build cgo && linux

package nvml

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// eventSet returns an event set that delivers the events sent to the fixture. In a
// synctest bubble its waits take no real time.
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

// seen collects the reports of a watcher.
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
		check.NoError(t, err)
		s := &seen{}
		w, err := d.Watch(s.options(Devices(cards)))
		check.NoError(t, err)
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
		check.Equal(t, r.Device, 2)
		check.Equal(t, r.Utilization, 0.5)
		check.That(check.Must(t), r.Listed, "reading %+v", r)
		check.Equal(t, len(r.Processes), 2)
		check.Equal(t, r.Memory.Free, 30*giB)
		check.That(t, !r.Lost, "reading %+v", r)
		time.Sleep(time.Second)
		synctest.Wait()
		check.Equal(t, len(s.readings), 6, "samples in a second")
		check.Equal(t, len(s.reported()), 0)
	})
}

func TestUtilizationFollows(t *testing.T) {
	onWatch(t, nothing, func(b *fixture, s *seen) {
		b.busy.Store(100)
		time.Sleep(time.Second)
		synctest.Wait()
		check.Equal(t, s.last()[0].Utilization, 1)
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
				check.That(t, !r.Lost, "%s answers %v: reading %+v, faults %v", call, ret, r, s.reported())
				check.Equal(t, len(s.reported()), 0, "%s answers %v: reading", call, ret)
				check.Equal(t, r.Memory.Free, 30*giB, "%s answers %v: memory", call, ret)
				check.That(t, (r.Utilization < 0) == (call == "GetUtilizationRates"), "%s answers %v: utilization %v", call, ret, r.Utilization)
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
			check.Equal(check.Must(t), len(f), 8, "%s: faults", call)
			check.Equal(check.Must(t), f[3].Kind, Lost, "%s: faults", call)
			check.Equal(check.Must(t), f[3].Severity, Fatal, "%s: faults", call)
			check.Equal(check.Must(t), f[3].Device, 3, "%s: faults", call)
			check.That(check.Must(t), s.last()[3].Lost, "%s: faults", call)
			b.fail(call, nvml.SUCCESS)
			time.Sleep(time.Second)
			synctest.Wait()
			f = s.reported()
			check.Equal(check.Must(t), len(f), 16, "%s: faults", call)
			check.Equal(t, f[15].Kind, Found, "%s: faults", call)
			check.That(t, !s.last()[3].Lost, "%s: faults", call)
		})
	}
}

// TestMissingDevice: a device that is not there when the watch begins is lost,
// and found when it comes.
func TestMissingDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newFixture(t), &seen{}
		w, err := b.open(t).Watch(s.options([]gpu.Device{{Index: 0, UUID: "GPU-new", MemoryBytes: giB}}))
		check.NoError(t, err)
		synctest.Wait()
		f := s.reported()
		check.Equal(check.Must(t), len(f), 1)
		check.Equal(t, f[0].Kind, Lost)
		check.That(t, s.last()[0].Lost, "faults %+v", f)
		b.later.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		f = s.reported()
		check.Equal(check.Must(t), len(f), 2)
		check.Equal(t, f[1].Kind, Found)
		check.NoError(t, w.Close(t.Context()))
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
			check.Equal(check.Must(t), len(f), 1)
			check.That(check.Must(t), !f[0].At.IsZero(), "faults %+v", f)
			f[0].At = (time.Time{})
			check.Equal(t, f[0], tt.want)
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
			check.Equal(check.Must(t), len(got), len(tt.want), "%s: devices %v, want %v", tt.name, got, tt.want)
			for i := range got {
				check.Equal(t, got[i], tt.want[i], "%s: devices %v, want %v", tt.name, got, tt.want)
			}
		})
	}
}

func TestEventsFailWithoutSpinning(t *testing.T) {
	onWatch(t, func(b *fixture) { b.fail("Wait", nvml.ERROR_GPU_IS_LOST) }, func(b *fixture, s *seen) {
		time.Sleep(10 * time.Second)
		synctest.Wait()
		check.Equal(t, len(s.reported()), 0)
		b.fail("Wait", nvml.SUCCESS)
		b.events <- nvml.EventData{Device: b.Devices[0], EventType: nvml.EventTypeXidCriticalError, EventData: 79, GpuInstanceId: everywhere}
		synctest.Wait()
		check.Equal(t, len(s.reported()), 1)
	})
}

// TestMemoryErrorsAreCountedWithoutEvents: without events from the driver, memory errors
// are found by their counter.
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
			faults, want := s.reported(), 0
			if without {
				want = 1
			}
			check.Equal(t, len(faults), want, "without events %v", without)
			for _, f := range faults {
				check.Equal(t, f.Kind, ECC)
				check.Equal(t, f.Device, 6)
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
	check.NoError(t, err)
	check.Receive(t, entered)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = w.Close(ctx)
	check.ErrorContains(t, err, "does not return")
	close(release)
	check.NoError(t, w.Close(t.Context()))
}

func TestWatchNeedsDevices(t *testing.T) {
	_, err := newFixture(t).open(t).Watch(WatchOptions{})
	check.That(t, err != nil, "a watch of nothing is no error")
}
