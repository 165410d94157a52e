package sched

import (
	"slices"
	"time"
)

// Explain is the rule that delays a flow now and the one that chose it last. It calls
// View, and changes nothing that a decision depends on.
func (s *Scheduler) Explain(now time.Duration, id FlowID) Reason {
	s.clock(now)
	f := s.flows[id]
	if f == nil {
		return Reason{Flow: id, State: Inactive, Rule: RuleEmpty}
	}
	r := Reason{
		Flow: id, State: s.State(id), Last: f.last, LastAt: time.Duration(f.lastAt),
		Lead: time.Duration(max(0, f.lead(f.group.level.gvt))), Level: "function", Failed: f.backoff.failures,
	}
	if s.rules.window {
		r.Overrun = time.Duration(s.overrun)
	}
	switch {
	case f.queue.Len() > 0 && f.backoff.pausing():
		r.Rule, r.Until = RuleBackoff, time.Duration(f.backoff.byEnd.key)
	case f.queue.Len() > 0 && f.standing == out:
		s.explainEligible(f, &r)
	case f.standing == out:
		r.Rule = RuleEmpty
		if f.byIdle.at > 0 {
			r.Until = time.Duration(f.until)
		}
	case f.group.standing == throttled:
		r.Rule, r.Level = RuleThrottle, "namespace"
		r.Lead = time.Duration(f.group.vt - s.root.gvt)
		r.Behind = FlowID{Namespace: s.root.eligible.top().of.name}
	case f.standing == throttled:
		r.Rule = RuleThrottle
		r.Behind = f.group.level.eligible.top().of.id
	default:
		s.explainEligible(f, &r)
	}
	return r
}

// explainEligible finds why a flow that may run does not; RuleNone where it is next.
func (s *Scheduler) explainEligible(f *flow, r *Reason) {
	for _, d := range s.devices {
		if d.leaving {
			continue
		}
		r.Devices++
		r.InFlight += len(d.flights)
		r.Tokens += d.tokens
		if d.hasFree() {
			r.Free++
		}
	}
	switch {
	case r.Devices == 0:
		r.Rule = RuleNoDevice
		return
	case r.Free == 0 && f.standing != out: // whether it would fit does not matter
		r.Rule = RuleNoToken
		return
	}
	at := s.placements(f)
	fits := f.standing != out && slices.ContainsFunc(s.devices, func(d *device) bool { return d.hasFree() && at(d).Fits })
	first, _ := s.first(s.freeDevices())
	switch {
	case !fits:
		r.Rule = RuleNoFit
	case f.waiting && s.now < s.waitEnd(f):
		r.Rule, r.Until = RuleWait, time.Duration(s.waitEnd(f))
	case first != nil && first != f:
		r.Rule, r.Behind = RuleBehind, first.id
	}
}

// waitEnd is when the wait of a flow for its own container ends at the latest.
func (s *Scheduler) waitEnd(f *flow) int64 {
	least, at := int64(never), s.placements(f)
	for _, d := range s.devices {
		if a := at(d); a.Fits && d.hasFree() {
			least = min(least, int64(a.Setup))
		}
	}
	if least == never {
		return never
	}
	return f.waitingSince + least
}
