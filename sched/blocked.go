package sched

import (
	"math"
	"slices"
	"time"
)

// Some flows cannot start where others can: they are too large for a device, wait until
// running functions give memory back, or are held by the limit of their namespace. No
// device idles for such a flow, except where another start would delay it.
//
// Two rules keep that fair. A flow beyond the window does not start where it delays a flow
// inside it. And a flow that could not have used such a start is not owed the time: it moves
// along. Otherwise a flow that ran alone would have to wait, later, until others have caught
// up with all its service. Both rules treat flows of equal needs alike.

// awaited lists the resources of a device that flows wait for.
type awaited struct {
	memory     int64 // the most that such a flow needs
	container  bool
	namespaces []string // whose limit such a flow waits for
	host       bool
}

// await notes that a flow waits for a device where it does not fit, unless the device could
// never serve it. A flow whose namespace is beyond the window waits before the flows of its
// namespace only.
func (s *Scheduler) await(f *flow, m misfit) {
	var before *group
	if s.windowed && !f.inside {
		before = f.group
	}
	a := m.device.awaited[before]
	switch {
	case m.lacks&LacksDevice != 0:
		return
	case m.lacks&LacksLimit != 0: // the device is not kept from other namespaces
		a.namespaces = append(a.namespaces, f.id.Namespace)
	default:
		if m.lacks&LacksMemory != 0 {
			a.memory = max(a.memory, m.need)
		}
		a.container = a.container || m.lacks&LacksContainer != 0
		a.host = a.host || s.windowed && m.lacks&LacksHost != 0 // without a window another flow may have the claim to it
	}
	m.device.awaited[before] = a
}

// delays reports whether a start of a flow beyond the window would delay flows that wait for
// a device.
func (d *device) delays(f *flow, p Placement) bool {
	return d.delaysAmong(nil, f, p) || f.ahead && d.delaysAmong(f.group, f, p)
}

func (d *device) delaysAmong(g *group, f *flow, p Placement) bool {
	a := d.awaited[g]
	switch {
	case a.host, slices.Contains(a.namespaces, f.id.Namespace):
		return true
	case p.Shares:
		return a.container || a.memory > 0
	case a.memory > 0:
		return !d.roomBeside(a.memory, p)
	}
	return false
}

// held is a flow beyond the window that waits until a run has left its container. With lacks it
// waits for any container to be empty: then it would have a place, host memory, or memory
// within its namespace's limit.
type held struct {
	flow  *flow
	lacks Lack
}

// isHeld reports whether a flow beyond the window would pass by another that waits only until
// a run has left its container, or that lacks things which the container of this flow would
// give back once its runs have left.
func (s *Scheduler) isHeld(c candidate) bool {
	return slices.ContainsFunc(c.device.held, func(h held) bool {
		switch {
		case !s.leads(c.flow, h.flow):
			return false
		case h.lacks == 0:
			return true
		}
		return c.placement.Shares && (h.lacks&LacksLimit == 0 || h.flow.id.Namespace == c.flow.id.Namespace)
	})
}

// roomBeside reports whether a flow that needs so much memory could start once the present
// runs inside the window have ended, if another starts now. Runs that began beyond the window
// count as if they stayed.
func (d *device) roomBeside(memory int64, p Placement) bool {
	need, runs := p.Need, 2
	for _, it := range d.flights {
		if it.run.beyond {
			need += it.run.need
			runs++
		}
	}
	return memory+need <= p.Room && runs <= d.tokens
}

// moveAlong follows a start that was charged: siblings that could not have used it fall
// behind the flow by at most reach, and so do namespaces none of whose flows could have. Inside
// the window that concerns only flows that the device could never serve.
func (s *Scheduler) moveAlong(c candidate, beyond bool) {
	if s.overrun == endless {
		return
	}
	f, start := c.flow, &start{candidate: c, beyond: beyond, apart: noNeeds}
	if edge := f.vt - s.reach(); f.group.level.least < edge {
		s.moveSiblings(start, edge)
	}
	if edge := f.group.vt - s.reach(); s.root.least < edge {
		s.moveGroups(start, edge)
	}
}

