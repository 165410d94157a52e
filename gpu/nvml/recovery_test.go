//go:build cgo && linux

package nvml

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// found lets time pass and counts how often a device was found by then.
func (s *seen) found(d time.Duration, device int) (n int) {
	time.Sleep(d)
	synctest.Wait()
	for _, f := range s.reported() {
		if f.Kind == Found && f.Device == device {
			n++
		}
	}
	return n
}

// breaks sends a fatal event of a card.
func (b *fixture) breaks(card int) {
	b.events <- nvml.EventData{
		Device: b.Devices[card], EventType: nvml.EventTypeXidCriticalError, EventData: 48, GpuInstanceId: everywhere,
	}
	synctest.Wait()
}

// TestBrokenDeviceComesBack: a device that had a fatal fault and goes on
// answering is found when the driver has needed no recovery for a while, each
// time later.
func TestBrokenDeviceComesBack(t *testing.T) {
	onWatch(t, nothing, func(b *fixture, s *seen) {
		b.action.Store(uint32(nvml.GPU_RECOVERY_ACTION_GPU_RESET))
		b.breaks(4)
		if s.found(3*firstQuarantine, 4) != 0 {
			t.Fatal("found although it must be reset")
		}
		b.action.Store(uint32(nvml.GPU_RECOVERY_ACTION_NONE))
		if s.found(firstQuarantine-time.Second, 4) != 0 || s.found(2*time.Second, 4) != 1 {
			t.Fatalf("after a reset: %+v", s.reported())
		}
		b.breaks(4)
		b.breaks(4) // one fault seldom comes alone
		if s.found(2*firstQuarantine-time.Second, 4) != 1 || s.found(2*time.Second, 4) != 2 {
			t.Fatalf("the second time: %+v", s.reported())
		}
	})
}

// TestQuarantineHasAnEnd: a device that breaks often waits long, up to a bound.
func TestQuarantineHasAnEnd(t *testing.T) {
	p := quarantine{}
	for range 100 {
		p.take(Fault{Kind: ECC, Severity: Fatal})
		p.take(Fault{Kind: Found})
	}
	if p.on || p.lasts != longestQuarantine {
		t.Errorf("%+v", p)
	}
}

// TestQuarantineStartsAnew: it ends by a while without a fault only.
func TestQuarantineStartsAnew(t *testing.T) {
	for name, disturb := range map[string]func(*fixture){
		"another fault": func(b *fixture) { b.breaks(4) },
		"a reset is due": func(b *fixture) {
			b.action.Store(uint32(nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET))
			time.Sleep(time.Second)
			b.action.Store(uint32(nvml.GPU_RECOVERY_ACTION_NONE))
		},
	} {
		onWatch(t, nothing, func(b *fixture, s *seen) {
			b.breaks(4)
			time.Sleep(firstQuarantine - time.Second)
			disturb(b)
			if s.found(firstQuarantine-2*time.Second, 4) != 0 || s.found(4*time.Second, 4) != 1 {
				t.Errorf("%s: %+v", name, s.reported())
			}
		})
	}
}

// TestDriverThatDoesNotReport leaves a broken device out.
func TestDriverThatDoesNotReport(t *testing.T) {
	for name, prepare := range map[string]func(*fixture){
		"no such function": func(b *fixture) { b.missing = []string{"nvmlDeviceGetFieldValues"} },
		"no such field":    func(b *fixture) { b.fail("FieldValue", nvml.ERROR_NOT_SUPPORTED) },
		"not supported":    func(b *fixture) { b.fail("GetFieldValues", nvml.ERROR_NOT_SUPPORTED) },
	} {
		onWatch(t, prepare, func(b *fixture, s *seen) {
			b.breaks(4)
			if n := s.found(3*firstQuarantine, 4); n != 0 || s.last()[4].Lost {
				t.Errorf("%s: found %d times, %+v", name, n, s.last()[4])
			}
		})
	}
}

// TestSliceComesBackWithItsCard: the driver reports it of the card.
func TestSliceComesBackWithItsCard(t *testing.T) {
	onWatch(t, func(b *fixture) { b.slices(0, 3) }, func(b *fixture, s *seen) {
		b.breaks(0)
		for slice := range 3 {
			if n := s.found(firstQuarantine+time.Second, slice); n != 1 {
				t.Errorf("slice %d found %d times", slice, n)
			}
		}
	})
}

// TestFaultWhileTheDriverIsAsked: an answer from before does not count for what came
// since.
func TestFaultWhileTheDriverIsAsked(t *testing.T) {
	began := time.Now()
	over := began.Add(firstQuarantine)
	xid := Fault{Kind: XID, Severity: Fatal}
	p := quarantine{}
	p.take(xid)
	if p.over(true, began) || !p.over(true, over) {
		t.Fatalf("served too early, or not at all: %+v", p)
	}
	p.take(xid)
	if p.over(true, over) {
		t.Error("served in spite of the fault that came meanwhile")
	}
}
