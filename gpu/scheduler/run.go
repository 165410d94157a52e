package scheduler

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// run is an invocation that was granted a token, until it has left its container.
//
//	granted -> standing -> begun (Start) -> answered -> over -> left
type run struct {
	in        *invocation
	rev       *revision
	container *container
	kind      sched.StartKind
	need      gpu.MemoryRequest
	asked     int64         // bytes of data that were reserved
	granted   time.Duration // when
	waited    time.Duration // before that
	charged   time.Duration
	first     bool // no other run was at work in the container
	begun     bool
	answered  bool // the answer is there and the container stays
	over      bool // the token is given back; the container is not, yet
	lent      bool // answered, and its slot in the container is taken by another run

	launched time.Duration
	before   uint64 // epoch of the move that was done when it was granted
	transfer uint64 // epoch of the prefetch that served it, 0 for none
	// peak is the most memory of the container since the grant, negative until it is
	// reported.
	peak int64
	// shared sums the time since the launch, times the runs on the device in it.
	shared time.Duration
}

// grantNext grants one token; false when nothing may and can run.
func (s *Scheduler) grantNext() bool {
	choice, ok := s.policy.Next(s.now)
	if !ok {
		return false
	}
	in := s.invocations[choice.Invocation]
	rev, dev := in.rev, s.devices[choice.Device]
	c, kind, lender := s.take(dev, rev, in.id)
	if c == nil {
		s.misjudged++
		s.policy.Undo(s.now, in.id)
		return false
	}
	own := c
	if !kind.Warm() {
		own = nil
	}
	r := &run{
		in: in, rev: rev, container: c, kind: kind, need: s.need(dev, rev, own),
		granted: s.now, waited: choice.Waited, charged: choice.Charged, first: c.allAnswered(), peak: -1,
	}
	if lender != nil {
		lender.lent = true
	}
	if c.move.arrived {
		r.before = c.move.epoch
	}
	r.asked = s.wanted(rev, r.need)
	if c.reported {
		r.peak = s.footprint(c)
	}
	f := rev.flow
	s.dequeue(f, in)
	in.run = r
	dev.inFlight++
	c.runs = append(c.runs, r)
	s.becomeBusy(c)
	s.reserve(r)
	return true
}

// footprint is the memory of a container's processes altogether, less contexts.
func (s *Scheduler) footprint(c *container) int64 {
	if c.rev.noShim {
		return max(0, c.dev.ledger.Overhead(c.id)-s.cfg.Context)
	}
	_, footprint := c.dev.ledger.Residency(c.id)
	return footprint
}

// memory returns the peak memory of a run's container, or the reservation if there was no
// report.
func (r *run) memory() int64 {
	if r.peak >= 0 {
		return r.peak
	}
	return r.asked
}

// reserve asks the ledger for the run's memory; the run starts when the
// reservation stands.
func (s *Scheduler) reserve(r *run) {
	c := r.container
	standing, err := c.dev.ledger.Reserve(s.now, c.id, r.need)
	if err != nil {
		s.refuseRun(r, err)
		return
	}
	s.enforceLimit(r)
	if c.move.open && !c.dev.ledger.Awaits(c.id, c.move.epoch) {
		s.cancelMove(c)
	}
	if standing {
		s.starting = append(s.starting, r)
		return
	}
	c.waiting = append(c.waiting, r)
}

// refuseRun ends a run whose reservation can never stand.
func (s *Scheduler) refuseRun(r *run, err error) {
	why := TooBig
	if !errors.Is(err, gpu.ErrTooBig) {
		why = Broken
	}
	s.orderFor(r.container, Order{
		Do: Refuse, Invocation: r.in.id, Reason: why, Memory: r.asked, LargestDevice: s.largest, Waited: r.waited,
	})
	s.policy.Abandon(s.now, r.in.id)
	r.container.dev.inFlight--
	s.leave(r, r.kind.Warm())
	s.end(r)
}

// end forgets a run that has left its container, and its invocation.
func (s *Scheduler) end(r *run) {
	s.forgetInvocation(r.in)
	s.forget(r.rev.flow)
}

