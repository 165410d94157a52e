package sched

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// reference takes one decision by the rules of docs/scheduling.md, slowly and from scratch: it
// reads queues, virtual times, runs in flight and placements. Of a Scheduler's memory of
// earlier decisions it reads only since when a flow waits, and has work queued.
type reference struct {
	s         *Scheduler
	now       int64
	flows     []*refFlow
	leastRoot int64
	awaited   map[*device][]refWait
}

// refFlow is a flow that competes.
type refFlow struct {
	*flow
	vt, spaceVT   int64
	ahead, inside bool
	device        *device // where it could start, nil for nowhere
	placement     Placement
	waits         bool
	held          map[*device]bool // devices where it would share a container, and delay others
	short         map[*device]Lack // devices where it lacks no memory, but other things
}

// refWait is a flow that waits for a device. Where its namespace is beyond the window, only
// flows of its own namespace beyond the window heed the wait.
type refWait struct {
	flow  *refFlow
	lacks Placement
}

// decision is the part of a Choice in which reference and Scheduler must agree.
type decision struct {
	Flow   FlowID
	Device int
	Rule   Rule
}

// decide must be called before Next, which changes the state that decide reads.
func decide(s *Scheduler, now time.Duration) (decision, bool) {
	r := &reference{s: s, now: max(s.now, int64(now)), awaited: map[*device][]refWait{}, leastRoot: never}
	r.compete()
	if !s.windowed {
		return r.decideInOrder()
	}
	for _, f := range r.flows {
		if f.inside {
			r.fit(f)
		}
	}
	if f := r.first(func(f *refFlow) bool { return f.inside && !f.waits }, r.inOrder); f != nil {
		return decision{f.id, f.device.index, RuleOrder}, true
	}
	for _, ahead := range []bool{false, true} {
		for _, f := range r.flows {
			if !f.inside && f.ahead == ahead {
				r.fit(f)
			}
		}
	}
	best := r.first(func(f *refFlow) bool { return !f.inside && !f.waits }, r.beyond)
	if best == nil {
		if f := r.first(func(f *refFlow) bool { return f.inside && f.waits && r.waitedEnough(f) }, r.inOrder); f != nil {
			return decision{f.id, f.device.index, RuleOrder}, true
		}
		return decision{}, false
	}
	passed := func(f *refFlow) bool { return f.waits && r.leads(best, f) }
	if f := r.first(func(f *refFlow) bool { return f.inside && passed(f) }, r.inOrder); f != nil {
		return decision{f.id, f.device.index, RuleOrder}, true
	}
	if f := r.first(func(f *refFlow) bool { return !f.inside && passed(f) }, r.beyond); f != nil {
		best = f
	}
	for _, f := range r.flows {
		lacks := f.short[best.device]
		gives := best.placement.Shares && lacks != 0 && (lacks&LacksLimit == 0 || f.id.Namespace == best.id.Namespace)
		if (f.held[best.device] || gives) && r.leads(best, f) {
			return decision{}, false
		}
	}
	return decision{best.id, best.device.index, RuleSpare}, true
}

// decideInOrder is for policies without a window: others start only where they do not delay
// the first.
func (r *reference) decideInOrder() (decision, bool) {
	var first *refFlow
	for _, f := range r.flows {
		if first == nil || slices.Compare(r.inOrder(f), r.inOrder(first)) < 0 {
			first = f
		}
	}
	if first == nil {
		return decision{}, false
	}
	if r.fit(first); first.device != nil && !first.waits {
		return decision{first.id, first.device.index, RuleOrder}, true
	}
	first.device = nil
	for _, f := range r.flows {
		if f != first {
			f.inside = false
			r.fit(f)
		}
	}
	if f := r.first(func(f *refFlow) bool { return !f.waits }, r.inOrder); f != nil {
		return decision{f.id, f.device.index, RuleOrder}, true
	}
	return decision{}, false
}

