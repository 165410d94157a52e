package sched

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// candidate is a flow that could start now, and where.
type candidate struct {
	flow      *flow
	device    *device
	placement Placement
	rank      rank
}

// rank is a position in an order: the least goes first. The last number is unique.
type rank [7]int64

func (a *rank) before(b *rank) bool { return slices.Compare(a[:], b[:]) < 0 }

// Next grants a token to the first flow that may run and fits, on the device where it starts
// soonest; false if there is none.
//
// Flows inside the window go by the policy's order. Where no such flow can start, a
// device would idle: then the flow of least virtual time beyond the window starts, if it
// delays no flow that waits for the device.
func (s *Scheduler) Next(now time.Duration) (Choice, bool) {
	s.clock(now)
	s.waitUntil = never
	if s.findFree(); len(s.backlog) == 0 || len(s.free) == 0 {
		return Choice{}, false
	}
	s.survey()
	s.waiters, s.unfit = s.waiters[:0], unfitNone
	for _, d := range s.devices {
		clear(d.awaited)
		d.held = d.held[:0]
	}
	for _, g := range s.spaces {
		g.unfit = unfitNone
	}
	best, rule := s.choose()
	if best.flow == nil {
		return Choice{}, false
	}
	return s.grant(best, rule), true
}

// choose returns the flow that starts next, and by which rule; none if none can start.
func (s *Scheduler) choose() (candidate, Rule) {
	if !s.windowed {
		return s.chooseInOrder(), RuleOrder
	}
	if best := s.best(func(f *flow) bool { return f.inside }, s.orderRank); best.flow != nil {
		return best, RuleOrder
	}
	best := s.best(func(f *flow) bool { return !f.inside && !f.ahead }, s.beyondRank)
	if other := s.best(func(f *flow) bool { return f.ahead }, s.beyondRank); best.flow == nil || other.flow != nil && other.rank.before(&best.rank) {
		best = other
	}
	if best.flow == nil {
		if waiter := s.waitedEnough(); waiter.flow != nil {
			return waiter, RuleOrder
		}
		return best, RuleNone
	}
	if waiter := s.passedOver(best.flow); waiter.flow != nil {
		if waiter.flow.inside {
			return waiter, RuleOrder
		}
		best = waiter
	}
	if s.isHeld(best) {
		return candidate{}, RuleNone
	}
	return best, RuleSpare
}

// passedOver returns the first flow that waits for a container of its own although it could
// start, and that another flow leads by more than T; none if there is none. Flows inside the
// window come first.
func (s *Scheduler) passedOver(by *flow) (first candidate) {
	for _, w := range s.waiters {
		if !s.leads(by, w.flow) {
			continue
		}
		if first.flow == nil || w.flow.inside && !first.flow.inside || w.flow.inside == first.flow.inside && w.rank.before(&first.rank) {
			first = w
		}
	}
	return first
}

// waitedEnough returns the first flow inside the window that waits for a container of its own,
// although a new container would displace nothing, and whose queue has not been empty for as
// long as the start takes; none if there is none.
func (s *Scheduler) waitedEnough() (first candidate) {
	for _, w := range s.waiters {
		if w.flow.inside && !w.placement.Displaces && s.now >= w.flow.startsIdle(w.placement) && (first.flow == nil || w.rank.before(&first.rank)) {
			first = w
		}
	}
	return first
}

// chooseInOrder is for the policies without a window. Only the first in the order is sure
// of its turn: the others do not start where they delay it.
func (s *Scheduler) chooseInOrder() candidate {
	var first candidate
	var r rank
	for _, f := range s.backlog {
		if s.orderRank(f, &r); f.competes && (first.flow == nil || r.before(&first.rank)) {
			first = candidate{flow: f, rank: r}
		}
	}
	if first.flow == nil {
		return first
	}
	if fits := s.fit(first.flow, first.rank, false); fits.flow != nil {
		return fits
	}
	return s.best(func(f *flow) bool { return f != first.flow }, s.orderRank)
}

// best goes through the flows that compete and pass a condition, and returns the first that
// can start.
func (s *Scheduler) best(among func(*flow) bool, rankOf func(*flow, *rank)) (best candidate) {
	var r rank
	for _, f := range s.backlog {
		if !f.competes || !among(f) || f.plain && (s.unfit.has(f) || !f.inside && f.group.unfit.has(f)) {
			continue
		}
		rankOf(f, &r)
		if best.flow != nil && !r.before(&best.rank) {
			continue
		}
		if fits := s.fit(f, r, !s.windowed || !f.inside); fits.flow != nil {
			best = fits
		}
	}
	return best
}

// orderRank is a flow's position inside the window: the policy's order, then the older head.
func (s *Scheduler) orderRank(f *flow, r *rank) {
	k := s.order.Key(Flow{s, f})
	r[0], r[1], r[2], r[3] = k[0], k[1], k[2], f.head().seq
}

// beyondRank is a flow's position beyond the window. Namespaces inside the window come
// first, then those of least virtual time; the same holds for the flows of each.
func (s *Scheduler) beyondRank(f *flow, r *rank) {
	*r = rank{1, f.group.vt, f.group.serial, 1, f.vt, 0, f.head().seq}
	if s.groupInside(f.group) {
		r[0] = 0
	}
	if !f.ahead {
		k := s.order.Key(Flow{s, f})
		r[3], r[4], r[5] = 0, k[0], k[1]
	}
}

