package lane

import (
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// sacrifice gives up the idle box of a device that is worth least.
func (l *Lane) sacrifice(dev *device) (given *box, ok bool) {
	name, ok := dev.pool.Victim(worth{l})
	if !ok {
		return nil, false
	}
	b := l.named[name]
	l.dispose(b)
	return b, true
}

// worth tells a pool what the boxes of a revision are worth.
type worth struct{ l *Lane }

// Waits says that work of the flow is queued. Nobody is throttled who has none.
func (w worth) Waits(rev *revision) bool { return rev.flow.queued > 0 }

// Demand is what the flow's boxes save a second.
func (w worth) Demand(rev *revision) float64 {
	d := &rev.flow.demand
	return w.l.demand.Rate(w.l.now, d) * d.Restart()
}

// Standing is the flow's state, as far as its boxes are concerned.
func (w worth) Standing(rev *revision) gpu.FlowState {
	f := rev.flow
	switch state := w.l.policy.State(f.id); {
	case state == sched.Throttled:
		return gpu.Throttled
	case f.queued > 0:
		return gpu.Backlogged
	case state == sched.Active:
		return gpu.Active
	}
	return gpu.Inactive
}