// compete lists the flows that compete, with their virtual times as of now.
func (r *reference) compete() {
	s := r.s
	leasts := map[*group]int64{}
	for _, f := range s.flows {
		if len(f.queue) == 0 || f.backoff.pausing() || len(s.devices) == 0 {
			continue
		}
		if !f.work.Outlook().Servable {
			continue
		}
		i := &refFlow{flow: f, vt: f.virtualTime.vt, spaceVT: f.group.virtualTime.vt, held: map[*device]bool{}, short: map[*device]Lack{}}
		if f.aside { // it has kept its lead
			i.vt += f.group.level.clock - f.asideAt
		}
		if f.group.aside {
			i.spaceVT += s.root.clock - f.group.asideAt
		}
		r.flows = append(r.flows, i)
		if least, ok := leasts[f.group]; !ok || i.vt < least {
			leasts[f.group] = i.vt
		}
		r.leastRoot = min(r.leastRoot, i.spaceVT)
	}
	slices.SortFunc(r.flows, func(a, b *refFlow) int { return int(a.serial - b.serial) })
	for _, f := range r.flows {
		f.ahead = f.vt-leasts[f.group] > s.overrun
		f.inside = !f.ahead && r.spaceInside(f)
	}
}

func (r *reference) spaceInside(f *refFlow) bool { return f.spaceVT-r.leastRoot <= r.s.overrun }

// leads is whether a flow leads another by more than T on the level where they meet.
func (r *reference) leads(f, other *refFlow) bool {
	if f.group == other.group {
		return f.vt-other.vt > r.s.overrun
	}
	return f.spaceVT-other.spaceVT > r.s.overrun
}

// first is the first flow that could start and passes a condition.
func (r *reference) first(among func(*refFlow) bool, rank func(*refFlow) []int64) (first *refFlow) {
	for _, f := range r.flows {
		if f.device != nil && among(f) && (first == nil || slices.Compare(rank(f), rank(first)) < 0) {
			first = f
		}
	}
	return first
}

// inOrder is rule 3: the policy's order, then the older head.
func (r *reference) inOrder(f *refFlow) []int64 {
	return append(r.key(f), f.head().seq)
}

func (r *reference) key(f *refFlow) []int64 {
	running := int64(len(f.flights))
	switch {
	case !r.s.windowed:
		return []int64{0, 0}
	case !r.s.cfg.Shortest:
		return []int64{running, -int64(len(f.queue))}
	}
	cost := r.s.expected(f.flow) + 8*int64(min(max(f.work.Outlook().Setup, 0), limit))
	steps := 0
	for c := cost >> 20; c > 0; c /= 2 {
		steps++
	}
	return []int64{running, int64(steps - bits.Len64(uint64((r.now-f.head().arrival)/(4*cost))))}
}

// beyond is rule 4: namespaces inside the window before others, and those of least virtual
// time first; then the flows of each likewise.
func (r *reference) beyond(f *refFlow) []int64 {
	rank := []int64{1, f.spaceVT, f.group.serial}
	if r.spaceInside(f) {
		rank[0] = 0
	}
	if f.ahead {
		return append(rank, 1, f.vt, 0, f.head().seq)
	}
	return append(append(append(rank, 0), r.key(f)...), f.head().seq)
}

