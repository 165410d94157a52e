package sched

import (
	"cmp"
	"slices"
)

// prefers compares two eligible flows by the policy's order.
func (w *oracle) prefers(a, b *oracleFlow) bool {
	rank := func(f *oracleFlow) (first, second int64) {
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
	if w.cfg.Shortest {
		return w.shorter(a, b)
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

// shorter compares what is in flight, then what the next item takes, rounded
// down to a power of two or one and a half times that, in units of 2^19 ns.
func (w *oracle) shorter(a, b *oracleFlow) bool {
	flying := func(f *oracleFlow) int {
		if w.tokens() == 1 {
			return 0
		}
		return min(len(f.flight), 3)
	}
	if flying(a) != flying(b) {
		return flying(a) < flying(b)
	}
	size := func(f *oracleFlow) (low int64) {
		takes := w.leastSetup(f) + w.expected(f)
		for k := int64(1) << 20; k <= takes && k < 1<<48; k *= 2 {
			if low = k; k+k/2 <= takes {
				low = k + k/2
			}
		}
		return low
	}
	if sa, sb := size(a), size(b); sa != sb {
		return sa < sb
	}
	return a.queue[0].seq < b.queue[0].seq
}

// overdue lists the flows that go before the policy's order: of the four
// namespaces served least, and of each the four flows served least, those with
// nothing in flight whose head waited beyond its limit.
func (w *oracle) overdue() (late []*oracleFlow) {
	if w.cfg.Slowdown == 0 || w.policy != "mqfq-sticky" && w.policy != "sticky-plus" {
		return nil
	}
	var spaces []*oracleNamespace
	for _, s := range w.spaces {
		if w.backlogged(s) && w.within(s.vt, w.rootGVT) {
			spaces = append(spaces, s)
		}
	}
	slices.SortStableFunc(spaces, func(a, b *oracleNamespace) int { return cmp.Compare(a.vt, b.vt) })
	for _, s := range spaces[:min(4, len(spaces))] {
		var mine []*oracleFlow
		for _, f := range w.flows {
			if f.space == s && w.eligible(f) {
				mine = append(mine, f)
			}
		}
		slices.SortStableFunc(mine, func(a, b *oracleFlow) int { return cmp.Compare(a.vt, b.vt) })
		for _, f := range mine[:min(4, len(mine))] {
			waited := w.now - f.queue[0].arrival
			if len(f.flight) == 0 && waited >= int64(w.cfg.MinWait) && float64(waited) >= w.cfg.Slowdown*float64(w.leastSetup(f)+w.expected(f)) {
				late = append(late, f)
			}
		}
	}
	return late
}
