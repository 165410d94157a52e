package sched

import (
	"math"
	"slices"
	"time"
)

// end takes an item out of flight.
func (w *oracle) end(now time.Duration, id uint64) (*oracleFlow, *oracleInvocation) {
	w.clock(now)
	for _, f := range w.flows {
		for i, it := range f.flight {
			if it.id != id {
				continue
			}
			f.flight = slices.Delete(f.flight, i, i+1)
			d := w.device(it.device)
			if d.flying--; d.leaving && d.flying == 0 {
				w.devices = slices.DeleteFunc(w.devices, func(x *oracleDevice) bool { return x == d })
			}
			return f, it
		}
	}
	panic("oracle: not in flight")
}

func (w *oracle) Done(now time.Duration, id uint64, used Usage) {
	f, it := w.end(now, id)
	service := int64(used.Service)
	f.served++
	f.est += int64(max(1/float64(f.served), w.cfg.Smoothing) * float64(service-f.est))
	f.est = max(f.est, int64(time.Microsecond))
	if w.cfg.Correct && w.cfg.FixedCharge == 0 {
		if w.cfg.CountSetup {
			service += int64(used.Setup)
		}
		ratio := float64(service) / float64(it.basis)
		settled := func(charge int64) int64 { return int64(math.Round(float64(charge)*ratio)) - charge }
		w.amend(f, settled(it.charge), settled(it.aboveSpace))
	}
	w.rest(f)
	w.update()
}

// pay charges who is backlogged, credit first.
func (w *oracle) pay(vt, credit *int64, by, gvt int64) {
	*vt = max(*vt, gvt)
	*vt += by - min(by, *credit)
	*credit -= min(by, *credit)
}

// amend charges more or less after the fact. Nothing is cut off: what a refund
// would take below global virtual time is credit.
func (w *oracle) amend(f *oracleFlow, own, above int64) {
	change := func(vt, credit *int64, by, gvt int64, backlogged bool) {
		switch {
		case !backlogged:
			*vt += by
		case by >= 0:
			w.pay(vt, credit, by, gvt)
		default:
			to := max(*vt, gvt) + by
			*credit += max(0, gvt-to)
			*vt = max(to, gvt)
		}
	}
	s := f.space
	change(&f.vt, &f.credit, own, s.gvt, len(f.queue) > 0)
	change(&s.vt, &s.credit, above, w.rootGVT, w.backlogged(s))
}

func (w *oracle) refund(f *oracleFlow, it *oracleInvocation) {
	w.amend(f, -it.charge, -it.aboveSpace)
	if w.policy == "paella" {
		f.deficit += credit
	}
	if f.batch > 0 {
		f.batch++
	}
}

func (w *oracle) Undo(now time.Duration, id uint64) {
	f, it := w.end(now, id)
	w.refund(f, it)
	w.back(f, it)
}

func (w *oracle) Abandon(now time.Duration, id uint64) {
	f, it := w.end(now, id)
	w.refund(f, it)
	w.rest(f)
	w.update()
}

func (w *oracle) Touch(time.Duration, FlowID) {}

func (w *oracle) device(index int) *oracleDevice {
	for _, d := range w.devices {
		if d.index == index {
			return d
		}
	}
	return nil
}

func (w *oracle) allowed(tokens int) int {
	if w.policy == "sfq" {
		return min(tokens, 1)
	}
	return tokens
}

func (w *oracle) AddDevice(now time.Duration, index, tokens int) {
	w.clock(now)
	d := w.device(index)
	if d == nil {
		d = &oracleDevice{index: index}
		w.devices = append(w.devices, d)
		slices.SortFunc(w.devices, func(a, b *oracleDevice) int { return a.index - b.index })
	}
	d.tokens, d.reserved, d.leaving = w.allowed(tokens), 0, false
}

func (w *oracle) RemoveDevice(now time.Duration, index int) {
	w.clock(now)
	d := w.device(index)
	d.leaving = true
	if d.flying == 0 {
		w.devices = slices.DeleteFunc(w.devices, func(x *oracleDevice) bool { return x == d })
	}
}

func (w *oracle) SetTokens(now time.Duration, index, tokens int) {
	w.clock(now)
	w.device(index).tokens = w.allowed(tokens)
}

func (w *oracle) Reserve(now time.Duration, index int) bool {
	w.clock(now)
	d := w.device(index)
	if d.free() == 0 {
		return false
	}
	d.reserved++
	return true
}

func (w *oracle) Release(now time.Duration, index int) {
	w.clock(now)
	if d := w.device(index); d != nil && d.reserved > 0 {
		d.reserved--
	}
}

func (w *oracle) SetWeight(now time.Duration, id FlowID, weight float64) error {
	w.clock(now)
	f := w.find(id)
	if f == nil && weight != 1 {
		f = w.flow(id)
		f.expired, f.deadline = true, w.now+int64(w.cfg.KeepInactive)
	}
	if f != nil {
		f.weight = weight
	}
	return nil
}

func (w *oracle) SetNamespaceWeight(now time.Duration, name string, weight float64) error {
	w.clock(now)
	w.nsWeights[name] = weight
	for _, s := range w.spaces {
		if s.name == name {
			s.weight = weight
		}
	}
	return nil
}
