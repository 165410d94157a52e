//go:build cgo && linux

package nvml

import (
	"encoding/binary"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

const (
	// A broken device that still answers counts as found again after it has worked for
	// the time of its quarantine. The quarantine doubles with each failure, because each
	// failure ends the runs on the device.
	firstQuarantine   = 10 * time.Second
	longestQuarantine = 10 * time.Minute
)

// quarantine is the state of a device that had a fatal fault and still answers:
// nothing is started on it until the driver has needed no recovery for a while.
type quarantine struct {
	on    bool
	well  time.Time     // the driver has needed nothing since; zero: it does
	lasts time.Duration // how long it must need nothing
}

// report passes a fault on. With reportLocked it is the only way to the options' Fault, so
// that a fault after the return of a device is reported after that return.
func (w *Watcher) report(f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reportLocked(f)
}

// reportLocked is report for a caller that holds mu.
func (w *Watcher) reportLocked(f Fault) {
	for _, d := range w.devices {
		if d.device.Index == f.Device {
			d.quarantine.take(f)
		}
	}
	w.options.Fault(f)
}

func (p *quarantine) take(f Fault) {
	switch {
	case f.Kind == Found:
		p.on = false
	case f.Severity != Fatal:
	case f.Kind == Lost: // it is found when it answers again
		p.well = time.Time{}
	case p.on: // one fault seldom comes alone
		p.well = time.Time{}
	default:
		*p = quarantine{on: true, lasts: min(max(2*p.lasts, firstQuarantine), longestQuarantine)}
	}
}

// endQuarantine reports that a device is found when it has been well for long
// enough.
func (w *Watcher) endQuarantine(a *asked, d *watched, now time.Time) {
	w.mu.Lock()
	on := d.quarantine.on
	w.mu.Unlock()
	if !on || a.lost != nvml.SUCCESS {
		return
	}
	well := w.driver.needsNothing(a, d)
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.quarantine.over(well, now) { // not if a fault came while the driver was asked
		w.reportLocked(Fault{Device: d.device.Index, At: now, Kind: Found, Severity: Degraded, Text: "the driver asks for no recovery any more"})
	}
}

// over stores whether the driver needs nothing, and reports whether that has
// lasted long enough.
func (p *quarantine) over(well bool, now time.Time) bool {
	switch {
	case !well:
		p.well = time.Time{}
	case p.well.IsZero():
		p.well = now
	}
	return p.on && well && now.Sub(p.well) >= p.lasts
}

// needsNothing asks the driver whether a card may be used as it is: its
// recovery action is none, not a reset or a restart of the host. A driver that
// does not report it (before 570) leaves the device out.
func (dr *Driver) needsNothing(a *asked, d *watched) bool {
	card := d.handle
	if d.device.Sharing == gpu.MIGSlice {
		h, ret := card.GetDeviceHandleFromMigDeviceHandle()
		if !a.ok(ret) {
			return false
		}
		card = h
	}
	if !dr.has("nvmlDeviceGetFieldValues") {
		return false
	}
	action := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	if !a.ok(card.GetFieldValues(action)) || nvml.Return(action[0].NvmlReturn) != nvml.SUCCESS {
		return false
	}
	return binary.NativeEndian.Uint32(action[0].Value[:]) == uint32(nvml.GPU_RECOVERY_ACTION_NONE)
}
