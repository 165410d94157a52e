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
		checkTokens, checkCounts, checkLevels, checkOrder, checkClasses, checkIdle, checkPaella, c.checkMonotone,
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
	wanted := map[*device]int{}
	for _, f := range s.flows {
		for _, d := range s.devices {
			if f.wants.has(d) {
				wanted[d]++
			}
		}
		if f.wants != "" && (f.misfit == nil || f.standing != eligible) {
			return fmt.Errorf("devices drain for flow %s, which does not wait for them", f.id)
		}
	}
	for i, d := range s.devices {
		if d.wanted != wanted[d] {
			return fmt.Errorf("device %d: %d flows want it, counted %d", d.index, wanted[d], d.wanted)
		}
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
		if d.leaving && d.free() != 0 {
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
		if competes := n > 0 && !f.backoff.pausing() && f.class.devices != ""; competes != (f.standing != out) {
			return fmt.Errorf("flow %s: %d queued, standing %d", f.id, n, f.standing)
		}
		if f.aside && (n == 0 || f.standing != out) {
			return fmt.Errorf("flow %s: aside with %d queued, standing %d", f.id, n, f.standing)
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

// checkLevel: gvt is the least backlogged VT; eligible <= T ahead, throttled
// more; something backlogged implies something eligible.
func checkLevel[T any](what string, l *level[T], overrun int64, of func(T) *member[T]) error {
	if len(l.throttled) > 0 && len(l.eligible) == 0 {
		return fmt.Errorf("%s: backlogged, and nothing is eligible", what)
	}
	if l.len() > 0 && l.eligible.top().key != l.gvt {
		return fmt.Errorf("%s: gvt %d, least VT %d", what, l.gvt, l.eligible.top().key)
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

// checkOrder: every flow that competes is in the heap of its standing by its present
// key, or a misfit.
func checkOrder(s *Scheduler) error {
	for _, f := range s.flows {
		if f.credit < 0 || f.credit > 0 && f.standing == out && !f.aside {
			return fmt.Errorf("flow %s: credit %d, standing %d", f.id, f.credit, f.standing)
		}
		if f.standing == out || f.misfit != nil {
			if f.listed != nil || f.byRank.at > 0 {
				return fmt.Errorf("flow %s: listed, misfit %t, standing %d", f.id, f.misfit != nil, f.standing)
			}
			continue
		}
		want, in := rank{key: f.position}, &f.share.beyond
		if f.standing == eligible {
			class, key := s.rules.key(s, f)
			want, in = rank{class, key, f.head().seq}, &f.share.ranked
		}
		if f.listed != in || f.byRank.at == 0 || f.byRank.rank != want {
			return fmt.Errorf("flow %s: rank %v at %d, want %v", f.id, f.byRank.rank, f.byRank.at, want)
		}
	}
	return nil
}

// checkClasses: flows that compete are counted by their reach, and the shares of each
// are in its heaps by their present keys.
func checkClasses(s *Scheduler) error {
	waiting, flows, misfits := 0, map[*class]int{}, map[*class]int{}
	for _, f := range s.flows {
		if f.queue.Len() > 0 {
			waiting++
		}
		if (f.share != nil) != (f.standing != out) {
			return fmt.Errorf("flow %s: standing %d, share %v", f.id, f.standing, f.share)
		}
		if f.share != nil {
			if f.share.class != f.class || f.share.group != f.group {
				return fmt.Errorf("flow %s: in the share of another", f.id)
			}
			flows[f.class]++
		}
		if f.misfit != nil {
			misfits[f.class]++
		}
	}
	if waiting != s.waiting.Len() {
		return fmt.Errorf("%d flows have something queued, %d listed", waiting, s.waiting.Len())
	}
	active := 0
	for _, c := range s.classes {
		if c.flows != flows[c] || c.misfits.Len() != misfits[c] || c.untried > misfits[c] {
			return fmt.Errorf("class %x: %d flows, %d misfits, %d untried; want %d and %d", c.devices, c.flows, c.misfits.Len(), c.untried, flows[c], misfits[c])
		}
		if c.flows > 0 {
			active++
		}
	}
	if active != len(s.active) {
		return fmt.Errorf("%d classes with flows, %d listed", active, len(s.active))
	}
	for _, g := range s.groups {
		for _, sh := range g.shares {
			if err := checkShare(s, sh); err != nil {
				return fmt.Errorf("share of %s with reach %x: %w", g.name, sh.class.devices, err)
			}
		}
	}
	for _, c := range s.active {
		if err := checkHeap("ranked", c.ranked); err != nil {
			return err
		}
		if err := checkHeap("beyond", c.beyond); err != nil {
			return err
		}
	}
	return nil
}

func checkShare(s *Scheduler, sh *share) error {
	g := sh.group
	ranked := g.standing == eligible && len(sh.ranked) > 0
	want := rank{key: g.vt, tie: g.serial}
	if ranked && !s.rules.nested {
		want = sh.ranked.top().rank
	}
	if ranked != (sh.byRank.at > 0) || ranked && sh.byRank.rank != want {
		return fmt.Errorf("ranked %v at %d, want %v", sh.byRank.rank, sh.byRank.at, want)
	}
	beyond := g.standing == eligible && len(sh.beyond) > 0 || g.standing == throttled && len(sh.beyond)+len(sh.ranked) > 0
	want = rank{0, g.vt, g.serial}
	if g.standing == throttled {
		want = rank{1, g.position, g.serial}
	}
	if beyond != (sh.bySpare.at > 0) || beyond && sh.bySpare.rank != want {
		return fmt.Errorf("beyond %v at %d, want %v", sh.bySpare.rank, sh.bySpare.at, want)
	}
	if err := checkHeap("ranked flows", sh.ranked); err != nil {
		return err
	}
	return checkHeap("flows beyond", sh.beyond)
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
