package scheduler

import (
	"maps"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// pendingMove is the newest order to move a container's memory.
type pendingMove struct {
	kind     gpu.OrderKind
	epoch    uint64
	open     bool          // its acknowledgement is awaited
	began    time.Duration // when it was first ordered
	asked    int           // how often it was ordered
	resident int64         // when it was first ordered
	// serves is the epoch of the prefetch that brought the memory for the next run of
	// the container or those in it now; 0 for none.
	serves  uint64
	arrived bool  // it was acknowledged
	moved   int64 // bytes, when it was
}

// brings reports whether memory is on its way to the device.
func (m *pendingMove) brings() bool { return m.open && m.kind == gpu.Prefetch }

// leaves reports whether memory is on its way off the device.
func (m *pendingMove) leaves() bool { return m.open && m.kind == gpu.Evict }

// keepsPace reports whether as much has moved by now as the slowest link moves. A large
// move may take longer than an acknowledgement, but no container keeps the device by
// moving a page now and then.
func (m *pendingMove) keepsPace(now time.Duration, resident int64) bool {
	moved := resident - m.resident
	if m.kind == gpu.Evict {
		moved = -moved
	}
	return moved > 0 && gpu.SlowestMove(moved) >= now-m.began
}

// cancelMove ends a move whose acknowledgement is not awaited any more.
func (s *Scheduler) cancelMove(c *container) {
	if !c.move.open {
		return
	}
	c.move.open = false
	s.orderFor(c, Order{Do: CancelMove, Move: c.move.kind, Epoch: c.move.epoch})
}

// orderMoves orders a ledger's moves and collects the reservations that stand.
func (s *Scheduler) orderMoves(dev *device) {
	for s.collectMoves(dev); len(dev.moves) > 0; s.collectMoves(dev) {
		m := dev.moves[0]
		dev.moves = dev.moves[1:]
		if c := s.containers[m.Container]; c != nil && !c.removing && dev.lost == "" {
			s.orderMove(c, m)
		}
	}
}

// collectMoves reads a ledger's decisions. Moves are kept for orderMoves, and runs whose
// reservations are granted are to be launched.
func (s *Scheduler) collectMoves(dev *device) {
	moves, standing := dev.ledger.Ready()
	dev.moves = append(dev.moves, moves...)
	for _, id := range standing {
		c := s.containers[id]
		s.starting = append(s.starting, c.waiting[0])
		c.waiting = c.waiting[1:]
	}
}

const (
	// maxAsked is how often a move is ordered within the acknowledgement timeout. Then
	// its container counts as unresponsive, unless its memory keeps pace.
	maxAsked = 2
	// distrustTime is the time for which a function's containers are removed instead of
	// evicted, after one of them ignored an eviction. Otherwise each new container could delay
	// the runs of other functions again.
	distrustTime = time.Hour
)

// orderMove orders a move of a container, again if need be.
func (s *Scheduler) orderMove(c *container, m gpu.Move) {
	// A run that gave its token back may be inside the container: it leaves first.
	if m.Kind == gpu.Evict && s.now < s.distrusted[c.rev.flow.id] {
		s.unusable(c)
		return
	}
	p := &c.move
	resident, footprint := c.dev.ledger.Residency(c.id)
	if p.epoch != m.Epoch {
		*p = pendingMove{kind: m.Kind, epoch: m.Epoch, began: s.now, resident: resident}
		if m.Kind == gpu.Prefetch {
			p.serves = m.Epoch
		} else {
			c.evicted = true
		}
	}
	if p.asked == maxAsked && !p.keepsPace(s.now, resident) && s.giveUp(c) {
		return
	}
	p.open = true
	p.asked = min(p.asked+1, maxAsked)
	s.orderFor(c, Order{
		Do: Move, Move: m.Kind, Epoch: m.Epoch, Bytes: m.Bytes, Again: m.Again, Footprint: footprint,
	})
}

// giveUp removes an unresponsive container, which frees its memory for sure. The runs
// that had been granted to it run elsewhere. It does nothing and returns false while a run
// is inside the container, because that run would be lost.
func (s *Scheduler) giveUp(c *container) bool {
	if c.inside() > 0 {
		return false
	}
	s.orderFor(c, Order{Do: Unresponsive, Move: c.move.kind, Epoch: c.move.epoch})
	if c.move.kind == gpu.Evict {
		s.distrust(c.rev.flow)
	}
	s.unusable(c)
	return true
}

// distrust has the containers of a flow removed instead of evicted for a while.
func (s *Scheduler) distrust(f *flow) {
	maps.DeleteFunc(s.distrusted, func(_ sched.FlowID, until time.Duration) bool { return until <= s.now })
	s.distrusted[f.id] = s.now + distrustTime
}

// moved follows the end of a move. Without an acknowledgement the move stays open:
// the ledger orders it again.
func (s *Scheduler) moved(c *container, e Event) {
	if !e.OK || !c.dev.ledger.Moved(s.now, c.id, e.Epoch) {
		return
	}
	c.move.open, c.move.arrived, c.move.moved = false, true, e.Bytes
	if c.move.kind == gpu.Prefetch {
		c.evicted = false
	}
	if e.Bytes > 0 && c.move.asked == 1 {
		c.dev.speed.learn(e.Bytes, s.now-c.move.began)
	}
	s.release(c)
}

// memoryReported takes the usage of a process of a container.
func (s *Scheduler) memoryReported(c *container, e Event) {
	dev := c.dev
	if e.Exited {
		dev.ledger.Exited(s.now, c.id, e.PID)
	} else if dev.ledger.Report(s.now, c.id, e.PID, c.charged(e.Usage)) != nil {
		return
	}
	c.reported = true
	resident, _ := dev.ledger.Residency(c.id)
	if !c.evicted {
		c.whole = resident
	}
	footprint := s.footprint(c)
	for _, r := range c.runs {
		r.peak = max(r.peak, footprint)
	}
}

// charged is how a usage is accounted. Memory of a container without a shim cannot be
// moved: it is all overhead.
func (c *container) charged(u gpu.Usage) gpu.Usage {
	if !c.rev.noShim || u.Allocated < 0 || u.Resident < 0 || u.Context < 0 {
		return u
	}
	all := c.dev.MemoryBytes
	return gpu.Usage{Context: min(u.Context, all) + min(max(u.Allocated, u.Resident), all)}
}
