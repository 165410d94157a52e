package invoker

import (
	"slices"
	"sort"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// gpuBox is a box's part in the lane.
type gpuBox struct {
	device  *device
	flow    sched.FlowID
	key     string
	shim    string // the annotation's word
	unseen  bool   // its memory is not seen
	claimed int    // MiB of host memory
	width   int    // runs that it takes at once
	runs    []*run // granted there, in this order, and not left
	waiting []*run // of them, whose reservation does not stand yet
	held    []*run // of them, whose reservation stands and whose memory or place is coming
	heard   bool   // a process has said what it holds
	doomed  bool   // being removed
	failed  bool   // takes no more runs
	errand  errand
	since   time.Duration
}

// shut lets a container take no more runs; it goes when the last has left.
func (l *gpuLane) shut(b *box) {
	if b.gpu.failed || b.gpu.doomed {
		return
	}
	b.gpu.failed = true
	b.gpu.device.pool.Limit(b.name, 0)
}

// vacating finds a container of a key that would take another run but for the
// books and logs of one that has answered, and that run, whose place in the
// pool the next may have: it begins when those are done, which is sooner than a
// cold start. Who has an answer may call again before they are.
// Nil where the pool keeps no container, or there is none such.
func (l *gpuLane) vacating(dev *device, key string) (at *box, place *run) {
	if all, _ := dev.pool.Len(); all > l.settings.Pool.Size {
		return nil, nil
	}
	for _, b := range l.boxes {
		if b.gpu.device != dev || b.gpu.key != key || b.gpu.failed || b.gpu.doomed || (at != nil && at.name < b.name) {
			continue
		}
		if i := slices.IndexFunc(b.gpu.runs, (*run).vacates); i >= 0 {
			at, place = b, b.gpu.runs[i]
		}
	}
	return at, place
}

// vacates tells whether a run has answered and has its place in the pool still.
func (r *run) vacates() bool { return r.grant.closing.Load() && !r.grant.lent }

// lender is a run that has answered and whose place another one has, nil for
// none.
func (b *gpuBox) lender() *run {
	for _, r := range b.runs {
		if r.grant.lent {
			return r
		}
	}
	return nil
}

// inside counts the runs that began in the container and have not left it.
func (b *gpuBox) inside() int { return len(b.runs) - len(b.unlaunched()) }

// rests tells whether every run in the container has answered.
func (b *gpuBox) rests() bool {
	return !slices.ContainsFunc(b.runs, func(r *run) bool { return !r.grant.closing.Load() })
}

// warmed says that a container is initialised and takes more than its first
// run.
func (l *gpuLane) warmed(now time.Duration, b *box) {
	if b.gpu.failed || b.gpu.doomed || b.gpu.width == 1 {
		return
	}
	b.gpu.device.pool.Limit(b.name, b.gpu.width)
	l.policy.Touch(now, b.gpu.flow)
}

// retire gives a container back to its pool from one run, or up.
func (l *gpuLane) retire(now time.Duration, r *run, keep bool) {
	b := r.box
	b.gpu.runs = without(b.gpu.runs, r)
	b.gpu.since = now
	if !keep {
		l.shut(b)
	}
	fits := true
	switch owner := b.gpu.lender(); {
	case r.grant.lent: // its place is another's
	case owner != nil:
		owner.grant.lent = false
	default:
		fits = b.gpu.device.pool.Put(now, b.name)
	}
	switch {
	case len(b.gpu.runs) > 0:
	case b.gpu.failed || !fits:
		l.dispose(now, b)
	default:
		active := l.policy.State(b.gpu.flow) == sched.Active
		b.gpu.device.ledger.SetEvictable(now, b.name, !active)
	}
}

// dispose gives a container up in which nothing runs: it is removed, and its
// memory, on the device and on the host, is free when that is done.
func (l *gpuLane) dispose(now time.Duration, b *box) {
	b.gpu.doomed = true
	b.gpu.errand.stop()
	b.gpu.device.pool.Remove(b.name)
	b.gpu.device.ledger.Leave(now, b.name)
	l.policy.Touch(now, b.gpu.flow)
	l.d.remove(b, gpuGone{b})
}

// died takes the news that a container has ended by itself.
func (l *gpuLane) died(now time.Duration, b *box) {
	l.shut(b) // a run that is in it gives it up
	if !b.gpu.doomed && len(b.gpu.runs) == 0 {
		l.dispose(now, b)
	}
}

// gone frees what a removed container held.
func (l *gpuLane) gone(now time.Duration, b *box) {
	delete(l.boxes, b.name)
	b.gpu.device.ledger.Gone(now, b.name)
	l.d.pool.Unclaim(now, b.gpu.claimed)
	l.showResident(b.gpu.flow)
	l.forget(b.gpu.flow)
	l.touchMisfits(now)
}

// roomForOne gives an idle container up when the device's pool is full.
func (l *gpuLane) roomForOne(now time.Duration, dev *device) bool {
	return !dev.pool.Full() || l.sacrifice(now, dev)
}

// sacrifice gives up the idle container of a device that is worth least.
func (l *gpuLane) sacrifice(now time.Duration, dev *device) bool {
	name, ok := dev.pool.Victim(l.value(now))
	if ok {
		l.dispose(now, l.boxes[name])
	}
	return ok
}

// value tells a pool what the containers of a key are worth.
func (l *gpuLane) value(now time.Duration) func(key string) gpu.FlowView {
	return func(key string) gpu.FlowView {
		for _, b := range l.boxes { // all of a key are of one flow
			if b.gpu.key != key {
				continue
			}
			v := gpu.FlowView{State: gpu.Inactive}
			if st, ok := l.policy.Flow(b.gpu.flow); ok {
				v.State = flowState(st)
			}
			if f := l.flows[b.gpu.flow]; f != nil {
				v.Rate, v.Restart = l.demand.Rate(now, f.name), l.demand.Restart(f.name)
			}
			return v
		}
		return gpu.FlowView{State: gpu.Inactive}
	}
}

func flowState(s sched.FlowStats) gpu.FlowState {
	switch {
	case s.State == sched.Throttled:
		return gpu.Throttled
	case s.Queued > 0:
		return gpu.Backlogged
	case s.State == sched.Active:
		return gpu.Active
	}
	return gpu.Inactive
}

// idle lists containers in which nothing runs, the longest idle first.
func (l *gpuLane) idle() []*box {
	var out []*box
	for _, b := range l.boxes {
		if len(b.gpu.runs) == 0 && !b.gpu.doomed {
			out = append(out, b)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].gpu.since != out[j].gpu.since {
			return out[i].gpu.since < out[j].gpu.since
		}
		return out[i].name < out[j].name
	})
	return out
}

func without(runs []*run, r *run) []*run {
	return slices.DeleteFunc(runs, func(other *run) bool { return other == r })
}
