package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

func (d *oracleDevice) free() int {
	if d.leaving {
		return 0
	}
	return max(0, d.tokens-len(d.flights))
}

func (w *oracle) Next(now time.Duration) (Choice, bool) {
	w.clock(now)
	w.holdUntil, w.askAt = never, never
	hasFree := func(d *oracleDevice) bool { return d.free() > 0 }
	if !slices.ContainsFunc(w.devices, hasFree) || !slices.ContainsFunc(w.flows, func(f *oracleFlow) bool { return len(f.queue) > 0 }) {
		return Choice{}, false
	}
	w.measure()
	for _, f := range w.overdue() {
		if d, p, ok := w.fit(f, hasFree); ok {
			w.overdueAt = w.now + 4*w.setup(f)/int64(w.tokens())
			return w.grant(f, d, p, RuleOverdue), true
		}
	}
	list := w.which(w.eligible)
	slices.SortFunc(list, func(a, b *oracleFlow) int { return slices.Compare(w.rank(a), w.rank(b)) })
	for _, f := range list {
		if w.printed == "token after the queue" {
			// The queue is chosen whatever the devices are, and the token is the
			// first that is free.
			d := w.devices[slices.IndexFunc(w.devices, hasFree)]
			return w.grant(f, d, w.ask(f, d), RuleOrder), true
		}
		if d, p, ok := w.fit(f, hasFree); ok {
			return w.grant(f, d, p, RuleOrder), true
		}
	}
	return w.spare()
}

// rank is the policy's order, the least first.
func (w *oracle) rank(f *oracleFlow) []int64 {
	head, flying := f.queue[0], int64(len(f.flights))
	switch {
	case w.cfg.Shortest:
		return []int64{min(flying, 3), roundDown(8*w.setup(f) + w.expected(f)), head.seq}
	case w.printed == "unstable second sort":
		return []int64{flying, -head.seq}
	}
	switch w.policy {
	case "mqfq-sticky", "sticky-plus":
		return []int64{flying, -int64(len(f.queue)), head.seq}
	case "mqfq", "sfq":
		return []int64{f.space.vt, int64(slices.Index(w.spaces, f.space)), f.vt, head.seq}
	case "sjf":
		return []int64{w.expected(f), head.seq}
	case "eevdf":
		return []int64{head.arrival + w.takes(f), head.seq}
	case "batch":
		if f.batch > 0 {
			return []int64{0, head.seq}
		}
		return []int64{1, head.seq}
	case "paella":
		if w.overLimit(f) {
			return []int64{0, -f.deficit, head.seq}
		}
		return []int64{1, w.expected(f), head.seq}
	}
	return []int64{head.seq}
}

// roundDown rounds down to a power of four, from 2^20 ns.
func roundDown(takes int64) (low int64) {
	for k := int64(1) << 20; k <= takes; k *= 4 {
		low = k
	}
	return low
}

// tokens is D of the devices present together.
func (w *oracle) tokens() (n int) {
	for _, d := range w.devices {
		if !d.leaving {
			n += d.tokens
		}
	}
	return n
}

func (w *oracle) usual(f *oracleFlow) int64 {
	switch {
	case f.served > 0:
		return f.est
	case w.cfg.InitialCharge > 0:
		return max(int64(w.cfg.InitialCharge), int64(time.Millisecond))
	}
	return max(int64(max(w.cfg.Overrun, w.cfg.Gap/2))/10, int64(time.Millisecond))
}

func (w *oracle) expected(f *oracleFlow) int64 { return cmp.Or(f.queue[0].cost, w.usual(f)) }

// setup is the least on any device.
func (w *oracle) setup(f *oracleFlow) int64 {
	least := limit
	for _, d := range w.devices {
		if !d.leaving {
			least = min(least, w.ask(f, d).Setup)
		}
	}
	return int64(least)
}

func (w *oracle) takes(f *oracleFlow) int64 { return w.setup(f) + w.expected(f) }

