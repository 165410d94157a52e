package sched

import (
	"math"
	"slices"
	"time"
)

// Done returns the token of a finished invocation and learns from its usage.
func (s *Scheduler) Done(now time.Duration, id uint64, used Usage) {
	it, r := s.end(now, id)
	service := clamped(used.Service)
	if service > 0 || !used.Failed { // one that failed may not have begun
		s.learn(it.flow, service)
	}
	if s.cfg.Correct && s.cfg.FixedCharge == 0 {
		s.correct(it.flow, r, service+clamped(used.Setup))
	}
	if !used.Outdated {
		s.backOff(it.flow, used.Failed)
	}
	s.drop(it)
}

// Undo returns the token, charges for how long it was held and puts the invocation at
// the head of its flow again.
func (s *Scheduler) Undo(now time.Duration, id uint64) {
	it, r := s.end(now, id)
	f := it.flow
	s.unrun(f, r)
	f.push(it)
	s.queued++
	s.queueGrew(f)
}

// Abandon returns the token, charges for how long it was held and forgets the
// invocation.
func (s *Scheduler) Abandon(now time.Duration, id uint64) {
	it, r := s.end(now, id)
	s.unrun(it.flow, r)
	s.drop(it)
}

// drop forgets an invocation that has ended.
func (s *Scheduler) drop(it *invocation) {
	delete(s.invocations, it.id)
	s.startTTL(it.flow)
	s.setDirty(it.flow)
}

// end gives the token of an invocation in flight back.
func (s *Scheduler) end(now time.Duration, id uint64) (*invocation, *run) {
	s.clock(now)
	it := s.invocations[id]
	if it == nil || it.run == nil {
		panic("sched: invocation is not in flight")
	}
	f, r := it.flow, it.run
	it.run = nil
	f.flights = without(f.flights, it)
	r.device.flights = without(r.device.flights, it)
	return it, r
}

func without[T comparable](list []T, it T) []T {
	i := slices.Index(list, it)
	return slices.Delete(list, i, i+1)
}

// Revised follows a new revision of a flow's function. The former estimate holds until its
// first run has ended, which counts in full. Failures of the former revision are
// forgotten, and a pause that followed from them ends: the update may be the fix.
func (s *Scheduler) Revised(now time.Duration, id FlowID) {
	s.clock(now)
	if f := s.flows[id]; f != nil {
		f.known = false
		f.backoff.failures = 0
		s.resume(f)
	}
}

// learn moves the estimate of the flow's service.
func (s *Scheduler) learn(f *flow, service int64) {
	f.served++
	f.estimate = max(smooth(f.estimate, service, !f.known), leastEstimate)
	f.known = true
}

// leastEstimate keeps a function of no measurable service from being free.
const leastEstimate = int64(time.Microsecond)

// correct charges the service that was used instead of the expected one.
func (s *Scheduler) correct(f *flow, r *run, service int64) {
	ratio := float64(service) / float64(r.basis)
	s.charge(f, scaled(r.charge, ratio)-r.charge, scaled(r.above, ratio)-r.above)
}

func scaled(charge int64, ratio float64) int64 {
	return int64(math.Round(float64(charge) * ratio))
}

// unrun charges a run that came to nothing for the time that it held its token.
func (s *Scheduler) unrun(f *flow, r *run) {
	s.correct(f, r, s.now-r.granted)
	if s.order.Undone != nil {
		s.order.Undone(Flow{s, f})
	}
}
