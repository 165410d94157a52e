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
	if s.cfg.Correct && s.cfg.FixedCharge == 0 {
		if s.cfg.CountSetup {
			service += setup
		}
		s.correct(f, s.items.flightOf(i), service)
	}
	s.items.land(f, i)
	s.items.release(i)
	s.lay(f)
	s.settle(f)
}

// Undo returns the token, takes the charge back and puts the item at the head
// of its flow again.
func (s *Scheduler) Undo(now time.Duration, id uint64) {
	i, f := s.end(now, id)
	s.refund(f, s.items.flightOf(i))
	s.items.land(f, i)
	s.items.putBack(&f.queue, i)
	s.headed(f)
	s.queued++
	s.gained(f)
}

// Abandon returns the token, takes the charge back and forgets the item.
func (s *Scheduler) Abandon(now time.Duration, id uint64) {
	i, f := s.end(now, id)
	s.refund(f, s.items.flightOf(i))
	s.items.land(f, i)
	s.items.release(i)
	s.lay(f)
	s.settle(f)
}

// end gives the token of an item in flight back.
func (s *Scheduler) end(now time.Duration, id uint64) (int32, *flow) {
	s.clock(now)
	s.ahead()
	i, ok := s.items.find(id)
	if !ok || s.items.all[i].flight == none {
		panic("sched: item is not in flight")
	}
	f, d := s.flows.at(s.items.all[i].flow), s.keys[s.items.flightOf(i).device]
	s.items.unlink(&d.items, i)
	f.inFlight--
	s.inFlight--
	if d.leaving && d.items.n == 0 {
		s.drop(d)
	}
	s.recount(d)
	s.changedRoom()
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

// correct charges what was used instead of what was expected.
func (s *Scheduler) correct(f *flow, fl *flight, service int64) {
	ratio := float64(service) / float64(fl.basis)
	s.amend(f, scaled(fl.charge, ratio)-fl.charge, scaled(fl.above, ratio)-fl.above)
}

func scaled(charge int64, ratio float64) int64 {
	return int64(math.Round(float64(charge) * ratio))
}

// refund takes the charge of a flight back.
func (s *Scheduler) refund(f *flow, fl *flight) {
	s.amend(f, -fl.charge, -fl.above)
	s.rules.undone(s, f)
}

// amend charges more after the fact, or less, with nothing cut off.
func (s *Scheduler) amend(f *flow, own, above int64) {
	g := f.group
	f.adjust(own, g.level.gvt, f.standing != out)
	g.adjust(above, s.root.gvt, g.standing != out)
	s.moved(f)
}
