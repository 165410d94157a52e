package sched

import (
	"math"
	"slices"
	"time"
)

func (w *twin) Next(now time.Duration) (Choice, bool) {
	w.clock(now)
	w.holdUntil = math.MaxInt64
	var list []*twinFlow
	for _, f := range w.flows {
		if w.eligible(f) {
			list = append(list, f)
		}
	}
	if !slices.ContainsFunc(w.devices, func(d *twinDevice) bool { return d.free() > 0 }) || len(list) == 0 {
		return Choice{}, false
	}
	if f := w.impatient(list); f != nil {
		if d, facts, ok := w.fit(f); ok {
			return w.grant(f, d, facts, RulePatience), true
		}
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
	return Choice{}, false
}

// impatient is the flow of least virtual time in the namespace of least virtual
// time, if its head waited too long.
func (w *twin) impatient(list []*twinFlow) *twinFlow {
	if w.cfg.Patience == 0 {
		return nil
	}
	var best *twinFlow
	for _, f := range list {
		// Ties go to what was created first, which is the order of both lists.
		older := best != nil && slices.Index(w.spaces, f.space) < slices.Index(w.spaces, best.space)
		if best == nil || f.space.vt < best.space.vt || f.space.vt == best.space.vt && older ||
			f.space == best.space && f.vt < best.vt {
			best = f
		}
	}
	if w.now-best.queue[0].arrival > int64(w.cfg.Patience) {
		return best
	}
	return nil
}

func (w *twin) fit(f *twinFlow) (*twinDevice, Facts, bool) {
	var best *twinDevice
	var facts Facts
	for _, d := range w.devices {
		a := w.look(f, d)
		if d.free() == 0 || !a.Fits {
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
	worth := false
	if w.cfg.Wait && facts.Start >= Cold {
		for _, it := range f.flight {
			worth = worth || w.left(it) < int64(facts.Setup)
		}
	}
	if w.cfg.Locality {
		for _, d := range w.devices {
			a := w.look(f, d)
			if d.leaving || d.free() > 0 || a.Start > HostWarm || !a.Fits {
				continue
			}
			for _, g := range w.flows {
				for _, it := range g.flight {
					worth = worth || it.device == d.index && w.left(it)+int64(a.Setup) < int64(facts.Setup)
				}
			}
		}
	}
	if !worth {
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
	f.vt += it.charge
	f.space.vt += it.aboveSpace
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

// end takes an item out of flight.
func (w *twin) end(now time.Duration, id uint64) (*twinFlow, *twinItem) {
	w.clock(now)
	for _, f := range w.flows {
		for i, it := range f.flight {
			if it.id != id {
				continue
			}
			f.flight = slices.Delete(f.flight, i, i+1)
			d := w.device(it.device)
			if d.flying--; d.leaving && d.flying == 0 {
				w.devices = slices.DeleteFunc(w.devices, func(x *twinDevice) bool { return x == d })
			}
			return f, it
		}
	}
	panic("twin: not in flight")
}

func (w *twin) Done(now time.Duration, id uint64, used Usage) {
	f, it := w.end(now, id)
	service := int64(used.Service)
	f.served++
	f.est += int64(max(1/float64(f.served), w.cfg.Smoothing) * float64(service-f.est))
	f.est = max(f.est, int64(time.Microsecond))
	if w.cfg.Correct {
		if w.cfg.CountSetup {
			service += int64(used.Setup)
		}
		ratio := float64(service) / float64(it.basis)
		settled := func(charge int64) int64 { return int64(math.Round(float64(charge)*ratio)) - charge }
		f.vt = w.shift(f.vt, settled(it.charge), f.space.gvt)
		f.space.vt = w.shift(f.space.vt, settled(it.aboveSpace), w.rootGVT)
	}
	w.rest(f)
	w.update()
}

// shift corrects a virtual time: down to gvt at most, up to T ahead at most.
func (w *twin) shift(vt, by, gvt int64) int64 {
	to := vt + by
	if by < 0 && to < gvt {
		to = min(vt, gvt)
	}
	if by > 0 && to > gvt+w.overrun {
		to = max(vt, gvt+w.overrun)
	}
	return to
}

func (w *twin) refund(f *twinFlow, it *twinItem) {
	f.vt = w.shift(f.vt, -it.charge, f.space.gvt)
	f.space.vt = w.shift(f.space.vt, -it.aboveSpace, w.rootGVT)
	if w.policy == "paella" {
		f.deficit += credit
	}
	if f.batch > 0 {
		f.batch++
	}
}

func (w *twin) Undo(now time.Duration, id uint64) {
	f, it := w.end(now, id)
	w.refund(f, it)
	w.back(f, it)
}

func (w *twin) Abandon(now time.Duration, id uint64) {
	f, it := w.end(now, id)
	w.refund(f, it)
	w.rest(f)
	w.update()
}

func (w *twin) Touch(time.Duration, FlowID) {}

func (w *twin) device(index int) *twinDevice {
	for _, d := range w.devices {
		if d.index == index {
			return d
		}
	}
	return nil
}

func (w *twin) allowed(tokens int) int {
	if w.policy == "sfq" {
		return min(tokens, 1)
	}
	return tokens
}

func (w *twin) AddDevice(now time.Duration, index, tokens int) {
	w.clock(now)
	d := w.device(index)
	if d == nil {
		d = &twinDevice{index: index}
		w.devices = append(w.devices, d)
		slices.SortFunc(w.devices, func(a, b *twinDevice) int { return a.index - b.index })
	}
	d.tokens, d.reserved, d.leaving = w.allowed(tokens), 0, false
}

func (w *twin) RemoveDevice(now time.Duration, index int) {
	w.clock(now)
	d := w.device(index)
	d.leaving = true
	if d.flying == 0 {
		w.devices = slices.DeleteFunc(w.devices, func(x *twinDevice) bool { return x == d })
	}
}

func (w *twin) SetTokens(now time.Duration, index, tokens int) {
	w.clock(now)
	w.device(index).tokens = w.allowed(tokens)
}

func (w *twin) Reserve(now time.Duration, index int) bool {
	w.clock(now)
	d := w.device(index)
	if d.free() == 0 {
		return false
	}
	d.reserved++
	return true
}

func (w *twin) Release(now time.Duration, index int) {
	w.clock(now)
	if d := w.device(index); d != nil && d.reserved > 0 {
		d.reserved--
	}
}

func (w *twin) SetWeight(now time.Duration, id FlowID, weight float64) error {
	w.clock(now)
	w.weights[id] = weight
	if f := w.find(id); f != nil {
		f.weight = weight
	}
	return nil
}

func (w *twin) SetNamespaceWeight(now time.Duration, name string, weight float64) error {
	w.clock(now)
	w.nsWeights[name] = weight
	for _, s := range w.spaces {
		if s.name == name {
			s.weight = weight
		}
	}
	return nil
}
