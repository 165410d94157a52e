package sched

import (
	"slices"
	"time"
)

// Explain is the rule that delays a flow now and the rule that chose it last. It calls
// View, and changes nothing that a decision depends on.
func (s *Scheduler) Explain(now time.Duration, id FlowID) Reason {
	s.clock(now)
	f := s.flows[id]
	if f == nil {
		return Reason{Flow: id, State: Inactive, Rule: RuleEmpty}
	}
	s.refresh()
	g := f.group
	r := Reason{
		Flow: id, State: s.state(f), Last: f.last, LastAt: time.Duration(f.lastAt),
		Lead: time.Duration(max(0, g.level.lead(&f.virtualTime))), Level: "function", Failed: f.backoff.failures,
	}
	if s.rules.window {
		r.Overrun = time.Duration(s.overrun)
	}
	switch {
	case f.queue.Len() == 0:
		r.Rule = RuleEmpty
		if f.byIdle.at > 0 {
			r.Until = time.Duration(f.until)
		}
	case f.backoff.pausing():
		r.Rule, r.Until = RuleBackoff, time.Duration(f.backoff.byEnd.key)
	case f.competes && !s.groupInside(g):
		r.Rule, r.Level = RuleThrottle, "namespace"
		r.Lead = time.Duration(g.vt - s.root.least)
		r.Behind = s.leastServed(func(i *flow) int64 { return i.group.vt })
		r.Behind.Function = ""
	case f.competes && !s.inside(f):
		r.Rule = RuleThrottle
		r.Behind = s.leastServed(func(i *flow) int64 {
			if i.group != g {
				return never
			}
			return i.vt
		})
	default:
		s.explainEligible(f, &r)
	}
	return r
}

// leastServed is the flow that competes with the least of something.
func (s *Scheduler) leastServed(of func(*flow) int64) (id FlowID) {
	least := int64(never)
	for _, f := range s.backlog {
		if n := of(f); f.competes && (n < least || n == least && f.id.String() < id.String()) {
			least, id = n, f.id
		}
	}
	return id
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
	case r.Free == 0 && f.competes: // whether it would fit does not matter
		r.Rule = RuleNoToken
		return
	}
	first := s.first()
	switch {
	case !f.competes || !s.fitsFree(f):
		r.Rule = RuleNoFit
	case f.waiting && s.now < s.waitEnd(f):
		r.Rule, r.Until = RuleWait, time.Duration(s.waitEnd(f))
	case first != nil && first != f:
		r.Rule, r.Behind = RuleBehind, first.id
	}
}

// fitsFree reports whether a flow fits on a device with a free token.
func (s *Scheduler) fitsFree(f *flow) bool {
	return slices.ContainsFunc(s.devices, func(d *device) bool { return d.hasFree() && f.work.Placement(d.index).Fits })
}

// first is the flow inside the window that comes first and fits, nil for none.
func (s *Scheduler) first() (first *flow) {
	var least rank
	for _, f := range s.backlog {
		if !f.competes || !s.inside(f) {
			continue
		}
		if r := s.orderRank(f); (first == nil || r.before(&least)) && s.fitsFree(f) {
			first, least = f, r
		}
	}
	return first
}
