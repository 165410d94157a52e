package invoker

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
)

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

// observed is what devices show at a moment.
type observed struct{ readings []gpu.Reading }

func (e observed) apply(d *dispatcher, now time.Duration) { d.gpus.observe(now, e.readings) }

type deviceLost struct {
	index int
	of    lane.Loss
	why   string
}

func (e deviceLost) apply(d *dispatcher, now time.Duration) { d.gpus.lose(now, e.index, e.of, e.why) }

type deviceBack struct {
	index int
	of    lane.Loss
}

func (e deviceBack) apply(d *dispatcher, now time.Duration) { d.gpus.regain(now, e.index, e.of) }

// answered says that a run has its response and its container stays.
type answered struct{ run *run }

func (e answered) apply(d *dispatcher, now time.Duration) {
	d.gpus.take(now, lane.Event{Kind: lane.Answered, Item: e.run.item})
}

// over says that a run's part on the GPU has ended and what its container holds
// is known; the container is still busy with it until it has left. seen is
// closed when the dispatcher knows it, and with it all that it was told before.
type over struct {
	run  *run
	keep bool
	seen chan struct{}
}

func (e over) apply(d *dispatcher, now time.Duration) {
	d.gpus.over(now, left{run: e.run, keep: e.keep})
	close(e.seen)
}

// gpuGone says that a GPU container is removed and its memory free.
type gpuGone struct{ box *box }

func (e gpuGone) apply(d *dispatcher, now time.Duration) { d.gpus.gone(now, e.box) }

// held is what a process of a GPU container says it holds.
type held struct{ gpu.Held }

func (e held) apply(d *dispatcher, now time.Duration) { d.gpus.heard(now, e.Held) }

// moved says that the mover's work on an order has ended.
type moved struct {
	box   *box
	order gpu.Order
	bytes int64
	err   error // the order is not carried out, or nobody knows
}

func (e moved) apply(d *dispatcher, now time.Duration) { d.gpus.moved(now, e) }
