package sched

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/start"
)

func (w *twin) Next(now time.Duration) (Choice, bool) {
	w.clock(now)
	w.holdUntil, w.askAt = math.MaxInt64, math.MaxInt64
	var list []*twinFlow
	for _, f := range w.flows {
		if w.eligible(f) {
			list = append(list, f)
		}
	}
	if !slices.ContainsFunc(w.devices, func(d *twinDevice) bool { return d.free() > 0 }) || !slices.ContainsFunc(w.spaces, w.backlogged) {
		return Choice{}, false
	}
	slices.SortFunc(list, func(a, b *twinFlow) int {
		switch {
		case w.prefers(a, b):
			return -1
		case w.prefers(b, a):
			return 1
		}
		return 0
	})
	for _, f := range w.overdue() {
		if d, facts, ok := w.fit(f); ok {
			return w.grant(f, d, facts, RuleOverdue), true
		}
	}
	for _, f := range list {
		if w.printed == "token after the queue" {
			// The queue is chosen without a look at devices, and the token is
			// whichever comes first.
			for _, d := range w.devices {
				if d.free() > 0 {
					return w.grant(f, d, w.look(f, d), RuleOrder), true
				}
			}
		}
		if d, facts, ok := w.fit(f); ok {
			return w.grant(f, d, facts, RuleOrder), true
		}
	}
	return w.spare()
}

// spare grants to the throttled flow of least virtual time that fits on a device
// that would idle, and raises global virtual time with it.
func (w *twin) spare() (Choice, bool) {
	open := func(d *twinDevice) bool { return d.free() > 0 && (d.flying == 0 || w.now < d.openUntil) }
	if w.overrun == math.MaxInt64/4 || w.holdUntil != math.MaxInt64 || !slices.ContainsFunc(w.devices, open) {
		return Choice{}, false
	}
	var held []*twinFlow // by namespace, then by virtual time
	var spaces []*twinSpace
	for _, s := range w.spaces {
		if w.backlogged(s) && w.within(s.vt, w.rootGVT) {
			spaces = append(spaces, s)
		}
	}
	slices.SortStableFunc(spaces, func(a, b *twinSpace) int { return cmp.Compare(a.vt, b.vt) })
	for _, s := range spaces {
		var mine []*twinFlow
		for _, f := range w.flows {
			if f.space == s && len(f.queue) > 0 && !w.within(f.vt, s.gvt) {
				mine = append(mine, f)
			}
		}
		slices.SortStableFunc(mine, func(a, b *twinFlow) int { return cmp.Compare(a.vt, b.vt) })
		held = append(held, mine...)
	}
	for _, f := range held {
		if d, facts, ok := w.fitOn(f, open); ok {
			w.raise(f)
			if d.flying == 0 {
				d.openUntil = w.now + openFor
			}
			return w.grant(f, d, facts, RuleSpare), true
		}
	}
	if len(held) > 0 {
		w.raise(held[0])
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

func (w *twin) raise(f *twinFlow) {
	s := f.space
	s.gvt = max(s.gvt, f.vt-w.overrun)
	s.floor = s.gvt
}

func (w *twin) fit(f *twinFlow) (*twinDevice, Facts, bool) {
	return w.fitOn(f, func(d *twinDevice) bool { return d.free() > 0 })
}

func (w *twin) fitOn(f *twinFlow, use func(*twinDevice) bool) (*twinDevice, Facts, bool) {
	var best *twinDevice
	var facts Facts
	for _, d := range w.devices {
		a := w.look(f, d)
		if !use(d) || !a.Fits {
			continue
		}
		better := best != nil && (a.Setup < facts.Setup || a.Setup == facts.Setup &&
			(a.Start < facts.Start || a.Start == facts.Start && d.free() > best.free()))
		if best == nil || better {
			best, facts = d, a
		}
	}
	if best == nil || w.waits(f, facts) {
		return nil, Facts{}, false
	}
	return best, facts, true
}

func (w *twin) waits(f *twinFlow, facts Facts) bool {
	sooner, many := int64(math.MaxInt64), 0
	if w.cfg.Wait && facts.Start >= start.Cold {
		for _, it := range f.flight {
			sooner = min(sooner, w.left(it))
			many++
		}
	}
	if w.cfg.Locality {
		for _, d := range w.devices {
			a := w.look(f, d)
			if d.leaving || d.free() > 0 || d.flying == 0 || a.Start > start.HostWarm || !a.Fits {
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
	if facts.Setup <= 0 || many == 0 || float64(sooner)+behind >= float64(facts.Setup) {
		return false
	}
	if !f.holding {
		f.holding, f.heldSince = true, w.now
	}
	until := f.heldSince + int64(facts.Setup)
	if w.now >= until {
		return false
	}
	w.holdUntil = min(w.holdUntil, until)
	return true
}

func (w *twin) left(it *twinItem) int64 { return max(0, it.granted+it.setup+it.est-w.now) }

func (w *twin) grant(f *twinFlow, d *twinDevice, facts Facts, rule Rule) Choice {
	it := f.queue[0]
	it.est = it.cost
	if it.est == 0 {
		it.est = w.usual(f)
	}
	it.device, it.granted, it.setup, it.basis = d.index, w.now, int64(facts.Setup), it.est
	if w.cfg.CountSetup {
		it.basis += it.setup
	}
	if w.cfg.FixedCharge > 0 {
		it.basis = int64(w.cfg.FixedCharge)
	}
	it.charge = int64(float64(it.basis) / f.weight)
	it.aboveSpace = int64(float64(it.basis) / f.space.weight)
	if rule == RuleOrder {
		rule = w.account(f)
	} else {
		w.account(f)
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
	f.holding = false
	d.flying++
	w.pay(&f.vt, &f.credit, it.charge, f.space.gvt)
	w.pay(&f.space.vt, &f.space.credit, it.aboveSpace, w.rootGVT)
	w.emptied(f)
	w.update()
	return Choice{
		Item: it.id, Flow: f.id, Device: d.index, Facts: facts,
		Waited: time.Duration(w.now - it.arrival), Charged: time.Duration(it.charge), Rule: rule,
	}
}

// account names the rule of a grant and, for paella, pays for it.
func (w *twin) account(f *twinFlow) Rule {
	switch w.policy {
	case "batch":
		if f.batch > 0 {
			return RuleBatch
		}
	case "paella":
		over := f.deficit >= int64(w.cfg.DeficitLimit*credit)
		var waiting []*twinFlow
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
