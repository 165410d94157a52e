package sched

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// FlowStats is a copy of one flow's figures.
type FlowStats struct {
	Flow     FlowID
	State    State
	Weight   float64
	Queued   int
	InFlight int
	VT       time.Duration // virtual time, on its namespace's scale
	Lead     time.Duration // VT less global virtual time
	Estimate time.Duration // expected service of the next invocation
	IAT      time.Duration // smoothed inter-arrival time; 0 before the second
	TTL      time.Duration
	Served   uint64        // invocations done
	Service  time.Duration // service used by them
	Waited   time.Duration // summed wait of granted invocations
	Oldest   time.Duration // arrival of the oldest queued invocation; 0 if none
}

// DeviceStats is a copy of one device's tokens.
// Free + InFlight + Reserved == Tokens, but while a lowered D still drains
// Free is 0 and the sum is larger.
type DeviceStats struct {
	Device   int
	Tokens   int
	Free     int
	InFlight int
	Reserved int
	Leaving  bool // removed, with invocations still in flight
}

// Stats is a copy of the whole's figures.
type Stats struct {
	Policy    string
	Queued    int
	InFlight  int
	Flows     int // known, inactive ones included
	Throttled int
	GVT       time.Duration // of the flows, or with Namespaces of the namespaces
	Chosen    [Rules]uint64 // grants by rule
	Skipped   uint64        // flows passed by in Next: did not fit, or waiting
	Forgotten uint64        // inactive flows dropped to bound memory
	Devices   []DeviceStats // by device index
}

// State is a flow's standing now.
func (s *Scheduler) State(id FlowID) State {
	f := s.flows[id]
	if f == nil {
		return Inactive
	}
	if f.standing != out && f.group.standing == throttled {
		return Throttled
	}
	return f.state()
}

// Flow copies one flow's figures; false if it is not known.
func (s *Scheduler) Flow(id FlowID) (FlowStats, bool) {
	f := s.flows[id]
	if f == nil {
		return FlowStats{}, false
	}
	return s.figures(f), true
}

func (s *Scheduler) figures(f *flow) FlowStats {
	st := FlowStats{
		Flow: f.id, State: s.State(f.id), Weight: f.weight,
		Queued: f.queue.Len(), InFlight: len(f.flights),
		VT: time.Duration(f.vt), Lead: time.Duration(f.vt - f.group.level.gvt),
		Estimate: time.Duration(s.expected(f)), IAT: time.Duration(max(0, f.iat)), TTL: time.Duration(s.ttl(f)),
		Served: f.served, Service: time.Duration(f.service), Waited: time.Duration(f.waited),
	}
	if f.queue.Len() > 0 {
		st.VT = time.Duration(max(f.vt, f.group.level.gvt))
		st.Lead = max(st.Lead, 0)
		st.Oldest = time.Duration(f.head().arrival)
	}
	return st
}

// Flows appends the figures of all known flows, in the order of their ids.
func (s *Scheduler) Flows(buf []FlowStats) []FlowStats {
	start := len(buf)
	for _, f := range s.flows {
		buf = append(buf, s.figures(f))
	}
	slices.SortFunc(buf[start:], func(a, b FlowStats) int {
		return cmp.Or(cmp.Compare(a.Flow.Namespace, b.Flow.Namespace), cmp.Compare(a.Flow.Function, b.Flow.Function))
	})
	return buf
}

// Stats copies the figures of the whole; its slices are the caller's.
func (s *Scheduler) Stats() Stats {
	st := Stats{
		Policy: s.name, Queued: s.queued, InFlight: s.inFlight, Flows: len(s.flows),
		GVT: time.Duration(s.root.gvt), Chosen: s.chosen, Skipped: s.skipped, Forgotten: s.forgotten,
	}
	for _, g := range s.groups {
		if g.standing == throttled {
			st.Throttled += g.level.len()
		} else {
			st.Throttled += len(g.level.throttled)
		}
		if !s.cfg.Namespaces {
			st.GVT = time.Duration(g.level.gvt)
		}
	}
	for _, d := range s.devices {
		st.Devices = append(st.Devices, DeviceStats{
			Device: d.index, Tokens: d.tokens, Free: d.free(), InFlight: len(d.flights),
			Reserved: d.reserved, Leaving: d.leaving,
		})
	}
	return st
}

// setDirty has Changes compare a flow's state with what was reported.
func (s *Scheduler) setDirty(f *flow) {
	if s.tracking && !f.dirty && f.state() != f.reported {
		f.dirty = true
		s.changed = append(s.changed, f)
	}
}

func (s *Scheduler) setGroupDirty(g *group) {
	if s.tracking && !g.dirty && g.state() != g.reported {
		g.dirty = true
		s.changedNS = append(s.changedNS, g)
	}
}

// Changes appends to buf what changed state since the last call. The record
// starts with the first call, which reports all that is not inactive; an owner
// that began must go on, for the record grows until it is read.
func (s *Scheduler) Changes(buf []Change) []Change {
	if !s.tracking {
		s.tracking = true
		s.setAllDirty()
	}
	buf = append(buf, s.gone...)
	s.gone = s.gone[:0]
	for _, g := range s.changedNS {
		g.dirty = false
		if to := g.state(); to != g.reported {
			buf = append(buf, Change{FlowID{Namespace: g.name}, g.reported, to})
			g.reported = to
		}
	}
	s.changedNS = s.changedNS[:0]
	for _, f := range s.changed {
		if !f.dirty {
			continue
		}
		f.dirty = false
		if to := f.state(); to != f.reported {
			buf = append(buf, Change{f.id, f.reported, to})
			f.reported = to
		}
	}
	s.changed = s.changed[:0]
	return buf
}

func (s *Scheduler) setAllDirty() {
	groups := slices.SortedFunc(maps.Values(s.groups), func(a, b *group) int { return int(a.serial - b.serial) })
	for _, g := range groups {
		s.setGroupDirty(g)
	}
	for _, f := range s.known() {
		s.setDirty(f)
	}
}
