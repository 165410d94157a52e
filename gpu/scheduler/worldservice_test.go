package scheduler_test

import (
	"math"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// countUnused counts the time in which a device has a free token and a queued flow fits.
func (w *world) countUnused(to time.Duration) {
	if !w.conserve {
		return
	}
	for d := range w.c.Devices {
		if st := w.s.Device(d); st.Lost != "" || st.InFlight >= st.Tokens {
			continue
		}
		if slices.ContainsFunc(w.functions, func(f *worldFunction) bool {
			return f.queued > 0 && w.s.Work(f.id()).Placement(d).Fits
		}) {
			w.unused[d] += to - w.now
		}
	}
}

// service returns a function's service over its weight, in seconds.
func (w *world) service(f *worldFunction) float64 {
	sum := f.held
	for _, since := range f.flying {
		sum += w.now - since
		f.longest = max(f.longest, w.now-since)
	}
	return sum.Seconds() / f.weight
}

// compare takes the present state into account for all pairs.
func (w *world) compare() {
	tokens := len(w.c.Devices) * w.c.Tokens.Max
	for _, p := range w.pairs {
		apart := w.service(p.a) - w.service(p.b)
		if p.a.queued == 0 || p.b.queued == 0 || w.pausing(p.a) || w.pausing(p.b) {
			p.both = false
			continue
		}
		if !p.both {
			p.both, p.least, p.most = true, apart, apart
		}
		if apart >= p.least && apart <= p.most && p.bound > 0 {
			continue
		}
		p.least, p.most = math.Min(p.least, apart), math.Max(p.most, apart)
		bound := sched.GapBound(w.c.Sched.MaxOverrun(), tokens, p.a.longest, p.a.weight, p.b.longest, p.b.weight).Seconds()
		if r := (p.most - p.least) / bound; r > p.ratio {
			p.ratio, p.gap, p.bound = r, p.most-p.least, bound
		}
	}
}

// watchUnequal compares all functions of one namespace, whatever they need. Their service
// counts with the time that they were passed over, and T is the most by which a function
// that could not use a start falls behind.
func (w *world) watchUnequal() {
	for i, a := range w.functions {
		for _, b := range w.functions[:i] {
			if a.namespace == b.namespace {
				w.unequal = append(w.unequal, &pair{a: a, b: b})
			}
		}
	}
}

// compareUnequal takes the present state into account for pairs of unequal needs.
func (w *world) compareUnequal() {
	counted := func(f *worldFunction) float64 {
		st, _ := w.s.Flow(f.id())
		return w.service(f) + st.PassedOver.Seconds()
	}
	for _, p := range w.unequal {
		if p.a.queued == 0 || p.b.queued == 0 || w.pausing(p.a) || w.pausing(p.b) {
			p.both = false
			continue
		}
		apart := counted(p.a) - counted(p.b)
		if !p.both {
			p.both, p.least, p.most = true, apart, apart
		}
		p.least, p.most = math.Min(p.least, apart), math.Max(p.most, apart)
		p.gap = max(p.gap, p.most-p.least)
	}
}

// worstUnequal is the largest share of the bound that a pair of unequal needs has reached.
func (w *world) worstUnequal() (worst float64, of *pair) {
	overrun := w.c.Sched.MaxOverrun()
	behind := overrun + max(overrun, 10*time.Second)
	for _, p := range w.unequal {
		bound := sched.GapBound(behind, len(w.c.Devices)*w.c.Tokens.Max, p.a.longest, p.a.weight, p.b.longest, p.b.weight).Seconds()
		if r := p.gap / bound; of == nil || r > worst {
			worst, of = r, p
		}
	}
	return worst, of
}

func (w *world) pausing(f *worldFunction) bool {
	return f.failed > 0 && w.s.Explain(f.id()).Rule == sched.RuleBackoff
}

// worst is the pair with the largest gap for its bound.
func (w *world) worst() *pair {
	if len(w.pairs) == 0 {
		return &pair{}
	}
	return slices.MaxFunc(w.pairs, func(p, q *pair) int {
		switch {
		case p.ratio < q.ratio:
			return -1
		case p.ratio > q.ratio:
			return 1
		}
		return 0
	})
}

// vanished is how many invocations neither ran nor wait nor were refused.
func (w *world) vanished() (n int) {
	for _, f := range w.functions {
		n += f.submitted - f.done - f.refused - f.queued
	}
	for _, c := range w.calls {
		if c.begun && !c.over {
			n--
		}
	}
	return n
}