// fit finds where a flow starts soonest (rules 4 to 6), and notes its wants where it starts
// nowhere.
func (r *reference) fit(f *refFlow) {
	var lacking []refWait
	var on []*device
	for _, d := range r.s.devices {
		if d.leaving || len(d.flights) >= d.tokens {
			continue
		}
		p := f.work.Placement(d.index)
		p.Setup = min(max(p.Setup, 0), limit)
		if !p.Fits {
			lacking, on = append(lacking, refWait{f, p}), append(on, d)
			if !f.inside && p.Lacks&(LacksDevice|LacksMemory) == 0 {
				f.short[d] = p.Lacks
			}
			continue
		}
		if !f.inside && r.delays(d, f, p) {
			f.held[d] = p.Shares
			continue
		}
		better := func(a, b []int64) bool { return slices.Compare(a, b) < 0 }
		rank := func(d *device, p Placement) []int64 {
			return []int64{int64(p.Setup), int64(p.Start), -int64(d.tokens - len(d.flights)), int64(d.index)}
		}
		if f.device == nil || better(rank(d, p), rank(f.device, f.placement)) {
			f.device, f.placement = d, p
		}
	}
	if f.device != nil {
		f.waits = r.waits(f)
		return
	}
	for i, w := range lacking {
		if !f.ahead && (f.inside || r.s.windowed) {
			r.awaited[on[i]] = append(r.awaited[on[i]], w)
		}
	}
}

// delays is rule 6.
func (r *reference) delays(d *device, f *refFlow, p Placement) bool {
	for _, w := range r.awaited[d] {
		heeded := w.flow.inside || f.ahead && f.group == w.flow.group
		lacks := w.lacks.Lacks
		if !heeded || lacks&LacksDevice != 0 {
			continue
		}
		if lacks&LacksLimit != 0 {
			if w.flow.id.Namespace == f.id.Namespace {
				return true
			}
			continue
		}
		switch {
		case lacks&LacksHost != 0 && r.s.windowed:
			return true
		case p.Shares:
			if lacks&(LacksContainer|LacksMemory) != 0 {
				return true
			}
		case lacks&LacksMemory != 0 && !r.beside(d, w.lacks.Need, p):
			return true
		}
	}
	return false
}

// beside reports whether so much memory is left once the present runs inside the window have
// ended, beside the start of p.
func (r *reference) beside(d *device, need int64, p Placement) bool {
	runs := 2
	need += p.Need
	for _, it := range d.flights {
		if it.run.beyond {
			need, runs = need+it.run.need, runs+1
		}
	}
	return need <= p.Room && runs <= d.tokens
}

// waits is rule 5, but for the flow that would pass it over.
func (r *reference) waits(f *refFlow) bool {
	p, s := f.placement, r.s
	ends := func(flights []*invocation) (soonest int64) {
		soonest = never
		for _, it := range flights {
			soonest = min(soonest, max(0, it.run.granted+it.run.setup+it.run.estimate-r.now))
		}
		return soonest
	}
	soonest, containers := int64(never), 0
	if s.cfg.Wait && (p.Start == Cold || p.Start == BusyCold) {
		soonest, containers = ends(f.flights), len(f.flights)
	}
	for _, d := range s.devices {
		if !s.cfg.Locality || d.leaving || len(d.flights) < d.tokens || len(d.flights) == 0 {
			continue
		}
		if at := f.work.Placement(d.index); at.Fits && (at.Start == GPUWarm || at.Start == HostWarm) {
			soonest = min(soonest, ends(d.flights)+int64(min(max(at.Setup, 0), limit)))
			containers++
		}
	}
	if p.Setup == 0 || containers == 0 {
		return false
	}
	queue := float64(len(f.queue)-1) * float64(s.usual(f.flow)) / float64(containers)
	since := r.now
	if f.waiting {
		since = f.waitingSince
	}
	return float64(soonest)+queue < float64(p.Setup) && r.now < since+int64(p.Setup)
}

// waitedEnough is the part of rule 5 for a token that would stay empty.
func (r *reference) waitedEnough(f *refFlow) bool {
	return !f.placement.Displaces && r.now >= f.queuedSince+int64(f.placement.Setup)
}

// differs compares a choice with the reference's.
func (want decision) differs(ok bool, got Choice, granted bool) error {
	if ok != granted || ok && (want != decision{got.Flow, got.Device, got.Rule}) {
		return fmt.Errorf("next: %v %s on %d by %s, the rules say %v %s on %d by %s",
			granted, got.Flow, got.Device, got.Rule, ok, want.Flow, want.Device, want.Rule)
	}
	return nil
}
