package sched

import (
	"math"
	"time"
)

// Done returns the token of a finished item and learns from what it used.
func (s *Scheduler) Done(now time.Duration, id uint64, used Usage) {
	i, f := s.end(now, id)
	service := int64(min(max(used.Service, 0), limit))
	setup := int64(min(max(used.Setup, 0), limit))
	s.learn(f, service)
	if s.cfg.Correct {
		if s.cfg.CountSetup {
			service += setup
		}
		s.correct(f, s.items.flightOf(i), service)
	}
	s.items.land(i)
	s.items.release(i)
	s.rest(f)
	s.settle(f)
}

// Undo returns the token, takes the charge back and puts the item at the head
// of its flow again.
func (s *Scheduler) Undo(now time.Duration, id uint64) {
	i, f := s.end(now, id)
	s.refund(f, s.items.flightOf(i))
	s.items.land(i)
	s.items.putBack(&f.queue, i)
	s.queued++
	s.gained(f)
}

// Abandon returns the token, takes the charge back and forgets the item.
func (s *Scheduler) Abandon(now time.Duration, id uint64) {
	i, f := s.end(now, id)
	s.refund(f, s.items.flightOf(i))
	s.items.land(i)
	s.items.release(i)
	s.rest(f)
	s.settle(f)
}

// end gives the token of an item in flight back.
func (s *Scheduler) end(now time.Duration, id uint64) (int32, *flow) {
	s.clock(now)
	i, ok := s.items.find(id)
	if !ok || s.items.all[i].flight == none {
		panic("sched: item is not in flight")
	}
	f, d := s.flows[s.items.all[i].flow], s.keys[s.items.flightOf(i).device]
	s.items.unlink(&d.items, i)
	f.inFlight--
	s.inFlight--
	if d.leaving && d.items.n == 0 {
		s.drop(d)
	}
	s.recount()
	s.markStale(f)
	return i, f
}

// learn moves the estimate of the flow's service: the mean of the first few,
// then a moving average.
func (s *Scheduler) learn(f *flow, service int64) {
	f.served++
	f.service += service
	weight := max(1/float64(f.served), s.cfg.Smoothing)
	f.estimate += int64(weight * float64(service-f.estimate))
	f.estimate = max(f.estimate, leastEstimate)
}

// leastEstimate keeps a function of no measurable service from being free.
const leastEstimate = int64(time.Microsecond)

// correct charges what was used instead of what was expected. Virtual time
// does not fall below global virtual time by it, or what is backlogged would
// move that back, and the lead does not grow beyond T by it.
func (s *Scheduler) correct(f *flow, fl *flight, service int64) {
	ratio := float64(service) / float64(fl.basis)
	g := f.group
	f.vt = s.clamp(f.vt, scaled(fl.charge, ratio)-fl.charge, g.level.gvt)
	g.vt = s.clamp(g.vt, scaled(fl.above, ratio)-fl.above, s.root.gvt)
	s.moved(f)
}

func scaled(charge int64, ratio float64) int64 {
	return int64(math.Round(float64(charge) * ratio))
}

// refund takes the charge of a flight back.
func (s *Scheduler) refund(f *flow, fl *flight) {
	g := f.group
	f.vt = s.clamp(f.vt, -fl.charge, g.level.gvt)
	g.vt = s.clamp(g.vt, -fl.above, s.root.gvt)
	s.rules.undone(s, f)
	s.moved(f)
}

func (s *Scheduler) clamp(vt, by, gvt int64) int64 {
	if by < 0 {
		return max(vt+by, min(vt, gvt))
	}
	return min(vt+by, max(vt, gvt+s.overrun))
}
