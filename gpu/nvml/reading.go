package nvml

import (
	"cmp"
	"math"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// Reading is one sample of a device.
type Reading struct {
	// Device is the index of the gpu.Device.
	Device int
	At     time.Time
	// Utilization is the share of the driver's last sampling period in which
	// a kernel ran, 0 to 1, and Average its moving average. Both are negative
	// where the driver does not report it, as on a MIG slice.
	Utilization, Average float64
	Memory               Memory
	// Processes hold contexts on the device. Listed is false where the driver
	// does not list them.
	Processes []Process
	Listed    bool
	// Lost is true while the device does not answer.
	Lost bool
}

// WatchOptions are what is sampled and where it is reported.
type WatchOptions struct {
	Devices []gpu.Device
	// Interval is the time between samples; 0 means 200 ms.
	Interval time.Duration
	// Window is the time of the moving average; 0 means a second.
	Window time.Duration
	// Readings gets one Reading for each device, in the order of Devices,
	// after every sample. Fault gets every fault once, one at a time. Neither
	// may block: they are called by the sampling and the waiting goroutine.
	// Either may be nil.
	Readings func([]Reading)
	Fault    func(Fault)
}

const (
	defaultInterval = 200 * time.Millisecond // as the paper's monitor samples
	defaultWindow   = time.Second
)

func (o WatchOptions) withDefaults() WatchOptions {
	o.Interval, o.Window = cmp.Or(o.Interval, defaultInterval), cmp.Or(o.Window, defaultWindow)
	if o.Readings == nil {
		o.Readings = func([]Reading) {}
	}
	if o.Fault == nil {
		o.Fault = func(Fault) {}
	}
	return o
}

// average is an exponential moving average over irregular samples.
type average struct {
	value  float64
	last   time.Time
	primed bool
}

// add takes a sample and returns the average. The weight of the new sample is
// 1-exp(-dt/window): a late one counts for the time it stands for.
func (a *average) add(at time.Time, v float64, window time.Duration) float64 {
	if !a.primed {
		a.value, a.last, a.primed = v, at, true
		return v
	}
	dt := max(at.Sub(a.last), 0)
	a.value += (1 - math.Exp(-float64(dt)/float64(window))) * (v - a.value)
	a.last = at
	return a.value
}
