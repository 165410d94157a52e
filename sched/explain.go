package sched

import (
	"slices"
	"time"
)

// Explainer returns a function that names the rule that delays a flow now and the rule that
// chose it last. The function holds until the next event. It goes through all flows once for
// each answer that they share. It calls View, and changes nothing that a decision depends on.
func (s *Scheduler) Explainer(now time.Duration) func(FlowID) Reason {
	s.clock(now)
	s.refresh()
	e := &explainer{s: s, behind: map[*group]FlowID{}}
	return e.explain
}

// explainer has the answers that flows share.
type explainer struct {
	s      *Scheduler
	first  *flow // once it was sought
	sought bool
	behind map[*group]FlowID // the flow served least of a namespace, nil for all of them
}

func (e *explainer) explain(id FlowID) Reason {
	s := e.s
	f := s.flows[id]
	if f == nil {
		return Reason{State: Inactive, Rule: RuleEmpty}
	}
	g := f.group
	r := Reason{
		State: s.state(f), Last: f.last, LastAt: time.Duration(f.lastAt),
		Lead: time.Duration(max(0, g.level.lead(&f.virtualTime))), Level: "function", Failed: f.backoff.failures,
	}
	if s.windowed {
		r.Overrun = time.Duration(s.overrun)
	}
	switch {
	case len(f.queue) == 0:
		r.Rule = RuleEmpty
		if f.byIdle.at > 0 {
			r.Until = time.Duration(f.byIdle.key)
		}
	case f.backoff.pausing():
		r.Rule, r.Until = RuleBackoff, time.Duration(f.backoff.byEnd.key)
	case f.competes && !s.groupInside(g):
		r.Rule, r.Level = RuleThrottle, "namespace"
		r.Lead = time.Duration(g.vt - s.root.least)
		r.Behind.Namespace = e.leastServed(nil).Namespace
	case f.competes && !s.inside(f):
		r.Rule = RuleThrottle
		r.Behind = e.leastServed(g)
	default:
		e.explainEligible(f, &r)
	}
	return r
}

// leastServed is the flow of least virtual time that competes in a namespace, or a flow of the
// namespace of least virtual time for nil.
func (e *explainer) leastServed(g *group) FlowID {
	if id, ok := e.behind[g]; ok {
		return id
	}
	var id FlowID
	least := int64(never)
	for _, f := range e.s.backlog {
		n := f.vt
		if g == nil {
			n = f.group.vt
		}
		if f.competes && (g == nil || f.group == g) && (n < least || n == least && f.id.String() < id.String()) {
			least, id = n, f.id
		}
	}
	e.behind[g] = id
	return id
}

// explainEligible finds why a flow that may run does not; RuleNone where it is next.
func (e *explainer) explainEligible(f *flow, r *Reason) {
	s := e.s
	switch {
	case !slices.ContainsFunc(s.devices, func(d *device) bool { return !d.leaving }):
		r.Rule = RuleNoDevice
	case f.competes && !slices.ContainsFunc(s.devices, (*device).hasFree): // whether it would fit does not matter
		r.Rule = RuleNoToken
	case !f.competes || !s.fitsFree(f):
		r.Rule = RuleNoFit
	case f.waiting && s.now < f.waitEnd:
		r.Rule, r.Until = RuleWait, time.Duration(f.waitEnd)
	default:
		if !e.sought {
			e.first, e.sought = s.first(), true
		}
		if e.first != nil && e.first != f {
			r.Rule, r.Behind = RuleBehind, e.first.id
		}
	}
}

// fitsFree reports whether a flow fits on a device with a free token.
func (s *Scheduler) fitsFree(f *flow) bool {
	return slices.ContainsFunc(s.devices, func(d *device) bool { return d.hasFree() && f.work.Placement(d.index).Fits })
}

// first is the flow inside the window that comes first and fits, nil for none.
func (s *Scheduler) first() (first *flow) {
	var r, least rank
	for _, f := range s.backlog {
		if !f.competes || !s.inside(f) {
			continue
		}
		if s.orderRank(f, &r); (first == nil || r.before(&least)) && s.fitsFree(f) {
			first, least = f, r
		}
	}
	return first
}