// reach is by how much a flow that could not use another's starts falls behind. It is more
// than T, so that flows that run beyond the window stay beyond it until the waiting flow has
// its turn.
func (s *Scheduler) reach() int64 { return s.overrun + max(s.overrun, leastReach) }

const leastReach = int64(10 * time.Second)

// kind says which flows have equal needs: those that need the same memory. If a namespace has a
// limit, its flows are a kind of their own, because the limit holds back nobody else.
type kind struct {
	need    int64
	limited string // the namespace, "" without a limit
}

// kind returns the kind of a flow.
func (o Outlook) kind(f *flow) kind {
	k := kind{need: o.Need}
	if o.Limited {
		k.limited = f.id.Namespace
	}
	return k
}

// passed has the kinds of the members that a start concerns: the least virtual time of each, or
// stays for a kind of which some member could have used the start. Members of one kind move by
// the same.
type passed map[kind]int64

const stays = math.MinInt64

// add counts a member, with whether it could not have used the start.
func (p passed) add(k kind, vt int64, couldNot bool) {
	if !couldNot {
		vt = stays
	}
	if least, ok := p[k]; !ok || vt < least {
		p[k] = vt
	}
}

// move moves a member along: to the edge, or as far as others of its kind move.
func (p passed) move(v *virtualTime, k kind, edge int64, by FlowID) {
	if least, ok := p[k]; ok && least != stays && least < edge {
		v.vt += edge - least
		v.passedOver += edge - least
		v.passedBy = by
	}
}

func (s *Scheduler) moveSiblings(start *start, edge int64) {
	f := start.flow
	behind := passed{f.kind: stays}
	for _, i := range s.backlog {
		if i.group == f.group && i.competes && behind[i.kind] != stays {
			behind.add(i.kind, i.vt, start.couldNotServe(i))
		}
	}
	for _, i := range s.backlog {
		if i.group == f.group && i.competes {
			behind.move(&i.virtualTime, i.kind, edge, f.id)
		}
	}
}

func (s *Scheduler) moveGroups(start *start, edge int64) {
	f := start.flow
	for _, g := range s.spaces {
		g.passed, g.kind = g != f.group && g.competes, kind{need: math.MaxInt64}
	}
	for _, i := range s.backlog {
		if g := i.group; i.competes {
			if i.kind.need < g.kind.need {
				g.kind = i.kind
			}
			g.passed = g.passed && start.couldNotServe(i)
		}
	}
	behind := passed{}
	for _, g := range s.spaces {
		if g.competes {
			behind.add(g.kind, g.vt, g.passed)
		}
	}
	for _, g := range s.spaces {
		if g.passed {
			behind.move(&g.virtualTime, g.kind, edge, f.id)
		}
	}
}

// start is a start just granted, inside or beyond the window.
type start struct {
	candidate
	beyond bool
	apart  needs // of plain flows that lacked only memory, and are not delayed
}

// couldNotServe reports whether a flow could not have started on the device in place of the
// flow that starts, and is not delayed by the start. There may be thousands of plain flows, so
// those whose needs lie between two answers have the same answer.
func (st *start) couldNotServe(i *flow) (passed bool) {
	if i.plain && !i.short && st.apart.has(i.kind.need) {
		return true
	}
	d := st.device
	at := i.work.Placement(d.index)
	if at.Shares { // for a moment only
		at.Shares, at.Lacks, at.Fits = false, at.Anew, at.Anew == 0
	}
	switch {
	case at.Lacks&LacksDevice != 0:
		passed = true
	case !st.beyond:
	case at.Fits:
		passed = !i.inside && d.delays(i, at)
	case at.Lacks&LacksHost != 0:
	case at.Lacks&LacksLimit != 0:
		passed = i.id.Namespace != st.flow.id.Namespace
	case !st.placement.Shares && at.Lacks&LacksContainer == 0:
		if passed = d.roomBeside(at.Need, st.placement); passed && i.plain {
			st.apart.add(at.Need)
		}
	}
	return passed
}
