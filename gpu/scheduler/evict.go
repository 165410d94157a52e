package scheduler

import (
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// evictContainer removes the idle container of a device that is worth least.
func (l *Scheduler) evictContainer(dev *device) (c *container, ok bool) {
	name, ok := dev.pool.Victim(worth{l})
	if !ok {
		return nil, false
	}
	c = l.byName[name]
	l.remove(c)
	return c, true
}

// worth tells a pool what the containers of a revision are worth.
type worth struct{ l *Scheduler }

// Waits says that work of the flow is queued, as it is of every throttled one.
func (w worth) Waits(rev *revision) bool { return rev.flow.queue.Len() > 0 }

// Demand is what the flow's containers save a second.
func (w worth) Demand(rev *revision) float64 {
	d := &rev.flow.demand
	return w.l.demand.Rate(w.l.now, d) * d.Restart()
}

// Standing is the flow's state, as far as its containers are concerned.
func (w worth) Standing(rev *revision) gpu.FlowState {
	f := rev.flow
	switch state := w.l.policy.State(f.id); {
	case state == sched.Throttled:
		return gpu.Throttled
	case f.queue.Len() > 0:
		return gpu.Backlogged
	case state == sched.Active:
		return gpu.Active
	}
	return gpu.Inactive
}

// evictForReservation removes idle containers for a reservation that even moving
// all idle memory out would not let stand: a context stays on the device as long as
// its container lives. When that does not help either, and nothing runs or leaves,
// nor is a container about to be idle, the reservation waits for nothing that will
// come: the run goes back to its queue, where a free device may serve it.
//
// It reports whether a run went back.
func (l *Scheduler) evictForReservation(dev *device) (back bool) {
	for dev.ledger.Shortfall() > 0 {
		if _, ok := l.evictContainer(dev); !ok {
			break
		}
	}
	if dev.ledger.Shortfall() == 0 || dev.ledger.Running() || dev.emptying() {
		return false
	}
	var hopeless []*run
	for _, c := range dev.containers {
		hopeless = append(hopeless, c.waiting...)
	}
	l.requeueAll(hopeless)
	return len(hopeless) > 0
}

// emptying tells whether a container of the device will soon have less in it than
// now: logs are being read that no token is taken for.
func (dev *device) emptying() bool {
	for _, c := range dev.containers {
		if c.inside > 0 {
			return true
		}
	}
	return false
}

// evictForHost removes idle containers where host memory is short: for what the
// outside waits for, or for a new container of another flow. What others have and
// do not use is asked for before.
func (l *Scheduler) evictForHost() {
	if !l.limited {
		return
	}
	lack := l.host.Needed
	if f := l.shortOfHost(); f != nil {
		switch mb := f.next().hostMB; {
		case mb > l.host.Free+l.host.Reclaimable:
			lack = max(lack, mb-l.host.Free)
		case !l.asked:
			l.asked = true
			l.order(Order{Do: ReclaimHost, Flow: f.id, HostMB: mb})
		}
	}
	lack -= l.leaving
	for _, dev := range l.devices {
		for lack > 0 {
			c, ok := l.evictContainer(dev)
			if !ok {
				break
			}
			lack -= c.hostMB
		}
	}
}

// shortSearch bounds how many flows are looked at while others run: one that is
// further behind is found when those before it have run.
const shortSearch = 64

// shortOfHost is the flow whose work has waited longest for host memory and for
// nothing else; nil for none.
func (l *Scheduler) shortOfHost() *flow {
	if l.backlog.Len() == 0 || l.host.Free >= l.largestHost {
		return nil
	}
	free, busy := false, false
	for _, dev := range l.devices {
		free = free || dev.open()
		busy = busy || dev.inFlight > 0
	}
	if !free {
		return nil
	}
	n := 0
	for at := l.backlog.Front(); at != nil; at = at.Next() {
		if n++; n > shortSearch && busy {
			return nil
		}
		f := at.Value.(*flow)
		if rev := f.next(); !l.affords(rev) && l.policy.State(f.id) == sched.Active && l.lacksOnlyHost(rev) {
			return f
		}
	}
	return nil
}

// lacksOnlyHost tells whether a device has everything for a new container of a
// revision but host memory, and no container that would do.
func (l *Scheduler) lacksOnlyHost(rev *revision) bool {
	for _, dev := range l.devices {
		if own, _, _ := l.serving(dev, rev); dev.open() && own == nil && l.hasSlot(dev) && l.hasMemory(dev, rev, nil) {
			return true
		}
	}
	return false
}

// open tells whether a device is there and has a free token.
func (dev *device) open() bool { return dev.lost == "" && dev.inFlight < dev.d }

// A namespace may have a limit of device memory, for each device by itself: for what
// its running containers have there or were promised, and what its idle ones have
// left there. Contexts do not count, nor does what was moved out.

// namespaceLimit is the limit of a namespace, 0 for none.
func (l *Scheduler) namespaceLimit(namespace string) int64 {
	if n, ok := l.cfg.NamespaceLimits[namespace]; ok {
		return n
	}
	return l.cfg.NamespaceLimits["*"]
}

// permits tells whether the limit of a revision's namespace leaves so many bytes to
// a run in the container own, or when that is nil in a new one: what runs stays, what
// is idle can be moved out or removed.
func (l *Scheduler) permits(dev *device, rev *revision, own *container, bytes int64) bool {
	limit := l.namespaceLimit(rev.flow.id.Namespace)
	if limit == 0 {
		return true
	}
	if own != nil && len(own.runs) > 0 {
		bytes = max(bytes, dev.ledger.Data(own.name))
	}
	return bytes+l.namespaceData(dev, rev, own, true) <= limit
}

// withinLimit tells whether all the memory of an idle container fits its namespace's
// limit beside what the others have.
func (l *Scheduler) withinLimit(c *container) bool {
	limit := l.namespaceLimit(c.rev.flow.id.Namespace)
	if limit == 0 {
		return true
	}
	_, footprint := c.dev.ledger.Residency(c.name)
	return footprint+l.namespaceData(c.dev, c.rev, c, false) <= limit
}

// namespaceData is what the containers of a revision's namespace have on a device,
// but for one; of those that run alone, or of all.
func (l *Scheduler) namespaceData(dev *device, rev *revision, but *container, running bool) (sum int64) {
	for _, c := range dev.containers {
		if c != but && c.rev.flow.id.Namespace == rev.flow.id.Namespace && (len(c.runs) > 0 || !running) {
			sum += dev.ledger.Data(c.name)
		}
	}
	return sum
}

// enforceLimit moves out the memory of idle containers of a run's namespace where it
// would be beyond its limit, the longest idle first; one whose memory cannot be moved
// is removed.
func (l *Scheduler) enforceLimit(r *run) {
	c := r.container
	limit := l.namespaceLimit(c.rev.flow.id.Namespace)
	if limit == 0 {
		return
	}
	own := max(c.dev.ledger.Data(c.name), r.need.Bytes)
	excess := own + l.namespaceData(c.dev, c.rev, c, false) - limit
	for at := l.idle.Front(); at != nil && excess > 0; {
		next := at.Next()
		i := at.Value.(*container)
		if n := c.dev.ledger.Data(i.name); i.dev == c.dev && n > 0 && i.rev.flow.id.Namespace == c.rev.flow.id.Namespace {
			excess -= n
			if !c.dev.ledger.MoveOut(l.now, i.name) {
				l.remove(i)
			}
		}
		at = next
	}
}
