package scheduler

import (
	"container/list"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// container is one container of a device.
type container struct {
	id       Container
	name     string // in pools and ledgers; in the order of the ids
	dev      *device
	rev      *revision
	hostMB   int
	width    int    // runs that it takes at once
	runs     []*run // granted there, in this order, and not left
	waiting  []*run // of them, whose reservation does not stand yet
	blocked  []*run // of them, whose reservation stands and whose memory or slot is coming
	inside   int    // of them, begun
	created  bool
	reported bool // a process has reported its memory
	failed   bool // takes no more runs
	removing bool
	dirty    bool // in the scheduler's list of them
	move     pendingMove

	resident int64
	// whole is what was resident when nothing had been ordered out since the last
	// run or since it was brought back; 0 is not known. evicted: something was.
	whole   int64
	evicted bool

	idle  *list.Element // in the scheduler's list, nil while something runs
	since time.Duration // when it became idle
}

// becomeIdle lists a container in which nothing runs any more, as of a time, with
// its memory as its flow's state says.
func (l *Scheduler) becomeIdle(c *container, since time.Duration) {
	c.since = since
	c.idle = l.idle.PushBack(c)
	f := c.rev.flow
	c.dev.ledger.SetEvictable(l.now, c.name, l.cfg.SwapEachRun || l.policy.State(f.id) != sched.Active)
	c.dev.ledger.Follow(c.name, &f.evictFlag)
}

// becomeBusy ends that.
func (l *Scheduler) becomeBusy(c *container) {
	if c.idle != nil {
		l.idle.Remove(c.idle)
		c.idle = nil
	}
	c.dev.ledger.Unfollow(c.name)
}

// expiredIdle is the longest idle container if it has been idle for too long, nil
// otherwise, and when it will have been; false for never.
func (l *Scheduler) expiredIdle() (c *container, at time.Duration, some bool) {
	if l.cfg.IdleTimeout <= 0 || l.idle.Len() == 0 {
		return nil, 0, false
	}
	c = l.idle.Front().Value.(*container)
	if at = c.since + l.cfg.IdleTimeout; at > l.now {
		return nil, at, true
	}
	return c, at, true
}

// newContainer orders a container of a revision.
func (l *Scheduler) newContainer(dev *device, rev *revision, invocation uint64) *container {
	l.counted++
	c := &container{
		id: l.counted, name: fmt.Sprintf("%012d", l.counted), dev: dev, rev: rev, hostMB: rev.hostMB, width: rev.width,
	}
	l.containers[c.id], l.byName[c.name] = c, c
	dev.containers = append(dev.containers, c)
	rev.addContainer(c)
	dev.pool.Add(l.now, c.name, rev)
	if l.limited {
		l.host.Free -= c.hostMB
	}
	l.order(Order{Do: Create, Invocation: invocation, Container: c.id, Device: dev.Index, Flow: rev.flow.id, HostMB: c.hostMB})
	return c
}

// adopted takes over a container that another process has created, and removes it
// at once where its device has no slot for it.
func (l *Scheduler) adopted(e Event) {
	if e.Function == nil || e.Device < 0 || e.Device >= len(l.devices) {
		return
	}
	dev := l.devices[e.Device]
	f := l.flow(e.Function.Flow)
	rev := l.revision(f, e.Function)
	l.weigh(f, e.Function.Weight)
	full := dev.pool.Full()
	c := l.newContainer(dev, rev, e.Invocation)
	c.created, c.evicted = true, true // what was ordered before is not known
	dev.ledger.Adopt(c.name)
	dev.pool.Limit(c.name, c.width)
	dev.pool.Put(l.now, c.name)
	since := l.now - max(e.Idle, 0)
	if last := l.idle.Back(); last != nil {
		since = max(since, last.Value.(*container).since) // the list is in this order
	}
	l.becomeIdle(c, since)
	if full || dev.lost != "" {
		l.fail(c)
		l.remove(c)
	}
	l.touch(f)
}

// fail lets a container take no more runs; it goes when the last has left.
func (l *Scheduler) fail(c *container) {
	if c.failed || c.removing {
		return
	}
	c.failed = true
	c.dev.pool.Limit(c.name, 0)
	l.touch(c.rev.flow)
}

// initialized lets a container take more than its first run.
func (l *Scheduler) initialized(c *container) {
	if c.failed || c.removing || c.width == 1 {
		return
	}
	c.dev.pool.Limit(c.name, c.width)
	l.touch(c.rev.flow)
}

// allAnswered tells whether every run in a container has answered.
func (c *container) allAnswered() bool {
	return !slices.ContainsFunc(c.runs, func(r *run) bool { return !r.answered })
}

// unlaunched appends a container's runs that have not begun.
func (c *container) unlaunched(buf []*run) []*run {
	for _, r := range c.runs {
		if !r.begun {
			buf = append(buf, r)
		}
	}
	return buf
}

// leave takes a run out of its container, which goes back to its pool or is removed.
func (l *Scheduler) leave(r *run, keep bool) {
	c := r.container
	c.runs = without(c.runs, r)
	l.setDirty(c)
	if r.begun {
		c.inside--
	}
	if !keep {
		l.fail(c)
	}
	fits := l.handOver(r)
	switch {
	case len(c.runs) > 0:
	case c.failed || !fits:
		l.remove(c)
	default:
		l.becomeIdle(c, l.now)
	}
	l.touch(c.rev.flow)
}

// answering finds a container of a revision that could take another run but for the
// bookkeeping and logs of one that has answered, and that run: the next may have its
// slot in the pool and begins when they are done, which is sooner than a cold start.
// A caller that has its answer may call again before they are. Nil where the pool
// keeps no container, or there is none such.
func (l *Scheduler) answering(dev *device, rev *revision) (*container, *run) {
	if all, _ := dev.pool.Len(); all > l.cfg.Pool.Size {
		return nil, nil
	}
	for _, c := range rev.containers {
		if c.dev != dev || c.failed || c.removing {
			continue
		}
		for _, r := range c.runs {
			if r.answered && !r.lent {
				return c, r
			}
		}
	}
	return nil, nil
}

// handOver gives back the slot of a run that leaves its container, and tells whether
// the pool keeps the container. A slot that was promised goes to the run that has
// the promise.
func (l *Scheduler) handOver(r *run) (fits bool) {
	if r.lent {
		return true
	}
	for _, owner := range r.container.runs {
		if owner.lent {
			owner.lent = false
			return true
		}
	}
	return r.container.dev.pool.Put(l.now, r.container.name)
}

// remove gives up a container in which nothing runs. Its memory, on the device and
// on the host, is free when it is gone.
func (l *Scheduler) remove(c *container) {
	c.removing = true
	c.move.open = false
	l.becomeBusy(c)
	c.dev.pool.Remove(c.name)
	c.dev.ledger.Leave(l.now, c.name)
	l.leaving += c.hostMB
	l.touch(c.rev.flow)
	l.order(Order{Do: Remove, Container: c.id, Device: c.dev.Index, Flow: c.rev.flow.id})
}

// died follows a container that has ended by itself.
func (l *Scheduler) died(c *container) {
	l.fail(c) // a run that is in it gives it up
	if c.removing || c.inside > 0 {
		return
	}
	l.requeueAll(c.unlaunched(nil))
	if len(c.runs) == 0 && !c.removing {
		l.remove(c)
	}
}

// removed frees what a removed container had.
func (l *Scheduler) removed(c *container) {
	if !c.removing {
		return
	}
	f := c.rev.flow
	l.dirty = without(l.dirty, c)
	delete(l.containers, c.id)
	delete(l.byName, c.name)
	c.dev.containers = without(c.dev.containers, c)
	c.rev.dropContainer(c)
	c.dev.ledger.Gone(l.now, c.name)
	l.leaving -= c.hostMB
	f.resident -= c.resident
	l.prune(c.rev)
	l.forget(f)
}

// hostGrown follows a container that takes more of the host now.
func (l *Scheduler) hostGrown(c *container, e Event) {
	more := int(min(e.Bytes, maxBytes)) - c.hostMB
	if more <= 0 {
		return
	}
	c.hostMB += more
	if c.removing {
		l.leaving += more
	}
}
