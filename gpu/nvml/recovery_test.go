//go:build cgo && linux

package nvml

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
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
		check.Equal(check.Must(t), s.found(3*firstQuarantine, 4), 0, "found although it must be reset")
		b.action.Store(uint32(nvml.GPU_RECOVERY_ACTION_NONE))
		check.Equal(check.Must(t), s.found(firstQuarantine-time.Second, 4), 0, "after a reset: %+v", s.reported())
		check.Equal(check.Must(t), s.found(2*time.Second, 4), 1, "after a reset: %+v", s.reported())
		b.breaks(4)
		b.breaks(4) // one fault seldom comes alone
		check.Equal(check.Must(t), s.found(2*firstQuarantine-time.Second, 4), 1, "the second time: %+v", s.reported())
		check.Equal(check.Must(t), s.found(2*time.Second, 4), 2, "the second time: %+v", s.reported())
	})
}

// TestQuarantineHasAnEnd: a device that breaks often waits long, up to a bound.
func TestQuarantineHasAnEnd(t *testing.T) {
	p := quarantine{}
	for range 100 {
		p.take(Fault{Kind: ECC, Severity: Fatal})
		p.take(Fault{Kind: Found})
	}
	check.That(t, !p.on, "%+v", p)
	check.Equal(t, p.lasts, longestQuarantine)
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
			check.Equal(t, s.found(firstQuarantine-2*time.Second, 4), 0, "%s: %+v", name, s.reported())
			check.Equal(t, s.found(4*time.Second, 4), 1, "%s: %+v", name, s.reported())
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
			n := s.found(3*firstQuarantine, 4)
			check.Equal(t, n, 0, "%s: found", name)
			check.That(t, !s.last()[4].Lost, "%s: found", name)
		})
	}
}

// TestSliceComesBackWithItsCard: the driver reports it of the card.
func TestSliceComesBackWithItsCard(t *testing.T) {
	onWatch(t, func(b *fixture) { b.slices(0, 3) }, func(b *fixture, s *seen) {
		b.breaks(0)
		for slice := range 3 {
			check.Equal(t, s.found(firstQuarantine+time.Second, slice), 1, "slice %d found", slice)
		}
	})
}

// TestFaultWhileTheDriverIsAsked: an answer that is older than a fault does not clear
// the fault.
func TestFaultWhileTheDriverIsAsked(t *testing.T) {
	began := time.Now()
	over := began.Add(firstQuarantine)
	xid := Fault{Kind: XID, Severity: Fatal}
	p := quarantine{}
	p.take(xid)
	check.That(check.Must(t), !p.over(true, began), "served too early, or not at all: %+v", p)
	check.That(check.Must(t), p.over(true, over), "served too early, or not at all: %+v", p)
	p.take(xid)
	check.That(t, !p.over(true, over), "served in spite of the fault that came meanwhile")
}
