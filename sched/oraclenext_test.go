package sched

import (
	"cmp"
	"math"
	"slices"
	"time"
)

func (w *oracle) Next(now time.Duration) (Choice, bool) {
	w.clock(now)
	w.holdUntil, w.askAt = math.MaxInt64, math.MaxInt64
	var list []*oracleFlow
	for _, f := range w.flows {
		if w.eligible(f) {
			list = append(list, f)
		}
	}
	if !slices.ContainsFunc(w.devices, func(d *oracleDevice) bool { return d.free() > 0 }) || !slices.ContainsFunc(w.spaces, w.backlogged) {
		return Choice{}, false
	}
	slices.SortFunc(list, func(a, b *oracleFlow) int {
		switch {
		case w.prefers(a, b):
			return -1
		case w.prefers(b, a):
			return 1
		}
		return 0
	})
	for _, f := range w.overdue() {
		if d, p, ok := w.fit(f); ok {
			return w.grant(f, d, p, RuleOverdue), true
		}
	}
	for _, f := range list {
		if w.printed == "token after the queue" {
			// The queue is chosen without a look at devices, and the token is
			// whichever comes first.
			for _, d := range w.devices {
				if d.free() > 0 {
					return w.grant(f, d, w.ask(f, d), RuleOrder), true
				}
			}
		}
		if d, p, ok := w.fit(f); ok {
			return w.grant(f, d, p, RuleOrder), true
		}
	}
	return w.spare()
}

// spare grants to the throttled flow of least virtual time that fits on a device
// that would idle, and raises global virtual time with it.
func (w *oracle) spare() (Choice, bool) {
	open := func(d *oracleDevice) bool { return d.free() > 0 && (d.flying == 0 || w.now < d.openUntil) }
	if w.overrun == math.MaxInt64/4 || w.holdUntil != math.MaxInt64 || !slices.ContainsFunc(w.devices, open) {
		return Choice{}, false
	}
	var throttled []*oracleFlow // by namespace, then by virtual time
	var spaces []*oracleNamespace
	for _, s := range w.spaces {
		if w.backlogged(s) && w.within(s.vt, w.rootGVT) {
			spaces = append(spaces, s)
		}
	}
	slices.SortStableFunc(spaces, func(a, b *oracleNamespace) int { return cmp.Compare(a.vt, b.vt) })
	for _, s := range spaces {
		var mine []*oracleFlow
		for _, f := range w.flows {
			if f.space == s && len(f.queue) > 0 && !w.within(f.vt, s.gvt) {
				mine = append(mine, f)
			}
		}
		slices.SortStableFunc(mine, func(a, b *oracleFlow) int { return cmp.Compare(a.vt, b.vt) })
		throttled = append(throttled, mine...)
	}
	for _, f := range throttled {
		if d, p, ok := w.fitOn(f, open); ok {
			w.raise(f)
			if d.flying == 0 {
				d.openUntil = w.now + openFor
			}
			return w.grant(f, d, p, RuleSpare), true
		}
	}
	if len(throttled) > 0 {
		w.raise(throttled[0])
		w.askAt = w.now
		return Choice{}, false
	}
	least := int64(math.MaxInt64)
	for _, s := range w.spaces {
		if w.backlogged(s) && !w.within(s.vt, w.rootGVT) {
			least = min(least, s.vt)
		}
	}
	if least < math.MaxInt64 {
		w.rootGVT = max(w.rootGVT, least-w.overrun)
		w.rootFloor = w.rootGVT
		w.askAt = w.now
	}
	return Choice{}, false
}

func (w *oracle) raise(f *oracleFlow) {
	s := f.space
	s.gvt = max(s.gvt, f.vt-w.overrun)
	s.floor = s.gvt
}

func (w *oracle) fit(f *oracleFlow) (*oracleDevice, Placement, bool) {
	return w.fitOn(f, func(d *oracleDevice) bool { return d.free() > 0 })
}

