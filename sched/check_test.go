package sched

import (
	"fmt"
	"slices"
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
		checkTokens, checkCounts, checkLevels, checkOrder, checkIdle, checkPaella, c.checkMonotone,
	} {
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

// checkTokens: free + in flight + reserved == D per device, except while a
// lowered D drains.
func checkTokens(s *Scheduler) error {
	free, tokens, flying := 0, 0, 0
	for i, d := range s.devices {
		if i > 0 && s.devices[i-1].index >= d.index {
			return fmt.Errorf("devices out of order")
		}
		if s.keys[d.key] != d {
			return fmt.Errorf("device %d: key %d is another's", d.index, d.key)
		}
		n := 0
		for k := d.items.head; k != none; k = s.items.all[k].next {
			n++
			if fl := s.items.flightOf(k); fl.device != d.key {
				return fmt.Errorf("device %d: holds an item of key %d", d.index, fl.device)
			}
		}
		if n != int(d.items.n) {
			return fmt.Errorf("device %d: %d in flight, counted %d", d.index, n, d.items.n)
		}
		sum := d.free() + n + d.reserved
		if !d.leaving && sum != d.tokens && (d.free() != 0 || sum < d.tokens) {
			return fmt.Errorf("device %d: %d free + %d in flight + %d reserved, D %d", d.index, d.free(), n, d.reserved, d.tokens)
		}
		if d.leaving && (d.free() != 0 || n == 0) {
			return fmt.Errorf("device %d leaving: free %d, in flight %d", d.index, d.free(), n)
		}
		if free += d.free(); (d.free() > 0) != slices.Contains(s.open, d) || d.counted != d.free() {
			return fmt.Errorf("device %d: %d free, counted %d, among the %d open ones %t", d.index, d.free(), d.counted, len(s.open), slices.Contains(s.open, d))
		}
		flying += n
		if !d.leaving {
			tokens += d.tokens
		}
	}
	if free != s.free || tokens != s.tokens || flying != s.inFlight {
		return fmt.Errorf("free %d want %d, tokens %d want %d, in flight %d want %d", s.free, free, s.tokens, tokens, s.inFlight, flying)
	}
	return nil
}

func checkCounts(s *Scheduler) error {
	queued, flying, backlogged, known := 0, 0, 0, 0
	slot := int32(-1)
	for f := range s.flows.all() {
		slot = max(slot+1, f.slot)
		known++
		if f.slot != slot || s.flows.at(slot) != f || s.byID.find(f.id) != f {
			return fmt.Errorf("flow %s: slot %d or id is wrong", f.id, f.slot)
		}
		n, last := 0, int64(0)
		for i := f.queue.head; i != none; i = s.items.all[i].next {
			n++
			it := s.items.all[i]
			if it.flow != f.slot || it.flight != none || it.seq <= last {
				return fmt.Errorf("flow %s: wrong item %+v in its queue", f.id, it)
			}
			last = it.seq
		}
		if n != int(f.queue.n) || (n > 0) != (f.standing != out) {
			return fmt.Errorf("flow %s: %d queued, counted %d, standing %d", f.id, n, f.queue.n, f.standing)
		}
		if head := f.queue.head; head != none {
			if it := s.items.all[head]; f.headSeq != it.seq || f.when != it.arrival {
				return fmt.Errorf("flow %s: head noted as %d at %d, is %+v", f.id, f.headSeq, f.when, it)
			}
		}
		queued += n
		flying += int(f.inFlight)
		if n > 0 {
			backlogged++
		}
	}
	if queued != s.queued || flying != s.inFlight || backlogged != s.backlogged {
		return fmt.Errorf("queued %d want %d, in flight %d want %d, backlogged %d want %d", s.queued, queued, s.inFlight, flying, s.backlogged, backlogged)
	}
	if known != s.byID.n || s.items.byID.n != queued+flying {
		return fmt.Errorf("%d flows in slots, %d by id; %d items by id", known, s.byID.n, s.items.byID.n)
	}
	return nil
}

func checkHeap(what string, h *heap) error {
	var first [keptLeast]entry
	if n := h.first(first[:]); n < h.known || !slices.Equal(first[:h.known], h.few[:h.known]) {
		return fmt.Errorf("%s: the first are %v, known as %v", what, first[:n], h.few[:h.known])
	}
	for i, e := range h.e {
		if int((*h.at)[e.slot()]) != i+1 {
			return fmt.Errorf("%s: slot %d at %d, table says %d", what, e.slot(), i, (*h.at)[e.slot()]-1)
		}
		if i > 0 && e.before(h.e[(i-1)/4]) {
			return fmt.Errorf("%s: entry %d is before its parent", what, i)
		}
	}
	return nil
}

// checkTournament: each round has the least of four of the one before, and the
// count is that of the places.
func checkTournament(t *tournament) error {
	n := 0
	for _, e := range t.e[:t.wide] {
		if e != vacant {
			n++
		}
	}
	if n != t.n {
		return fmt.Errorf("%d places taken, counted %d", n, t.n)
	}
	round, wide := t.e, t.wide
	for ; wide > 4; wide = following(wide) {
		for i := range wide / 4 {
			if e := least((*[4]entry)(round[4*i:])); e != round[wide+i] {
				return fmt.Errorf("of %d the winner at %d is %v, want %v", wide, i, round[wide+i], e)
			}
		}
		round = round[wide:]
	}
	if wide == 4 && t.winner != least((*[4]entry)(round)) {
		return fmt.Errorf("the winner is %v of %v", t.winner, round[:4])
	}
	return nil
}

// checkRanking gives the members, unless the books are wrong.
func checkRanking(what string, of ranking) (all []entry, err error) {
	r, ok := of.(*ranks)
	if !ok {
		h := of.(*heap)
		return h.e, checkHeap(what, h)
	}
	for _, e := range r.e[:r.wide] {
		if e != vacant {
			all = append(all, e)
		}
	}
	var first [keptLeast]entry
	n := r.first(first[:])
	want := slices.SortedFunc(slices.Values(all), func(a, b entry) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	if want = want[:min(len(want), keptLeast)]; !slices.Equal(first[:n], want) || !slices.Equal(first[:min(n, r.known)], r.few[:r.known]) {
		return nil, fmt.Errorf("%s: the first are %v, found %v, known as %v", what, want, first[:n], r.few[:r.known])
	}
	return all, checkTournament(&r.tournament)
}

// checkLevel: gvt is the least backlogged VT, or the floor; eligible <= T ahead, throttled
// more; something backlogged implies something eligible.
func checkLevel(what string, l *level, overrun int64, vt func(int32) (int64, standing)) error {
	all, err := checkRanking(what+" eligible", l.eligible)
	if err != nil {
		return err
	}
	if err := checkHeap(what+" throttled", &l.throttled); err != nil {
		return err
	}
	if l.throttled.len() > 0 && l.eligible.len() == 0 {
		return fmt.Errorf("%s: backlogged, and nothing is eligible", what)
	}
	if !l.empty() && max(l.floor, l.eligible.top().k1) != l.gvt {
		return fmt.Errorf("%s: gvt %d, floor %d, least VT %d", what, l.gvt, l.floor, l.eligible.top().k1)
	}
	for _, e := range all {
		if v, st := vt(e.slot()); v != e.k1 || st != eligible || v-l.gvt > overrun {
			return fmt.Errorf("%s: eligible slot %d VT %d key %d standing %d gvt %d", what, e.slot(), v, e.k1, st, l.gvt)
		}
	}
	for _, e := range l.throttled.e {
		if v, st := vt(e.slot()); v != e.k1 || st != throttled || v-l.gvt <= overrun {
			return fmt.Errorf("%s: throttled slot %d VT %d key %d standing %d gvt %d", what, e.slot(), v, e.k1, st, l.gvt)
		}
	}
	return nil
}

func checkLevels(s *Scheduler) error {
	ofGroup := func(i int32) (int64, standing) { return s.groups[i].vt, s.groups[i].standing }
	ofFlow := func(i int32) (int64, standing) { return s.flows.at(i).vt, s.flows.at(i).standing }
	if err := checkLevel("root", &s.root, s.overrun, ofGroup); err != nil {
		return err
	}
	members := 0
	for _, g := range s.groups {
		if g == nil {
			continue
		}
		if err := checkLevel("group "+g.name, &g.level, s.overrun, ofFlow); err != nil {
			return err
		}
		if (g.standing == out) != g.level.empty() || g.flows == 0 {
			return fmt.Errorf("group %s: standing %d, %d flows", g.name, g.standing, g.flows)
		}
		members += g.level.eligible.len() + g.level.throttled.len()
	}
	if members != s.backlogged {
		return fmt.Errorf("%d in levels, %d backlogged", members, s.backlogged)
	}
	return nil
}

// checkOrder: every eligible flow lies in its bucket under its present key, and
// the buckets of eligible groups, no others, are in the classes.
func checkOrder(s *Scheduler) error {
	for f := range s.flows.all() {
		if ordered := f.class != outside; (ordered || f.passed) != (f.standing == eligible) || ordered && f.passed {
			return fmt.Errorf("flow %s: ordered %t, passed %t, standing %d", f.id, ordered, f.passed, f.standing)
		}
		if f.beyond || f.credit < 0 || f.credit > 0 && f.standing == out {
			return fmt.Errorf("flow %s: beyond %t, credit %d, standing %d", f.id, f.beyond, f.credit, f.standing)
		}
		if f.class == outside {
			continue
		}
		class, k1 := s.rules.key(s, f)
		e := s.order.buckets[s.order.bucket(f.group, class)].flows.e[f.place]
		if class != f.class || e != entryOf(k1, s.items.all[f.queue.head].seq, f.slot) {
			return fmt.Errorf("flow %s: class %d key %v, want %d %d %d", f.id, f.class, e, class, k1, s.items.all[f.queue.head].seq)
		}
	}
	for i := range s.order.buckets {
		b := &s.order.buckets[i]
		if b.group == nil {
			if b.flows.n > 0 || s.order.at[i] != 0 {
				return fmt.Errorf("free bucket %d is in use", i)
			}
			continue
		}
		if err := checkTournament(&b.flows); err != nil {
			return err
		}
		k1, k2 := s.order.key(b)
		want := b.group.standing == eligible && b.flows.n > 0
		if want != (s.order.at[i] != 0) {
			return fmt.Errorf("bucket of group %s class %d: in order %t", b.group.name, b.class, !want)
		}
		if want && s.order.classes[b.class].e[s.order.at[i]-1] != entryOf(k1, k2, int32(i)) {
			return fmt.Errorf("bucket of group %s class %d: stale key", b.group.name, b.class)
		}
	}
	for c := range s.order.classes {
		if err := checkHeap("class", &s.order.classes[c]); err != nil {
			return err
		}
		if bit := s.order.some[c/64]>>(c%64)&1 == 1; bit != (s.order.classes[c].len() > 0) {
			return fmt.Errorf("class %d: bit %t", c, bit)
		}
	}
	return nil
}

func checkIdle(s *Scheduler) error {
	listed := 0
	for f := range s.flows.all() {
		if want := f.queue.n == 0 && f.inFlight == 0; (f.rest != awake) != want {
			return fmt.Errorf("flow %s: rests %d", f.id, f.rest)
		}
		at := int(s.idleAt[f.slot])
		if at != 0 {
			listed++
		}
		if f.rest == awake {
			continue
		}
		h := &s.expiry
		if f.rest == expired {
			h = &s.inactive
		}
		if at == 0 || at > h.len() || h.e[at-1].slot() != f.slot {
			return fmt.Errorf("flow %s: not in its idle heap", f.id)
		}
		if k := h.e[at-1].k1; k > f.when || f.rest == expired && k != f.when {
			return fmt.Errorf("flow %s: listed for %d, idle until %d", f.id, k, f.when)
		}
	}
	if listed != s.expiry.len()+s.inactive.len() {
		return fmt.Errorf("%d listed, %d in heaps", listed, s.expiry.len()+s.inactive.len())
	}
	if err := checkHeap("expiry", &s.expiry); err != nil {
		return err
	}
	return checkHeap("inactive", &s.inactive)
}

// checkPaella: below holds the backlogged flows under the limit.
func checkPaella(s *Scheduler) error {
	p, ok := s.rules.(*paella)
	if !ok {
		return nil
	}
	n := 0
	for f := range s.flows.all() {
		if f.standing != out && p.earned-f.deficit < p.limit {
			n++
		}
	}
	if n != p.below.len() {
		return fmt.Errorf("paella: %d below the limit, %d watched", n, p.below.len())
	}
	return checkHeap("below", &p.below)
}

func (c *checker) checkMonotone(s *Scheduler) error {
	if s.root.gvt < c.root {
		return fmt.Errorf("root gvt went back from %d to %d", c.root, s.root.gvt)
	}
	c.root = s.root.gvt
	seen := make(map[*group]int64, len(s.groups))
	for _, g := range s.groups {
		if g == nil {
			continue
		}
		if was, ok := c.gvt[g]; ok && g.level.gvt < was {
			return fmt.Errorf("group %s: gvt went back from %d to %d", g.name, was, g.level.gvt)
		}
		seen[g] = g.level.gvt
	}
	c.gvt = seen
	return nil
}
