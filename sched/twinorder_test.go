package sched

import (
	"math/bits"
	"slices"
)

// prefers compares two eligible flows by the policy's order.
func (w *twin) prefers(a, b *twinFlow) bool {
	rank := func(f *twinFlow) (first, second int64) {
		head := f.queue[0]
		switch w.policy {
		case "mqfq-sticky", "sticky-plus":
			flying := int64(len(f.flight))
			if w.tokens() == 1 {
				flying = 0
			}
			if w.printed == "unstable second sort" {
				return flying, -head.seq
			}
			return flying, -int64(len(f.queue))
		case "mqfq", "sfq":
			return f.vt, 0
		case "sjf":
			return w.expected(f), 0
		case "eevdf":
			return head.arrival + w.leastSetup(f) + w.expected(f), 0
		case "batch":
			if f.batch > 0 {
				return 0, 0
			}
			return 1, 0
		case "paella":
			if f.deficit >= int64(w.cfg.DeficitLimit*credit) {
				return 0, -f.deficit
			}
			return 1, w.expected(f)
		}
		return 0, 0
	}
	if w.cfg.Aged {
		return w.older(a, b)
	}
	nested := w.policy == "mqfq" || w.policy == "sfq"
	if nested && a.space != b.space {
		if a.space.vt != b.space.vt {
			return a.space.vt < b.space.vt
		}
		return slices.Index(w.spaces, a.space) < slices.Index(w.spaces, b.space)
	}
	a1, a2 := rank(a)
	b1, b2 := rank(b)
	if a1 != b1 {
		return a1 < b1
	}
	if a2 != b2 {
		return a2 < b2
	}
	return a.queue[0].seq < b.queue[0].seq
}

// older compares what is in flight, then response ratios with S rounded down to its class.
func (w *twin) older(a, b *twinFlow) bool {
	flying := func(f *twinFlow) int {
		if w.tokens() == 1 {
			return 0
		}
		return min(len(f.flight), 3)
	}
	if flying(a) != flying(b) {
		return flying(a) < flying(b)
	}
	size := func(f *twinFlow) uint64 {
		return uint64(agedSize(int(agedClass(w.leastSetup(f)/int64(len(f.queue)) + w.expected(f)))))
	}
	hiA, loA := bits.Mul64(uint64(w.now-a.queue[0].arrival), size(b))
	hiB, loB := bits.Mul64(uint64(w.now-b.queue[0].arrival), size(a))
	if hiA != hiB || loA != loB {
		return hiA > hiB || hiA == hiB && loA > loB
	}
	return a.queue[0].seq < b.queue[0].seq
}
