package scheduler

import (
	"container/list"
	"slices"
	"time"
)

// container is one container of a device.
//
//	len(runs) == len(waiting) + len(blocked) + starting + inside()
type container struct {
	id       Container
	dev      *device
	rev      *revision
	hostMB   int
	width    int    // runs that it takes at once
	runs     []*run // granted there, in this order, and not left
	waiting  []*run // those whose reservation is not granted yet
	blocked  []*run // those whose reservation is granted and whose memory or slot is on its way
	reported bool   // a process has reported its memory
	move     pendingMove

	initialized bool
	served      bool // a run ended well in it
	failed      bool // takes no more runs, and is removed when the last has left
	removing    bool
	overdue     bool // it should have been gone by now, and an order said so

	// whole is the resident size at the last time when nothing was evicted, 0 if unknown.
	// evicted is true if memory has been evicted since.
	whole   int64
	evicted bool

	used     uint64        // Scheduler.used when a slot was taken, returned or opened last
	lastUsed time.Duration // when that was
	idle     *list.Element // in the scheduler's list, nil while something runs
	since    time.Duration // when it became idle
}

func (c *container) isIdle() bool { return c.idle != nil }

// becomeIdle lists a container in which nothing runs any more, as of a time. Its
// memory is evictable unless its flow is active.
func (s *Scheduler) becomeIdle(c *container, since time.Duration) {
	c.since = since
	c.idle = s.idle.PushBack(c)
	c.dev.idle++
	c.dev.ledger.SetHold(s.now, c.id, s.holdOf(c.rev.flow))
}

// becomeBusy ends that.
func (s *Scheduler) becomeBusy(c *container) {
	if c.idle != nil {
		s.idle.Remove(c.idle)
		c.idle = nil
		c.dev.idle--
	}
}

// expiredIdle is the longest idle container if it has been idle for too long, nil
// otherwise, and when it will have been; false for never.
func (s *Scheduler) expiredIdle() (c *container, at time.Duration, some bool) {
	if s.cfg.IdleTimeout <= 0 || s.idle.Len() == 0 {
		return nil, 0, false
	}
	c = s.idle.Front().Value.(*container)
	if at = c.since + s.cfg.IdleTimeout; at > s.now {
		return nil, at, true
	}
	return c, at, true
}

// newContainer orders a container of a revision.
func (s *Scheduler) newContainer(dev *device, rev *revision, invocation uint64) *container {
	s.created++
	c := &container{id: s.created, dev: dev, rev: rev, hostMB: rev.hostMB, width: rev.width, lastUsed: s.now}
	s.containers[c.id] = c
	dev.containers = append(dev.containers, c)
	dev.kept++
	s.hostMB += c.hostMB
	rev.addContainer(c)
	if s.limited {
		s.host.Free -= c.hostMB
	}
	if rev.flow == s.claim {
		s.claim, s.kept = nil, 0
	}
	s.orderFor(c, Order{Do: Create, Invocation: invocation, HostMB: c.hostMB})
	return c
}

// adopted takes over a container that another process created. If its device has no slot for
// the container, the container is removed at once.
func (s *Scheduler) adopted(e Event) {
	if e.Function == nil || e.Device < 0 || e.Device >= len(s.devices) {
		return
	}
	dev := s.devices[e.Device]
	f := s.flow(e.Function.Flow)
	rev := s.revision(f, e.Function)
	s.weigh(f, e.Function.Weight)
	full := dev.kept >= s.cfg.Pool.Size
	c := s.newContainer(dev, rev, e.Invocation)
	c.initialized, c.evicted = true, true // whether it was evicted before is not known
	s.use(c)
	dev.ledger.Adopt(c.id)
	since := s.now - max(e.Idle, 0)
	if last := s.idle.Back(); last != nil {
		since = max(since, last.Value.(*container).since) // the list is in this order
	}
	s.becomeIdle(c, since)
	if full || dev.lost != "" {
		c.failed = true
		s.remove(c)
	}
}

// initialized lets a container take more than its first run.
func (s *Scheduler) initialized(c *container) {
	if c.failed || c.removing || c.width == 1 {
		return
	}
	c.initialized = true
	s.use(c)
}

// allAnswered reports whether every run in a container has answered.
func (c *container) allAnswered() bool {
	return !slices.ContainsFunc(c.runs, func(r *run) bool { return !r.answered })
}

// unlaunched lists a container's runs that have not begun.
func (c *container) unlaunched() (runs []*run) {
	for _, r := range c.runs {
		if !r.begun {
			runs = append(runs, r)
		}
	}
	return runs
}

// inside is how many of a container's runs have begun.
func (c *container) inside() (n int) {
	for _, r := range c.runs {
		if r.begun {
			n++
		}
	}
	return n
}

// leave takes a run out of its container, which becomes idle or is removed.
func (s *Scheduler) leave(r *run, keep bool) {
	c := r.container
	c.runs = without(c.runs, r)
	if !keep {
		c.failed = true
	}
	s.returnSlot(r)
	switch {
	case len(c.runs) > 0:
	case c.failed || c.dev.kept > s.cfg.Pool.Size:
		s.remove(c)
	default:
		s.becomeIdle(c, s.now)
	}
}

// remove begins the removal of a container in which nothing runs. Its memory, on the
// device and on the host, is free when it is gone.
func (s *Scheduler) remove(c *container) {
	c.removing = true
	c.move.open = false
	c.dev.kept--
	s.becomeBusy(c)
	c.dev.ledger.Leave(s.now, c.id)
	s.orderFor(c, Order{Do: Remove})
}

// reportOverdue reports the containers of a device that should have been gone by now.
func (s *Scheduler) reportOverdue(dev *device) {
	for _, c := range dev.containers {
		if !c.overdue && dev.ledger.Overdue(c.id) {
			c.overdue = true
			s.orderFor(c, Order{Do: RemovalOverdue})
		}
	}
}

// overdueBytes returns the memory of the overdue containers.
func (dev *device) overdueBytes() (sum int64) {
	for _, c := range dev.containers {
		if c.overdue {
			sum += dev.ledger.Data(c.id) + dev.ledger.Overhead(c.id)
		}
	}
	return sum
}

// unusable handles a container that has ended or must not be used. Runs that have not begun in
// it go back to their queues. Runs that have begun end with their own events.
func (s *Scheduler) unusable(c *container) {
	c.failed = true
	s.requeueAll(c.unlaunched())
	if len(c.runs) == 0 && !c.removing {
		s.remove(c)
	}
}

// removed releases the resources of a removed container.
func (s *Scheduler) removed(c *container) {
	if !c.removing {
		return
	}
	delete(s.containers, c.id)
	s.hostMB -= c.hostMB
	c.dev.containers = without(c.dev.containers, c)
	c.rev.dropContainer(c)
	c.dev.ledger.Gone(s.now, c.id)
	s.resized(c.dev)
	c.rev.flow.prune()
	s.forget(c.rev.flow)
}

// without is a list without an element.
func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
