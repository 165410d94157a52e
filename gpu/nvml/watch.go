//go:build cgo && linux

package nvml

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// Watcher samples devices until it is closed.
type Watcher struct {
	driver  *Driver
	options WatchOptions
	devices []*watched
	events  *events // nil where the driver has none
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu sync.Mutex // guards every quarantine, and the order of faults
}

// watched is one device that is sampled. After Watch only the sampling goroutine
// uses it, except for quarantine.
type watched struct {
	device  gpu.Device
	handle  nvml.Device // nil while it cannot be found
	lost    bool
	errors  uint64 // uncorrected so far
	counted bool

	quarantine quarantine // guarded by the watcher's mu
}

// Watch begins to sample devices. It takes the first sample at once. A device
// that cannot be found is reported as lost, and searched for again.
func (d *Driver) Watch(o WatchOptions) (*Watcher, error) {
	if len(o.Devices) == 0 {
		return nil, fmt.Errorf("watch devices: none given")
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &Watcher{driver: d, options: o.withDefaults(), stop: stop}
	for _, device := range o.Devices {
		w.devices = append(w.devices, &watched{device: device})
	}
	w.events = d.listen(w.devices, w.report)
	w.wg.Go(func() { w.sample(ctx) })
	if w.events != nil {
		w.wg.Go(func() { w.events.run(ctx) })
	}
	return w, nil
}

// Close ends the sampling and waits for its goroutines, but no longer than
// ctx: a call into a driver whose device died may never return.
func (w *Watcher) Close(ctx context.Context) error {
	w.stop()
	done := make(chan struct{})
	go func() {
		w.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close NVML watcher: a call into the driver does not return: %w", ctx.Err())
	}
}

func (w *Watcher) sample(ctx context.Context) {
	ticker := time.NewTicker(w.options.Interval)
	defer ticker.Stop()
	for {
		readings := make([]Reading, len(w.devices))
		for i, d := range w.devices {
			readings[i] = w.read(d, time.Now())
		}
		w.options.Readings(readings)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// read takes one device's reading.
func (w *Watcher) read(d *watched, now time.Time) Reading {
	r := Reading{
		Device: d.device.Index, Utilization: -1, Memory: Memory{unknownBytes, unknownBytes, unknownBytes},
	}
	a := &asked{}
	if w.find(a, d) {
		w.driver.fill(a, d, &r)
		if !w.events.subscribed(d.device) {
			w.countErrors(a, d, now)
		}
		w.endQuarantine(a, d, now)
	}
	w.notice(a, d, now)
	r.Lost = d.lost
	return r
}

// find gets the device's handle as soon as there is one.
func (w *Watcher) find(a *asked, d *watched) bool {
	if d.handle != nil {
		return true
	}
	h, ret := w.driver.lib.DeviceGetHandleByUUID(d.device.UUID)
	if ret != nvml.SUCCESS {
		a.lost = ret
		return false
	}
	d.handle = h
	return true
}

func (dr *Driver) fill(a *asked, d *watched, r *Reading) {
	if u, ret := d.handle.GetUtilizationRates(); a.ok(ret) {
		r.Utilization = float64(min(u.Gpu, 100)) / 100
	}
	r.Memory = dr.memory(a, d.handle)
	r.Processes, _, r.Listed = dr.processes(a, d.handle)
}

// countErrors finds memory errors by their counters, for drivers without events.
func (w *Watcher) countErrors(a *asked, d *watched, now time.Time) {
	n, ret := d.handle.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	if !a.ok(ret) {
		return
	}
	if d.counted && n > d.errors {
		w.report(eccFault(d.device.Index, now))
	}
	d.errors, d.counted = n, true
}

func eccFault(device int, at time.Time) Fault {
	return Fault{Device: device, At: at, Kind: ECC, Severity: Fatal, Text: "uncorrectable memory error"}
}

// notice reports when a device is lost and when it is back.
func (w *Watcher) notice(a *asked, d *watched, now time.Time) {
	lost := a.lost != nvml.SUCCESS
	if lost == d.lost {
		return
	}
	d.lost = lost
	f := Fault{Device: d.device.Index, At: now, Kind: Found, Severity: Degraded, Text: "the device answers again"}
	if lost {
		f.Kind, f.Severity, f.Text = Lost, Fatal, why(a.lost)
	}
	w.report(f)
}
