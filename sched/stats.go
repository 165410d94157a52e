package sched

import (
	"cmp"
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
	Estimate time.Duration // expected service of the next item
	IAT      time.Duration // smoothed inter-arrival time; 0 before the second
	TTL      time.Duration
	Served   uint64        // items done
	Service  time.Duration // service used by them
	Waited   time.Duration // summed wait of granted items
	Oldest   time.Duration // arrival of the oldest queued item; 0 if none
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
	Leaving  bool // removed, with items still in flight
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
	Held      uint64        // flows passed by in Next: did not fit, or waiting
	Forgotten uint64        // inactive flows dropped to bound memory
	Devices   []DeviceStats // by device index
}

// State is a flow's standing now.
func (s *Scheduler) State(id FlowID) State {
	f := s.byID.find(id)
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
	f := s.byID.find(id)
	if f == nil {
		return FlowStats{}, false
	}
	return s.figures(f), true
}

func (s *Scheduler) figures(f *flow) FlowStats {
	st := FlowStats{
		Flow: f.id, State: s.State(f.id), Weight: f.weight,
		Queued: int(f.queue.n), InFlight: int(f.inFlight),
		VT: time.Duration(f.vt), Lead: time.Duration(f.vt - f.group.level.gvt),
		Estimate: time.Duration(s.expected(f)), IAT: time.Duration(max(0, f.iat)), TTL: time.Duration(s.ttl(f)),
		Served: f.served, Service: time.Duration(f.service), Waited: time.Duration(f.waited),
	}
	if f.queue.n > 0 {
		st.VT = time.Duration(max(f.vt, f.group.level.gvt))
		st.Lead = max(st.Lead, 0)
		st.Oldest = time.Duration(f.when)
	}
	return st
}

// Flows appends the figures of all known flows, in the order of their ids.
func (s *Scheduler) Flows(buf []FlowStats) []FlowStats {
	start := len(buf)
	for f := range s.flows.all() {
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
		Policy: s.name, Queued: s.queued, InFlight: s.inFlight, Flows: s.byID.n,
		GVT: time.Duration(s.root.gvt), Chosen: s.chosen, Held: s.held, Forgotten: s.forgotten,
	}
	for _, g := range s.groups {
		switch {
		case g == nil:
		case g.standing == throttled:
			st.Throttled += g.level.eligible.len() + g.level.throttled.len()
		default:
			st.Throttled += g.level.throttled.len()
		}
		if g != nil && !s.cfg.Namespaces {
			st.GVT = time.Duration(g.level.gvt)
		}
	}
	for _, d := range s.devices {
		st.Devices = append(st.Devices, DeviceStats{
			Device: d.index, Tokens: d.tokens, Free: d.free(), InFlight: int(d.items.n),
			Reserved: d.reserved, Leaving: d.leaving,
		})
	}
	return st
}
