package sched

import (
	"math"
	"slices"
	"time"
)

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
func (w *twin) pay(vt, owed *int64, by, gvt int64) {
	*vt = max(*vt, gvt)
	*vt += by - min(by, *owed)
	*owed -= min(by, *owed)
}

// amend charges more or less after the fact. Nothing is cut off: what a refund
// would take below global virtual time is owed.
func (w *twin) amend(f *twinFlow, own, above int64) {
	change := func(vt, owed *int64, by, gvt int64, backlogged bool) {
		switch {
		case !backlogged:
			*vt += by
		case by >= 0:
			w.pay(vt, owed, by, gvt)
		default:
			to := max(*vt, gvt) + by
			*owed += max(0, gvt-to)
			*vt = max(to, gvt)
		}
	}
	s := f.space
	change(&f.vt, &f.credit, own, s.gvt, len(f.queue) > 0)
	change(&s.vt, &s.credit, above, w.rootGVT, w.backlogged(s))
}

func (w *twin) refund(f *twinFlow, it *twinItem) {
	w.amend(f, -it.charge, -it.aboveSpace)
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
