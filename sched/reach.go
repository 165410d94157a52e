package sched

import (
	"container/list"
	"slices"
	"time"
)

// A flow's reach is the devices that could serve it, now or once what runs there has
// ended: not one that is too small, nor one whose memory is somebody else's. Flows
// wait by their reach, so that a device with a free token finds those that it can
// serve and goes through no others: however many wait for a large device, a small one
// does not notice.
//
// A flow that no device could serve does not compete. It leaves its level and keeps
// its lead over global virtual time: nobody waits for it, and it is not forgiven.
//
// The reach of a flow is computed anew when something changes for the flow (Touch and
// the events of its invocations), some flows at a time when something changes for a
// device (Resized), and now and then without a reason, so that no flow waits for an
// event that was not reported.

const (
	// maxRefreshed is how many flows one call of Next looks at, and maxRefreshAsked for
	// how many placements it asks where devices are many.
	maxRefreshed    = 64
	maxRefreshAsked = 512
	// sweepEvery is how often all flows are looked at without a reason.
	sweepEvery = int64(5 * time.Second)
	// maxClasses is how many classes are kept for their return.
	maxClasses = 1024
)

// unknownDevices is the reach of all before there was a device: not the empty one.
var unknownDevices = []byte{0xff}

// deviceSet is a set of devices by their index, as a map's key: one bit each.
type deviceSet string

func (set deviceSet) has(d *device) bool {
	at := d.index / 8
	return at < len(set) && set[at]>>(d.index%8)&1 == 1
}

func (set deviceSet) meets(other []byte) bool {
	for i := range min(len(set), len(other)) {
		if set[i]&other[i] != 0 {
			return true
		}
	}
	return false
}

// addDevice adds a device to a set that is being built.
func addDevice(set []byte, d *device) []byte {
	for len(set) <= d.index/8 {
		set = append(set, 0)
	}
	set[d.index/8] |= 1 << (d.index % 8)
	return set
}

// class is the flows of one reach.
type class struct {
	devices deviceSet
	flows   int // that compete
	// ranked are the namespaces' shares with flows inside the window, by the policy's
	// order; beyond are those with flows beyond it, see spare.go.
	ranked heap[*share]
	beyond heap[*share]
	// misfits are those that did not fit when they were tried; see next.go.
	misfits list.List
	untried int  // of them, since something changed for all
	few     bool // there were none when this call of Next began
	dropped bool // it is not known any more
}

// share is the flows of one namespace and one reach.
type share struct {
	group   *group
	class   *class
	flows   int // that compete
	ranked  heap[*flow]
	beyond  heap[*flow] // by their turns
	byRank  node[*share]
	bySpare node[*share]
}

// classOf finds or makes the class of a set.
func (s *Scheduler) classOf(set []byte) *class {
	if c, ok := s.classes[deviceSet(set)]; ok {
		return c
	}
	if len(s.classes) >= maxClasses {
		s.dropClasses()
	}
	c := &class{devices: deviceSet(set)}
	s.classes[c.devices] = c
	return c
}

// dropClasses forgets the classes of which no flow competes.
func (s *Scheduler) dropClasses() {
	for set, c := range s.classes {
		if c.flows == 0 && c != s.all {
			c.dropped = true
			delete(s.classes, set)
		}
	}
	for _, g := range s.groups {
		g.shares = slices.DeleteFunc(g.shares, func(sh *share) bool { return sh.flows == 0 })
	}
}

// setOf writes the set of the devices that a condition holds for into a buffer.
func (s *Scheduler) setOf(buf []byte, holds func(*device) bool) []byte {
	buf = buf[:0]
	for _, d := range s.devices {
		if holds(d) {
			buf = addDevice(buf, d)
		}
	}
	return buf
}

// join lists a flow that competes by its reach.
func (s *Scheduler) join(f *flow) {
	if f.class.dropped {
		f.class = s.classOf([]byte(f.class.devices))
	}
	g, c := f.group, f.class
	at := slices.IndexFunc(g.shares, func(sh *share) bool { return sh.class == c })
	if at < 0 {
		sh := &share{group: g, class: c}
		sh.byRank.of, sh.bySpare.of = sh, sh
		at, g.shares = len(g.shares), append(g.shares, sh)
	}
	f.share = g.shares[at]
	f.share.flows++
	if c.flows++; c.flows == 1 {
		s.active = append(s.active, c)
	}
}

// part takes a flow that no longer competes out of its share.
func (s *Scheduler) part(f *flow) {
	s.unrank(f)
	c := f.share.class
	f.share.flows--
	f.share = nil
	if c.flows--; c.flows == 0 {
		s.active = without(s.active, c)
	}
}

