package sched

import (
	"cmp"
	"fmt"
)

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

// counted is an error where a count that is kept is not what there is.
func counted(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("%s: counted %d, want %d", what, got, want)
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
		if f.wants != "" && f.misfit == nil {
			return fmt.Errorf("devices drain for flow %s, which is no misfit", f.id)
		}
		if f.wants != "" && f.standing != eligible {
			return fmt.Errorf("devices drain for flow %s, which is not eligible: standing %d", f.id, f.standing)
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
			if it.run == nil {
				return fmt.Errorf("device %d: holds invocation %d, which does not run", d.index, it.id)
			}
			if it.run.device != d {
				return fmt.Errorf("device %d: holds invocation %d of device %d", d.index, it.id, it.run.device.index)
			}
		}
		sum := d.free() + n
		switch {
		case d.leaving && d.free() != 0:
			return fmt.Errorf("device %d leaving: free %d, in flight %d", d.index, d.free(), n)
		case !d.leaving && sum < d.tokens:
			return fmt.Errorf("device %d: %d free + %d in flight are fewer than D %d", d.index, d.free(), n, d.tokens)
		case !d.leaving && sum > d.tokens && d.free() != 0:
			return fmt.Errorf("device %d: %d free beside %d in flight, where D %d is exceeded", d.index, d.free(), n, d.tokens)
		}
		flying += n
		if !d.leaving {
			tokens += d.tokens
		}
	}
	return cmp.Or(counted("tokens", s.tokens, tokens), counted("in flight on devices", s.inFlight, flying))
}

func checkCounts(s *Scheduler) error {
	queued, flying, backlogged := 0, 0, 0
	for id, f := range s.flows {
		if f.id != id {
			return fmt.Errorf("flow %s: listed as %s", f.id, id)
		}
		if s.groups[f.group.name] != f.group {
			return fmt.Errorf("flow %s: its group %s is not the one listed", f.id, f.group.name)
		}
		last := int64(0)
		for e := f.queue.Front(); e != nil; e = e.Next() {
			it := e.Value.(*invocation)
			wrong := ""
			switch {
			case it.flow != f:
				wrong = "of another flow"
			case it.run != nil:
				wrong = "in flight"
			case it.queued != e:
				wrong = "at another place of a queue"
			case it.seq <= last:
				wrong = "out of order"
			case s.invocations[it.id] != it:
				wrong = "not the one with its id"
			}
			if wrong != "" {
				return fmt.Errorf("flow %s: an invocation in its queue is %s: %+v", f.id, wrong, it)
			}
			last = it.seq
		}
		n := f.queue.Len()
		if competes := n > 0 && !f.backoff.pausing() && f.class.devices != ""; competes != (f.standing != out) {
			return fmt.Errorf("flow %s: %d queued, standing %d", f.id, n, f.standing)
		}
		if f.aside && n == 0 {
			return fmt.Errorf("flow %s: aside with nothing queued", f.id)
		}
		if f.aside && f.standing != out {
			return fmt.Errorf("flow %s: aside, and its standing is %d", f.id, f.standing)
		}
		queued += n
		flying += len(f.flights)
		if f.standing != out {
			backlogged++
		}
	}
	return cmp.Or(
		counted("queued", s.queued, queued),
		counted("in flight of flows", s.inFlight, flying),
		counted("backlogged", s.backlogged, backlogged),
		counted("invocations by id", len(s.invocations), queued+flying),
	)
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
			if m.vt != n.key {
				return fmt.Errorf("%s: VT %d has key %d in heap %d", what, m.vt, n.key, want)
			}
			if m.standing != want {
				return fmt.Errorf("%s: standing %d in heap %d", what, m.standing, want)
			}
			if (m.vt-l.gvt > overrun) != (want == throttled) {
				return fmt.Errorf("%s: VT %d in heap %d, gvt %d, T %d", what, m.vt, want, l.gvt, overrun)
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
		if (g.standing == out) != (g.level.len() == 0) {
			return fmt.Errorf("group %s: standing %d with %d flows in its level", g.name, g.standing, g.level.len())
		}
		if g.flows == 0 {
			return fmt.Errorf("group %s: without flows", g.name)
		}
		members += g.level.len()
	}
	return counted("backlogged in levels", s.backlogged, members)
}