// launch starts a run, unless its memory is still on its way and only the prefetch
// brings it: a real device faults pages in by itself, a simulated one cannot. Nor does
// a run begin in a slot that another run has lent it and not left yet.
func (s *Scheduler) launch(r *run) {
	c := r.container
	if c.move.brings() && !s.cfg.Faults || c.inside() >= c.width {
		c.blocked = append(c.blocked, r)
		return
	}
	r.begun, r.launched, r.transfer = true, s.now, c.move.serves
	s.waits.drop(r.in)
	r.kind = r.actualStart()
	c.evicted = false // the run brings the evicted memory back
	c.dev.enter(s.now, r)
	s.orderFor(c, Order{
		Do: Start, Invocation: r.in.id, Start: r.kind, FirstRun: r.first, Need: r.need, Memory: r.memory(),
		Waited: r.waited, Charged: r.charged, Transfer: r.transfer,
	})
}

// release lets runs that wait in a container for memory or for a slot try again.
func (s *Scheduler) release(c *container) {
	s.starting = append(s.starting, c.blocked...)
	c.blocked = c.blocked[:0]
}

// requeue returns a run that was granted and not launched to the head of its
// queue, as if it had never been granted.
func (s *Scheduler) requeue(r *run) {
	c, f := r.container, r.rev.flow
	s.collectMoves(c.dev)
	if i := slices.Index(c.waiting, r); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		c.dev.ledger.Cancel(s.now, c.id, i)
	} else {
		c.blocked, s.starting = without(c.blocked, r), without(s.starting, r)
		c.dev.ledger.ReleaseBytes(s.now, c.id, r.need.Bytes)
	}
	s.policy.Undo(s.now, r.in.id)
	r.in.run = nil
	s.enqueue(f, r.in)
	c.dev.inFlight--
	s.leave(r, r.kind.Warm())
}

// requeueAll does so with several runs, the youngest first.
func (s *Scheduler) requeueAll(runs []*run) {
	slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(b.in.seq, a.in.seq) })
	for _, r := range runs {
		s.requeue(r)
	}
}

// over takes a run's token back. The run stays in its container.
func (s *Scheduler) over(r *run, e Event) {
	if r.over {
		return
	}
	r.over = true
	c := r.container
	c.dev.leave(s.now, r)
	c.dev.inFlight--
	if e.Unused {
		s.policy.Abandon(s.now, r.in.id)
	} else {
		s.serve(r, e)
	}
	if c.move.serves != 0 && c.move.arrived {
		c.move.serves = 0 // the prefetch served this run, and not those after it
	}
	c.dev.ledger.SetHold(s.now, c.id, s.holdOf(r.rev.flow)) // from now on its memory can be evicted
	c.dev.ledger.ReleaseBytes(s.now, c.id, r.need.Bytes)
	if !e.Keep {
		s.unusable(c)
	}
	s.refuseUnstartable(r.rev)
}

// serve charges a run for all the time that it kept its token, however it ended, and
// learns from it. Its service is that time less the creation of its container.
func (s *Scheduler) serve(r *run, e Event) {
	granted := s.now - r.granted
	setup := min(max(e.Setup, 0), granted)
	f, c := r.rev.flow, r.container
	if e.Keep {
		c.served = true
	}
	if !r.kind.Warm() && setup > 0 && e.Keep {
		r.rev.cold.Add(setup)
	}
	s.learnService(f, granted-setup)
	s.policy.Done(s.now, r.in.id, sched.Usage{
		Service: granted - setup, Setup: setup, Failed: !e.Keep && c.dev.lost == "",
		Outdated: r.rev != f.newest(),
	})
	r.rev.unstartable = e.Unstartable && !e.Keep && c.dev.lost == ""
	s.orderFor(c, Order{Do: Served, Invocation: r.in.id, Service: granted - setup, Setup: setup, Memory: r.memory()})
	if r.peak >= 0 {
		r.rev.measured.Add(r.peak)
	}
	if e.Keep && r.kind == sched.GPUWarm && r.transfer == 0 && e.Ran > 0 {
		if k, ok := r.concurrency(s.now); ok {
			c.dev.tokens.Learn(f.id.String(), k, e.Ran)
			s.applyTokens(c.dev)
		}
	}
}

// left takes a run out of its container, and its token back if that is not done. A run
// that waits for its slot may begin.
func (s *Scheduler) left(r *run, e Event) {
	s.over(r, e)
	c := r.container
	s.leave(r, e.Keep)
	s.end(r)
	s.release(c)
}