// move follows a change of a flow's reach; settle must follow.
func (s *Scheduler) move(f *flow, to *class) {
	if f.standing == out || to.devices == "" {
		f.class = to
		s.admit(f)
		s.stale.remove(&f.byStale)
		return
	}
	s.part(f)
	f.class = to
	s.join(f)
}

// setAside takes a flow that no device could serve out of its level.
func (s *Scheduler) setAside(f *flow) {
	g := f.group
	s.rules.hooks.drained(s, f)
	s.part(f)
	s.backlogged--
	g.level.remove(&f.member)
	f.member.stepAside(g.level.gvt)
	if g.level.len() == 0 {
		s.root.remove(&g.member)
		g.member.stepAside(s.root.gvt)
		s.regroup(g)
	}
}

// Resized follows a change of what a device could serve, of which the flows concerned
// are not known.
func (s *Scheduler) Resized(now time.Duration) {
	s.clock(now)
	s.somethingFreed()
	s.sweepAll()
}

// sweepAll has all flows looked at again.
func (s *Scheduler) sweepAll() { s.sweep++ }

// nextSweep is when all flows are looked at without a reason; never while each can use
// all devices and none waits outside of the order.
func (s *Scheduler) nextSweep() int64 {
	partial := s.all.flows < s.waiting.Len()
	if partial || slices.ContainsFunc(s.active, func(c *class) bool { return c.misfits.Len() > 0 }) {
		return s.sweptAt + sweepEvery
	}
	return never
}

// refresh computes the reach and the least setup of the flows that have been stale for
// longest, or of those to be swept.
func (s *Scheduler) refresh() {
	for len(s.stale) < maxRefreshed && s.sweeping() {
		f := s.waiting.Front().Value.(*flow)
		f.swept = s.sweep
		s.waiting.MoveToBack(f.waits)
		s.setStale(f)
	}
	flows := s.flowsOf[:0]
	for range s.refreshable() {
		f := s.stale.top().of
		s.stale.remove(&f.byStale)
		flows = append(flows, f)
	}
	s.measure(flows...)
	clear(flows)
	s.flowsOf = flows[:0]
	if len(s.stale) > 0 || s.sweeping() {
		s.retrySoon()
	}
}

// refreshAll does so with all, if they are few enough for one choice. It is for
// questions, which must not change which of many flows the next choice looks at.
func (s *Scheduler) refreshAll() {
	if s.refreshable() == len(s.stale) {
		s.refresh()
	}
}

// refreshable is the number of stale flows whose reach one choice computes. More are
// stale when many came at once, or while there was no device.
func (s *Scheduler) refreshable() int {
	return min(len(s.stale), maxRefreshed, max(1, maxRefreshAsked/max(1, len(s.devices))))
}

// sweeping reports whether a flow is still to be looked at.
func (s *Scheduler) sweeping() bool {
	return s.waiting.Len() > 0 && s.waiting.Front().Value.(*flow).swept != s.sweep
}

// measure computes the reach and the least setup of flows. Those that no device could
// serve any more step aside at once, then others return at once: no order among them
// makes a difference.
func (s *Scheduler) measure(flows ...*flow) {
	moved := s.moved[:0]
	for _, f := range flows {
		s.stale.remove(&f.byStale)
		if to := s.reachOf(f); to != f.class {
			moved = append(moved, move{f, to})
		}
	}
	slices.SortFunc(moved, func(a, b move) int { return int(a.flow.serial - b.flow.serial) })
	for _, m := range moved {
		if m.to.devices == "" && m.flow.standing != out {
			s.setAside(m.flow)
		}
	}
	s.settleMoved(moved)
	for _, m := range moved {
		s.move(m.flow, m.to)
	}
	s.settleMoved(moved)
	clear(moved)
	s.moved = moved[:0]
}

// move is a change of a flow's reach.
type move struct {
	flow *flow
	to   *class
}

func (s *Scheduler) settleMoved(moved []move) {
	for _, m := range moved {
		s.settle(m.flow)
	}
}

// reachOf finds the class and the least setup of a flow.
func (s *Scheduler) reachOf(f *flow) *class {
	set, setup, at := s.set[:0], limit, s.placements(f)
	for _, d := range s.devices {
		if d.leaving {
			continue
		}
		p := at(d)
		if !p.Unfit {
			set = addDevice(set, d)
		}
		setup = min(setup, p.Setup)
	}
	s.set = set
	if s.rules.setup && int64(setup) != f.setup {
		f.setup = int64(setup)
		s.rank(f)
	}
	return s.classOf(set)
}

// setStale has the reach and the setup of a flow with something queued computed before
// the next choice.
func (s *Scheduler) setStale(f *flow) {
	if f.byStale.at == 0 && f.queue.Len() > 0 {
		s.staled++
		s.stale.put(&f.byStale, rank{key: s.staled})
	}
}