func (w *oracle) fitOn(f *oracleFlow, use func(*oracleDevice) bool) (*oracleDevice, Placement, bool) {
	var best *oracleDevice
	var p Placement
	for _, d := range w.devices {
		a := w.ask(f, d)
		if !use(d) || !a.Fits {
			continue
		}
		better := best != nil && (a.Setup < p.Setup || a.Setup == p.Setup &&
			(a.Start < p.Start || a.Start == p.Start && d.free() > best.free()))
		if best == nil || better {
			best, p = d, a
		}
	}
	if best == nil || w.waits(f, p) {
		return nil, Placement{}, false
	}
	return best, p, true
}

func (w *oracle) waits(f *oracleFlow, p Placement) bool {
	sooner, many := int64(math.MaxInt64), 0
	if w.cfg.Wait && p.Start >= Cold {
		for _, it := range f.flight {
			sooner = min(sooner, w.left(it))
			many++
		}
	}
	if w.cfg.Locality {
		for _, d := range w.devices {
			a := w.ask(f, d)
			if d.leaving || d.free() > 0 || d.flying == 0 || a.Start > HostWarm || !a.Fits {
				continue
			}
			many++
			for _, g := range w.flows {
				for _, it := range g.flight {
					if it.device == d.index {
						sooner = min(sooner, w.left(it)+int64(a.Setup))
					}
				}
			}
		}
	}
	behind := float64(len(f.queue)-1) * float64(w.usual(f)) / float64(many)
	if p.Setup <= 0 || many == 0 || float64(sooner)+behind >= float64(p.Setup) {
		return false
	}
	if !f.waiting {
		f.waiting, f.waitingSince = true, w.now
	}
	until := f.waitingSince + int64(p.Setup)
	if w.now >= until {
		return false
	}
	w.holdUntil = min(w.holdUntil, until)
	return true
}

func (w *oracle) left(it *oracleInvocation) int64 { return max(0, it.granted+it.setup+it.est-w.now) }

func (w *oracle) grant(f *oracleFlow, d *oracleDevice, p Placement, rule Rule) Choice {
	it := f.queue[0]
	it.est = it.cost
	if it.est == 0 {
		it.est = w.usual(f)
	}
	it.device, it.granted, it.setup, it.basis = d.index, w.now, int64(p.Setup), it.est
	if w.cfg.CountSetup {
		it.basis += it.setup
	}
	if w.cfg.FixedCharge > 0 {
		it.basis = int64(w.cfg.FixedCharge)
	}
	it.charge = int64(float64(it.basis) / f.weight)
	it.aboveSpace = int64(float64(it.basis) / f.space.weight)
	if rule == RuleOrder {
		rule = w.chargeRule(f)
	} else {
		w.chargeRule(f)
	}
	f.queue = f.queue[1:]
	if w.policy == "batch" {
		if f.batch > 0 {
			f.batch--
		} else {
			f.batch = len(f.queue)
		}
	}
	f.flight = append(f.flight, it)
	f.waiting = false
	d.flying++
	w.pay(&f.vt, &f.credit, it.charge, f.space.gvt)
	w.pay(&f.space.vt, &f.space.credit, it.aboveSpace, w.rootGVT)
	w.emptied(f)
	w.update()
	return Choice{
		Invocation: it.id, Flow: f.id, Device: d.index, Placement: p,
		Waited: time.Duration(w.now - it.arrival), Charged: time.Duration(it.charge), Rule: rule,
	}
}

// chargeRule names the rule of a grant and, for paella, pays for it.
func (w *oracle) chargeRule(f *oracleFlow) Rule {
	switch w.policy {
	case "batch":
		if f.batch > 0 {
			return RuleBatch
		}
	case "paella":
		over := f.deficit >= int64(w.cfg.DeficitLimit*credit)
		var waiting []*oracleFlow
		for _, g := range w.flows {
			if len(g.queue) > 0 {
				waiting = append(waiting, g)
			}
		}
		for _, g := range waiting {
			g.deficit += credit / int64(len(waiting))
		}
		f.deficit -= credit
		if over {
			return RuleDeficit
		}
	}
	return RuleOrder
}
