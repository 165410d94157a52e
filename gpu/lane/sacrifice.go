package lane

import (
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// sacrifice gives up the idle box of a device that is worth least.
func (l *Lane) sacrifice(dev *device) (given *box, ok bool) {
	name, ok := dev.pool.Victim(l.value)
	if !ok {
		return nil, false
	}
	b := l.named[name]
	l.dispose(b)
	return b, true
}

// value tells a pool what the boxes of a shelf are worth.
func (l *Lane) value(shelf string) gpu.FlowView {
	f := l.shelves[shelf].flow
	return gpu.FlowView{
		State: l.standing(f), Rate: l.demand.Rate(l.now, f.name), Restart: l.demand.Restart(f.name),
	}
}

func (l *Lane) standing(f *flow) gpu.FlowState {
	switch state := l.policy.State(f.id); {
	case state == sched.Throttled:
		return gpu.Throttled
	case f.queued > 0:
		return gpu.Backlogged
	case state == sched.Active:
		return gpu.Active
	}
	return gpu.Inactive
}