func (w *oracle) ask(f *oracleFlow, d *oracleDevice) Placement {
	if w.view == nil {
		return Placement{Fits: true}
	}
	return w.view.Placements(f.id)(d.index)
}

// leastServed lists flows by the virtual time of their namespaces, those of each
// by their own.
func (w *oracle) leastServed(are func(*oracleFlow) bool) []*oracleFlow {
	list := w.which(are)
	slices.SortStableFunc(list, func(a, b *oracleFlow) int {
		return cmp.Or(cmp.Compare(a.space.vt, b.space.vt),
			cmp.Compare(slices.Index(w.spaces, a.space), slices.Index(w.spaces, b.space)), cmp.Compare(a.vt, b.vt))
	})
	return list
}

// overdue lists the flows that go before the policy's order: of the four
// namespaces served least, and of each the four flows served least, those with
// nothing in flight whose head waited beyond its limit.
func (w *oracle) overdue() (late []*oracleFlow) {
	if w.cfg.Slowdown == 0 || w.now < w.overdueAt || w.policy != "mqfq-sticky" && w.policy != "sticky-plus" {
		return nil
	}
	seen := map[*oracleSpace]int{}
	for _, f := range w.leastServed(w.eligible) {
		seen[f.space]++
		waited := w.now - f.queue[0].arrival
		if len(seen) <= 4 && seen[f.space] <= 4 && len(f.flights) == 0 &&
			waited >= int64(w.cfg.MinWait) && float64(waited) >= w.cfg.Slowdown*float64(w.takes(f)) {
			late = append(late, f)
		}
	}
	return late
}

// spare grants to a flow beyond the window on a device that nothing inside it can use.
func (w *oracle) spare() (Choice, bool) {
	if w.overrun == endless {
		return Choice{}, false
	}
	open := func(d *oracleDevice) bool {
		wanted := slices.ContainsFunc(w.flows, func(f *oracleFlow) bool {
			a := w.ask(f, d)
			return w.eligible(f) && f.reaches(d) && !a.Fits && !a.Elsewhere
		})
		return d.free() > 0 && (len(d.flights) == 0 || !wanted)
	}
	tried := map[*oracleFlow]bool{}
	for passed := 0; ; passed++ {
		list := w.which(func(f *oracleFlow) bool {
			return f.backlogged() && !tried[f] && !w.eligible(f) && slices.ContainsFunc(w.devices, func(d *oracleDevice) bool { return open(d) && f.reaches(d) })
		})
		if len(list) == 0 {
			return Choice{}, false
		}
		if passed == 128 {
			w.askAt = w.now + int64(time.Millisecond)
			return Choice{}, false
		}
		f := w.firstBeyond(list)
		d, p, ok := w.fit(f, open)
		switch {
		case !ok:
			tried[f] = true
		case !w.within(&f.space.oracleAccount) && f.space.pass():
		case !w.within(&f.oracleAccount) && f.pass():
		default:
			return w.grant(f, d, p, RuleSpare), true
		}
	}
}

func (f *oracleFlow) reaches(d *oracleDevice) bool {
	return slices.Contains(strings.Fields(f.reach), fmt.Sprint(d.index))
}

// firstBeyond is the flow that comes first of some that may not run inside the window:
// that of a namespace inside it by virtual time, else by turns; there one inside the
// window of its namespace by the policy's order, else by turns.
func (w *oracle) firstBeyond(list []*oracleFlow) *oracleFlow {
	least := func(list []*oracleFlow, key func(*oracleFlow) []int64) *oracleFlow {
		return slices.MinFunc(list, func(a, b *oracleFlow) int { return slices.Compare(key(a), key(b)) })
	}
	g := least(list, func(f *oracleFlow) []int64 {
		if g := f.space; w.within(&g.oracleAccount) {
			return []int64{0, g.vt, int64(slices.Index(w.spaces, g))}
		}
		return []int64{1, f.space.position}
	}).space
	list = slices.DeleteFunc(list, func(f *oracleFlow) bool { return f.space != g })
	inside := slices.DeleteFunc(slices.Clone(list), func(f *oracleFlow) bool { return !w.within(&f.oracleAccount) })
	if len(inside) > 0 {
		return least(inside, w.rank)
	}
	return least(list, func(f *oracleFlow) []int64 { return []int64{f.position} })
}

