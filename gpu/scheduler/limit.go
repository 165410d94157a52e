package scheduler

import "github.com/gpuwhisk/gpuwhisk/gpu"

// A namespace may have a limit of device memory. The limit applies to each device separately.
// It covers the data of the namespace's running containers, resident or promised, and of its
// idle ones. Contexts and evicted memory do not count.

// namespaceLimit is the limit of a namespace, 0 for none.
func (s *Scheduler) namespaceLimit(namespace string) int64 {
	if n, ok := s.cfg.NamespaceLimits[namespace]; ok {
		return n
	}
	return s.cfg.NamespaceLimits["*"]
}

// data returns the part of a container's memory that counts for its namespace's limit.
func (s *Scheduler) data(c *container) int64 {
	if c.rev.noShim {
		return s.footprint(c)
	}
	return c.dev.ledger.Data(c.id)
}

// wanted returns the part of a run's need that counts for its namespace's limit.
func (s *Scheduler) wanted(rev *revision, need gpu.MemoryRequest) int64 {
	if rev.noShim {
		return need.Context - s.cfg.Context
	}
	return need.Bytes
}

// permits reports whether the namespace's limit leaves enough memory for a run in the
// container own, or in a new container if own is nil. Memory of idle containers does not
// count, because it can be evicted or freed with its container.
func (s *Scheduler) permits(dev *device, rev *revision, own *container, need gpu.MemoryRequest) bool {
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

// withinLimit reports whether all the memory of an idle container fits its namespace's limit
// beside the other containers.
func (s *Scheduler) withinLimit(c *container) bool {
	limit := c.rev.flow.space.limit
	if limit == 0 {
		return true
	}
	_, footprint := c.dev.ledger.Residency(c.id)
	return footprint+s.namespaceData(c.dev, c.rev, c, false) <= limit
}

// namespaceData sums up the data of the namespace's containers on a device, except one: the
// running containers only, or all.
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