// checkOrder: every flow that competes is in the heap of its standing by its present
// key, or a misfit.
func checkOrder(s *Scheduler) error {
	for _, f := range s.flows {
		if f.credit < 0 {
			return fmt.Errorf("flow %s: credit %d", f.id, f.credit)
		}
		if f.credit > 0 && f.standing == out && !f.aside {
			return fmt.Errorf("flow %s: credit %d, and it does not compete", f.id, f.credit)
		}
		if f.standing == out || f.misfit != nil {
			if f.listed != nil {
				return fmt.Errorf("flow %s: in a heap, misfit %t, standing %d", f.id, f.misfit != nil, f.standing)
			}
			if f.byRank.at > 0 {
				return fmt.Errorf("flow %s: at %d of a heap, misfit %t, standing %d", f.id, f.byRank.at, f.misfit != nil, f.standing)
			}
			continue
		}
		want, in := rank{key: f.position}, &f.share.beyond
		if f.standing == eligible {
			class, key := s.rules.key(s, f)
			want, in = rank{class, key, f.head().seq}, &f.share.ranked
		}
		if f.listed != in {
			return fmt.Errorf("flow %s: standing %d, and not in the heap for it", f.id, f.standing)
		}
		if f.byRank.at == 0 {
			return fmt.Errorf("flow %s: standing %d, at no place of its heap", f.id, f.standing)
		}
		if f.byRank.rank != want {
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
			if f.share.class != f.class {
				return fmt.Errorf("flow %s: in the share of reach %x, has %x", f.id, f.share.class.devices, f.class.devices)
			}
			if f.share.group != f.group {
				return fmt.Errorf("flow %s: in the share of group %s", f.id, f.share.group.name)
			}
			flows[f.class]++
		}
		if f.misfit != nil {
			misfits[f.class]++
		}
	}
	if err := counted("flows with something queued", s.waiting.Len(), waiting); err != nil {
		return err
	}
	active := 0
	for _, c := range s.classes {
		if err := cmp.Or(counted("flows", c.flows, flows[c]), counted("misfits", c.misfits.Len(), misfits[c])); err != nil {
			return fmt.Errorf("class %x: %w", c.devices, err)
		}
		if c.untried > misfits[c] {
			return fmt.Errorf("class %x: %d of %d misfits untried", c.devices, c.untried, misfits[c])
		}
		if c.flows > 0 {
			active++
		}
	}
	if err := counted("classes with flows", len(s.active), active); err != nil {
		return err
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

// checkListed: a share is in a heap if it has something there, with the rank of that.
func checkListed(what string, n node[*share], listed bool, want rank) error {
	if listed != (n.at > 0) {
		return fmt.Errorf("%s %t, and at %d", what, listed, n.at)
	}
	if listed && n.rank != want {
		return fmt.Errorf("%s %v at %d, want %v", what, n.rank, n.at, want)
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
	if err := checkListed("ranked", sh.byRank, ranked, want); err != nil {
		return err
	}
	beyond := g.standing == eligible && len(sh.beyond) > 0 || g.standing == throttled && len(sh.beyond)+len(sh.ranked) > 0
	want = rank{0, g.vt, g.serial}
	if g.standing == throttled {
		want = rank{1, g.position, g.serial}
	}
	if err := checkListed("beyond", sh.bySpare, beyond, want); err != nil {
		return err
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
		if idle != (f.byIdle.at > 0) {
			return fmt.Errorf("flow %s: idle %t, listed at %d", f.id, idle, f.byIdle.at)
		}
		if f.expired && !idle {
			return fmt.Errorf("flow %s: expired, and not idle", f.id)
		}
		if !idle {
			continue
		}
		listed++
		h := s.expiry
		if f.expired {
			h = s.inactive
		}
		switch at := f.byIdle.at; {
		case at > len(h):
			return fmt.Errorf("flow %s: at %d of its idle heap of %d", f.id, at, len(h))
		case h[at-1].of != f:
			return fmt.Errorf("flow %s: its idle heap has flow %s at its place", f.id, h[at-1].of.id)
		case f.byIdle.key != f.until:
			return fmt.Errorf("flow %s: idle with key %d, want %d", f.id, f.byIdle.key, f.until)
		}
	}
	if err := counted("idle", len(s.expiry)+len(s.inactive), listed); err != nil {
		return err
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
