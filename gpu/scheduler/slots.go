package scheduler

import (
	"slices"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// use records that a slot of a container was taken, returned or opened.
func (s *Scheduler) use(c *container) {
	s.used++
	c.used = s.used
}

// slots is how many of a container's slots are taken, and how many it has now. A run
// that has its answer may have lent its slot to another.
func (c *container) slots() (taken, all int) {
	for _, r := range c.runs {
		if !r.lent {
			taken++
		}
	}
	switch {
	case c.failed || c.removing:
		return taken, 0
	case !c.initialized:
		return taken, 1
	}
	return taken, c.width
}

// serving returns the container that would take the next run of a revision on a device, nil
// for a new one, and the kind of that start. If the container has no free slot, lender is the
// answered run that would lend its slot.
//
// A container that is about to be free goes before a new one. If its memory is on the device, it
// goes before an idle container whose memory is on the host, too. The run then waits for some
// milliseconds of bookkeeping and moves no memory.
func (s *Scheduler) serving(dev *device, rev *revision) (own *container, kind sched.StartKind, lender *run) {
	kind = sched.Cold
	for _, c := range rev.containers {
		if c.dev != dev || c.removing {
			continue
		}
		kind = sched.BusyCold
		if taken, all := c.slots(); taken < all && (own == nil || c.preferred(own)) {
			own = c
		}
	}
	if own != nil {
		kind = startKind(own)
	}
	if kind == sched.HostWarm || kind == sched.BusyCold {
		if c, r := s.answering(dev, rev); c != nil && startKind(c) < kind {
			own, kind, lender = c, startKind(c), r
		}
	}
	return own, kind, lender
}

// preferred reports whether a container takes a run rather than another container: a container
// with runs first, then the one used last, whose memory is most likely on the device.
func (c *container) preferred(other *container) bool {
	if shared := len(c.runs) > 0; shared != (len(other.runs) > 0) {
		return shared
	}
	return c.used > other.used
}

// answering returns a container of the revision on the device, and a run in the container
// that has its answer but still holds its slot, because its bookkeeping and logs are not done.
// The answered run lends the slot to the next run, which begins after the bookkeeping. That is
// sooner than a cold start, and callers often call again as soon as they have an answer.
// answering returns nil if no run has its answer, or if more containers are kept on the device
// than the pool allows.
//
// The wait ends, because a run leaves its container at the latest when the time limits for
// reading its logs have passed. If the container fails before, the next run goes back to its
// queue.
func (s *Scheduler) answering(dev *device, rev *revision) (*container, *run) {
	if dev.kept > s.cfg.Pool.Size {
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

// take takes a slot of a container of a revision, or makes a new container; nil when
// neither can be had. lender is the run that lends its slot, mostly nil.
func (s *Scheduler) take(dev *device, rev *revision, invocation uint64) (c *container, kind sched.StartKind, lender *run) {
	c, kind, lender = s.serving(dev, rev)
	switch {
	case lender != nil:
		return c, kind, lender
	case c != nil:
		s.use(c)
		c.lastUsed = s.now
		return c, kind, nil
	case !s.hasSlot(dev) || s.limited && rev.hostMB > s.host.Free:
		return nil, kind, nil
	}
	if size := s.cfg.Pool.Size; size > 0 && dev.kept >= size && !s.evictForContainer(dev) {
		return nil, kind, nil
	}
	return s.newContainer(dev, rev, invocation), kind, nil
}

// returnSlot gives back the slot of a run that leaves its container. Where another
// run had lent it, that one has it back.
func (s *Scheduler) returnSlot(r *run) {
	if r.lent {
		return
	}
	c := r.container
	if i := slices.IndexFunc(c.runs, func(owner *run) bool { return owner.lent }); i >= 0 {
		c.runs[i].lent = false
		return
	}
	s.use(c)
	c.lastUsed = s.now
}
