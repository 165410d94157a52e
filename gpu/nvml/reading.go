package nvml

import (
	"cmp"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// Reading is one sample of a device.
type Reading struct {
	// Device is the index of the gpu.Device.
	Device int
	// Utilization is the share of the driver's last sampling period in which
	// a kernel ran, 0 to 1; negative where the driver does not report it, as on a MIG
	// slice.
	Utilization float64
	Memory      Memory
	// Processes hold contexts on the device. Listed is false where the driver
	// does not list them.
	Processes []Process
	Listed    bool
	// Lost is true while the device does not answer.
	Lost bool
}

// WatchOptions sets the sampled values and the receivers of reports.
type WatchOptions struct {
	Devices []gpu.Device
	// Interval is the time between samples; 0 means 200 ms.
	Interval time.Duration
	// Readings gets one Reading for each device, in the order of Devices,
	// after every sample. Fault gets every fault once, one at a time. Neither
	// may block: they are called by the sampling and the waiting goroutine.
	// Either may be nil.
	Readings func([]Reading)
	Fault    func(Fault)
}

const defaultInterval = 200 * time.Millisecond // as the paper's monitor samples

func (o WatchOptions) withDefaults() WatchOptions {
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	if o.Readings == nil {
		o.Readings = func([]Reading) {}
	}
	if o.Fault == nil {
		o.Fault = func(Fault) {}
	}
	return o
}