// fit is the device, of those allowed, where a flow starts soonest.
func (w *oracle) fit(f *oracleFlow, allowed func(*oracleDevice) bool) (best *oracleDevice, p Placement, ok bool) {
	for _, d := range w.devices {
		a := w.ask(f, d)
		if !allowed(d) || !a.Fits || !f.reaches(d) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(a.Setup, p.Setup), cmp.Compare(a.Start, p.Start), cmp.Compare(best.free(), d.free())) < 0 {
			best, p = d, a
		}
	}
	return best, p, best != nil && !w.waits(f, p)
}

func (w *oracle) waits(f *oracleFlow, p Placement) bool {
	sooner, many := int64(never), 0
	ends := func(flights []*oracleInvocation, after time.Duration) {
		for _, it := range flights {
			sooner = min(sooner, max(0, it.granted+it.setup+it.est-w.now)+int64(after))
		}
	}
	if w.cfg.Wait && p.Start >= Cold {
		ends(f.flights, 0)
		many += len(f.flights)
	}
	for _, d := range w.devices {
		a := w.ask(f, d)
		if w.cfg.Locality && !d.leaving && d.free() == 0 && len(d.flights) > 0 && a.Start <= HostWarm && a.Fits {
			ends(d.flights, a.Setup)
			many++
		}
	}
	behind := float64(len(f.queue)-1) * float64(w.usual(f)) / float64(many)
	if p.Setup <= 0 || many == 0 || float64(sooner)+behind >= float64(p.Setup) {
		return false
	}
	if !f.waiting {
		f.waiting, f.waitingSince = true, w.now
	}
	until := f.waitingSince + int64(p.Setup)
	if w.now >= until {
		return false
	}
	w.holdUntil = min(w.holdUntil, until)
	return true
}

func (w *oracle) grant(f *oracleFlow, d *oracleDevice, p Placement, rule Rule) Choice {
	it := f.queue[0]
	it.device, it.granted, it.setup, it.est = d, w.now, int64(p.Setup), w.expected(f)
	it.basis = it.est
	if w.cfg.CountSetup {
		it.basis += it.setup
	}
	if w.cfg.FixedCharge > 0 {
		it.basis = int64(w.cfg.FixedCharge)
	}
	it.charged = int64(float64(it.basis) / f.weight)
	it.spaceCharge = int64(float64(it.basis) / f.space.weight)
	if w.overLimit(f) {
		rule = RuleDeficit
	}
	w.payDeficit(f)
	f.queue = f.queue[1:]
	switch {
	case f.batch > 0:
		f.batch--
		rule = RuleBatch
	case w.policy == "batch":
		f.batch = len(f.queue)
	}
	f.flights, d.flights = append(f.flights, it), append(d.flights, it)
	f.waiting = false
	it.spare, it.spareAbove = !w.within(&f.oracleAccount), !w.within(&f.space.oracleAccount)
	w.amend(f, it, it.charged, it.spaceCharge)
	w.emptied(f)
	w.update()
	return Choice{
		Invocation: it.id, Flow: f.id, Device: d.index, Placement: p,
		Waited: time.Duration(w.now - it.arrival), Charged: time.Duration(it.charged), Rule: rule,
	}
}

func (w *oracle) overLimit(f *oracleFlow) bool {
	return w.policy == "paella" && f.deficit >= int64(w.cfg.DeficitLimit*credit)
}

// payDeficit has the winner pay for a grant, and all that are backlogged earn.
func (w *oracle) payDeficit(winner *oracleFlow) {
	backlogged := w.which((*oracleFlow).backlogged)
	for _, f := range backlogged {
		f.deficit += credit / int64(len(backlogged))
	}
	winner.deficit -= credit
}
