package invoker

import (
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
)

// What is told of devices from outside.

// Observe takes what devices show, from any goroutine and at any time. It does
// not block: a reading that comes while the dispatcher has too much to do is
// dropped, for a newer one follows.
func (iv *Invoker) Observe(readings []gpu.Reading) {
	if !iv.dispatch.crowded() {
		iv.tell(observed{readings})
	}
}

// DeviceLost tells that a device cannot be used any more and why. Its work is
// ended, what is queued goes to other devices or waits.
func (iv *Invoker) DeviceLost(index int, why string) {
	iv.tell(deviceLost{index, lane.OfDevice, why})
}

// DeviceBack tells that a lost device can be used again.
func (iv *Invoker) DeviceBack(index int) { iv.tell(deviceBack{index, lane.OfDevice}) }

// DaemonLost tells that the daemon by which containers share a device is away,
// DaemonBack that it serves again. A device is used when both it and its daemon
// are there.
func (iv *Invoker) DaemonLost(index int, why string) {
	iv.tell(deviceLost{index, lane.OfDaemon, why})
}

// DaemonBack is the end of DaemonLost.
func (iv *Invoker) DaemonBack(index int) { iv.tell(deviceBack{index, lane.OfDaemon}) }
