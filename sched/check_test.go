package sched

import "fmt"

// checker asserts the invariants of a Scheduler after each step. It remembers
// the last global virtual times, which must never go back.
type checker struct {
	root int64
	gvt  map[*group]int64
}

func newChecker() *checker { return &checker{gvt: map[*group]int64{}} }

func (c *checker) check(s *Scheduler) error {
	for _, f := range []func(*Scheduler) error{
		checkTokens, checkCounts, checkLevels, checkOrder, checkIdle, checkPaella, c.checkMonotone,
	} {
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

// checkTokens: free + in flight == D per device, except while a
// lowered D drains.
func checkTokens(s *Scheduler) error {
	tokens, flying := 0, 0
	for i, d := range s.devices {
		if i > 0 && s.devices[i-1].index >= d.index {
			return fmt.Errorf("devices out of order")
		}
		n := len(d.flights)
		for _, it := range d.flights {
			if it.run == nil || it.run.device != d {
				return fmt.Errorf("device %d: holds invocation %d of another", d.index, it.id)
			}
		}
		sum := d.free() + n
		if !d.leaving && sum != d.tokens && (d.free() != 0 || sum < d.tokens) {
			return fmt.Errorf("device %d: %d free + %d in flight, D %d", d.index, d.free(), n, d.tokens)
		}
		if d.leaving && (d.free() != 0 || n == 0) {
			return fmt.Errorf("device %d leaving: free %d, in flight %d", d.index, d.free(), n)
		}
		flying += n
		if !d.leaving {
			tokens += d.tokens
		}
	}
	if tokens != s.tokens || flying != s.inFlight {
		return fmt.Errorf("tokens %d want %d, in flight %d want %d", s.tokens, tokens, s.inFlight, flying)
	}
	return nil
}

func checkCounts(s *Scheduler) error {
	queued, flying, backlogged := 0, 0, 0
	for id, f := range s.flows {
		if f.id != id || s.groups[f.group.name] != f.group {
			return fmt.Errorf("flow %s: listed as %s of group %s", f.id, id, f.group.name)
		}
		last := int64(0)
		for e := f.queue.Front(); e != nil; e = e.Next() {
			it := e.Value.(*invocation)
			if it.flow != f || it.run != nil || it.queued != e || it.seq <= last || s.invocations[it.id] != it {
				return fmt.Errorf("flow %s: wrong invocation %+v in its queue", f.id, it)
			}
			last = it.seq
		}
		n := f.queue.Len()
		if (n > 0 && !f.backoff.pausing()) != (f.standing != out) {
			return fmt.Errorf("flow %s: %d queued, standing %d", f.id, n, f.standing)
		}
		queued += n
		flying += len(f.flights)
		if f.standing != out {
			backlogged++
		}
	}
	if queued != s.queued || flying != s.inFlight || backlogged != s.backlogged {
		return fmt.Errorf("queued %d want %d, in flight %d want %d, backlogged %d want %d", s.queued, queued, s.inFlight, flying, s.backlogged, backlogged)
	}
	if len(s.invocations) != queued+flying {
		return fmt.Errorf("%d invocations by id, want %d", len(s.invocations), queued+flying)
	}
	return nil
}

func checkHeap[T any](what string, h heap[T]) error {
	for i, n := range h {
		if n.at != i+1 {
			return fmt.Errorf("%s: the node at %d has position %d", what, i, n.at-1)
		}
		if i > 0 && n.before(h[(i-1)/2].rank) {
			return fmt.Errorf("%s: node %d is before its parent", what, i)
		}
	}
	return nil
}

// checkLevel: gvt is the least backlogged VT, or the floor; eligible <= T ahead, throttled
// more; something backlogged implies something eligible.
func checkLevel[T any](what string, l *level[T], overrun int64, of func(T) *member[T]) error {
	if len(l.throttled) > 0 && len(l.eligible) == 0 {
		return fmt.Errorf("%s: backlogged, and nothing is eligible", what)
	}
	if l.len() > 0 && max(l.floor, l.eligible.top().key) != l.gvt {
		return fmt.Errorf("%s: gvt %d, floor %d, least VT %d", what, l.gvt, l.floor, l.eligible.top().key)
	}
	for want, h := range map[standing]heap[T]{eligible: l.eligible, throttled: l.throttled} {
		if err := checkHeap(what, h); err != nil {
			return err
		}
		for _, n := range h {
			m := of(n.of)
			if m.vt != n.key || m.standing != want || (m.vt-l.gvt > overrun) != (want == throttled) {
				return fmt.Errorf("%s: in heap %d VT %d key %d standing %d gvt %d", what, want, m.vt, n.key, m.standing, l.gvt)
			}
		}
	}
	return nil
}

func checkLevels(s *Scheduler) error {
	if err := checkLevel("root", &s.root, s.overrun, func(g *group) *member[*group] { return &g.member }); err != nil {
		return err
	}
	members := 0
	for _, g := range s.groups {
		if err := checkLevel("group "+g.name, &g.level, s.overrun, func(f *flow) *member[*flow] { return &f.member }); err != nil {
			return err
		}
		if (g.standing == out) != (g.level.len() == 0) || g.flows == 0 {
			return fmt.Errorf("group %s: standing %d, %d flows", g.name, g.standing, g.flows)
		}
		members += g.level.len()
	}
	if members != s.backlogged {
		return fmt.Errorf("%d in levels, %d backlogged", members, s.backlogged)
	}
	return nil
}

// checkOrder: every eligible flow is ranked by its present key or passed by, and the
// eligible groups with such flows, no others, are ranked.
func checkOrder(s *Scheduler) error {
	for _, f := range s.flows {
		ranked := f.byRank.at > 0
		if (ranked || f.misfit != nil) != (f.standing == eligible) || ranked && f.misfit != nil {
			return fmt.Errorf("flow %s: ranked %t, misfit %t, standing %d", f.id, ranked, f.misfit != nil, f.standing)
		}
		if f.credit < 0 || f.credit > 0 && f.standing == out {
			return fmt.Errorf("flow %s: credit %d, standing %d", f.id, f.credit, f.standing)
		}
		if !ranked {
			continue
		}
		class, key := s.rules.key(s, f)
		if want := (rank{class, key, f.head().seq}); f.byRank.rank != want {
			return fmt.Errorf("flow %s: rank %v, want %v", f.id, f.byRank.rank, want)
		}
	}
	for _, g := range s.groups {
		if err := checkHeap("flows of "+g.name, g.ranked); err != nil {
			return err
		}
		want := g.standing == eligible && len(g.ranked) > 0
		if want != (g.byRank.at > 0) {
			return fmt.Errorf("group %s: ranked %t", g.name, !want)
		}
		r := rank{key: g.vt, tie: g.serial}
		if want && !s.rules.nested {
			r = g.ranked.top().rank
		}
		if want && g.byRank.rank != r {
			return fmt.Errorf("group %s: rank %v, want %v", g.name, g.byRank.rank, r)
		}
	}
	return checkHeap("groups", s.ranked)
}

func checkIdle(s *Scheduler) error {
	listed := 0
	for _, f := range s.flows {
		idle := f.queue.Len() == 0 && len(f.flights) == 0
		if idle != (f.byIdle.at > 0) || f.expired && !idle {
			return fmt.Errorf("flow %s: idle %t, listed at %d, expired %t", f.id, idle, f.byIdle.at, f.expired)
		}
		if !idle {
			continue
		}
		listed++
		h := s.expiry
		if f.expired {
			h = s.inactive
		}
		if at := f.byIdle.at; at > len(h) || h[at-1].of != f || f.byIdle.key != f.until {
			return fmt.Errorf("flow %s: not in its idle heap", f.id)
		}
	}
	if listed != len(s.expiry)+len(s.inactive) {
		return fmt.Errorf("%d are idle, %d in heaps", listed, len(s.expiry)+len(s.inactive))
	}
	if err := checkHeap("expiry", s.expiry); err != nil {
		return err
	}
	return checkHeap("inactive", s.inactive)
}

// checkPaella: below holds the backlogged flows under the limit.
func checkPaella(s *Scheduler) error {
	p, ok := s.rules.hooks.(*paella)
	if !ok {
		return nil
	}
	n := 0
	for _, f := range s.flows {
		if f.standing != out && p.earned-f.deficit < p.limit {
			n++
		}
	}
	if n != len(p.below) {
		return fmt.Errorf("paella: %d below the limit, %d watched", n, len(p.below))
	}
	return checkHeap("below", p.below)
}

func (c *checker) checkMonotone(s *Scheduler) error {
	if s.root.gvt < c.root {
		return fmt.Errorf("root gvt went back from %d to %d", c.root, s.root.gvt)
	}
	c.root = s.root.gvt
	seen := make(map[*group]int64, len(s.groups))
	for _, g := range s.groups {
		if was, ok := c.gvt[g]; ok && g.level.gvt < was {
			return fmt.Errorf("group %s: gvt went back from %d to %d", g.name, was, g.level.gvt)
		}
		seen[g] = g.level.gvt
	}
	c.gvt = seen
	return nil
}