// fit chooses the device with a free token where the flow fits and starts soonest; among
// equals the one with most tokens free, then the first. It returns no flow if there is no such
// device, or if the flow waits for a container of its own. A flow beyond the window delays
// nobody. The wants of a flow inside the window are noted at the devices where it would fit
// if less ran.
func (s *Scheduler) fit(f *flow, r rank, beyond bool) candidate {
	best := candidate{flow: f, rank: r}
	s.misfits = s.misfits[:0]
	for _, d := range s.free {
		at := f.work.Placement(d.index)
		at.Setup = time.Duration(clamped(at.Setup))
		switch {
		case !at.Fits:
			s.misfits = append(s.misfits, misfit{d, at.Lacks, at.Need})
			if beyond && at.Lacks&(LacksDevice|LacksMemory) == 0 {
				d.held = append(d.held, held{f, at.Lacks})
			}
		case beyond && d.delays(f, at):
			if at.Shares {
				d.held = append(d.held, held{flow: f})
			}
		case best.device == nil || sooner(at, d, best.placement, best.device):
			best.device, best.placement = d, at
		}
	}
	if f.plain && !f.ahead && len(s.misfits) == len(s.free) {
		if f.inside {
			s.unfit.add(f, s.misfits)
		} else {
			f.group.unfit.add(f, s.misfits)
		}
	}
	switch {
	case best.device == nil:
		if !f.ahead && (s.windowed || !beyond) {
			for _, m := range s.misfits {
				s.await(f, m)
			}
		}
	case s.shouldWait(f, best.placement):
		s.waiters = append(s.waiters, best)
	default:
		return best
	}
	return candidate{}
}

// misfit is a device where a flow does not fit.
type misfit struct {
	device *device
	lacks  Lack
	need   int64
}

// unfit has a range of device memory for plain flows, and one for those that are short of host
// memory. Flows whose needs lie within the range fit on no free device and want nothing there
// that is not noted: there may be thousands. The flows that made the range are inside the
// window, or in the group of the range and inside the window of that.
type unfit [2]needs

var unfitNone = unfit{noNeeds, noNeeds}

// needs is a range of device memory, both ends included.
type needs struct{ least, most int64 }

var noNeeds = needs{math.MaxInt64, math.MinInt64}

func (n *needs) has(need int64) bool { return n.least <= need && need <= n.most }

func (n *needs) add(need int64) { n.least, n.most = min(n.least, need), max(n.most, need) }

// rangeOf is the number of the range for a flow.
func rangeOf(f *flow) int {
	if f.short {
		return 1
	}
	return 0
}

func (u *unfit) has(f *flow) bool {
	return u[rangeOf(f)].has(f.kind.need)
}

// add extends the range to the need of a flow, unless a device is too small for it.
func (u *unfit) add(f *flow, on []misfit) {
	if !slices.ContainsFunc(on, func(m misfit) bool { return m.lacks&LacksDevice != 0 }) {
		u[rangeOf(f)].add(f.kind.need)
	}
}

// sooner orders two devices for a flow.
func sooner(a Placement, d *device, b Placement, than *device) bool {
	return cmp.Or(
		cmp.Compare(a.Setup, b.Setup), cmp.Compare(a.Start, b.Start),
		cmp.Compare(than.free(), d.free()), cmp.Compare(d.index, than.index),
	) < 0
}

// grant takes the head of a flow, charges it and moves those along that could not have
// used the start.
func (s *Scheduler) grant(c candidate, rule Rule) Choice {
	f, d, it := c.flow, c.device, c.flow.head()
	if s.order.Granted != nil {
		s.order.Granted(Flow{s, f})
	}
	f.unqueue(it)
	it.run = s.price(f, it.cost, c.placement)
	it.run.device, it.run.beyond, it.run.need = d, rule == RuleSpare, c.placement.Need
	s.charge(f, it.run.charge, it.run.above)
	s.moveAlong(c, rule == RuleSpare)
	f.flights = append(f.flights, it)
	d.flights = append(d.flights, it)
	f.waiting = false
	s.queued--
	f.last, f.lastAt = rule, s.now
	s.queueShrank(f)
	return Choice{
		Invocation: it.id, Flow: f.id, Device: d.index, Placement: c.placement,
		Waited: time.Duration(s.now - it.arrival), Charged: time.Duration(it.run.charge), Rule: rule,
	}
}

// price is a run with its expected times and its charge, to take back or correct later.
func (s *Scheduler) price(f *flow, cost int64, p Placement) *run {
	if cost == 0 {
		cost = s.usual(f)
	}
	r := &run{granted: s.now, setup: int64(p.Setup), estimate: cost, basis: cost}
	if s.cfg.CountSetup {
		r.basis += r.setup
	}
	if s.cfg.FixedCharge > 0 {
		r.basis = int64(s.cfg.FixedCharge)
	}
	r.charge = perWeight(r.basis, f.weight)
	r.above = perWeight(r.basis, f.group.weight)
	return r
}

// perWeight divides service by a weight.
func perWeight(service int64, weight float64) int64 {
	if weight == 1 {
		return service
	}
	return int64(float64(service) / weight)
}
