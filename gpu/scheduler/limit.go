package scheduler

import "github.com/gpuwhisk/gpuwhisk/gpu"

// A namespace may have a limit of device memory, for each device by itself: for the
// data of its running containers there, resident or promised, and that of its idle
// ones. Contexts do not count, nor does what was evicted.

// namespaceLimit is the limit of a namespace, 0 for none.
func (s *Scheduler) namespaceLimit(namespace string) int64 {
	if n, ok := s.cfg.NamespaceLimits[namespace]; ok {
		return n
	}
	return s.cfg.NamespaceLimits["*"]
}

// data is what a namespace's limit counts of a container.
func (s *Scheduler) data(c *container) int64 {
	if c.rev.noShim {
		return s.footprint(c)
	}
	return c.dev.ledger.Data(c.id)
}

// wanted is what it counts of a run's need.
func (s *Scheduler) wanted(rev *revision, need gpu.Need) int64 {
	if rev.noShim {
		return need.Context - s.cfg.Context
	}
	return need.Bytes
}

// permits reports whether the limit of a revision's namespace leaves what a run needs in
// the container own, or when that is nil in a new one. Memory of idle containers does not
// count: it can be evicted, or given up with its container.
func (s *Scheduler) permits(dev *device, rev *revision, own *container, need gpu.Need) bool {
	limit := rev.flow.space.limit
	if limit == 0 {
		return true
	}
	bytes := s.wanted(rev, need)
	if own != nil && len(own.runs) > 0 {
		bytes = max(bytes, s.data(own))
	}
	return bytes+s.namespaceData(dev, rev, own, true) <= limit
}

// withinLimit reports whether all the memory of an idle container fits its namespace's
// limit beside what the others have.
func (s *Scheduler) withinLimit(c *container) bool {
	limit := c.rev.flow.space.limit
	if limit == 0 {
		return true
	}
	_, footprint := c.dev.ledger.Residency(c.id)
	return footprint+s.namespaceData(c.dev, c.rev, c, false) <= limit
}

// namespaceData is the data of the containers of a revision's namespace on a device,
// but for one: of those that run, or of all.
func (s *Scheduler) namespaceData(dev *device, rev *revision, but *container, running bool) (sum int64) {
	for _, c := range dev.containers {
		if c != but && c.rev.flow.space == rev.flow.space && (len(c.runs) > 0 || !running) {
			sum += s.data(c)
		}
	}
	return sum
}

// enforceLimit evicts the memory of idle containers of a run's namespace where it
// would be beyond its limit, the longest idle first; one whose memory cannot be moved
// is removed.
func (s *Scheduler) enforceLimit(r *run) {
	c := r.container
	limit := c.rev.flow.space.limit
	if limit == 0 {
		return
	}
	own := max(s.data(c), r.asked)
	excess := own + s.namespaceData(c.dev, c.rev, c, false) - limit
	for at := s.idle.Front(); at != nil && excess > 0; {
		next := at.Next()
		i := at.Value.(*container)
		if n := s.data(i); i.dev == c.dev && n > 0 && i.rev.flow.space == c.rev.flow.space {
			excess -= n
			if !c.dev.ledger.MoveOut(s.now, i.id) {
				s.takeAway(i)
			}
		}
		at = next
	}
}
