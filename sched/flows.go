package sched

import "math"

// never is a time that does not come.
const never = math.MaxInt64

// flowOf finds a flow or makes it known.
func (s *Scheduler) flowOf(id FlowID) *flow {
	if f := s.byID.find(id); f != nil {
		return f
	}
	if s.byID.n >= s.cfg.MaxFlows && s.inactive.len() > 0 {
		s.forget(s.flows.at(s.inactive.top().slot()))
	}
	f := s.newFlow()
	s.serial++
	f.id, f.serial, f.weight, f.queue, f.flying, f.class = id, s.serial, 1, emptyList(), none, outside
	f.iat, f.lastSeen = -1, never
	f.group = s.groupOf(id.Namespace)
	f.place = f.group.seat()
	if f.group.name != "" {
		f.id.Namespace = f.group.name // the same text for all of them is in the caches
	}
	s.byID.put(f)
	return f
}

// newFlow takes a forgotten flow's place or a new one.
func (s *Scheduler) newFlow() *flow {
	if n := len(s.spare); n > 0 {
		f := s.spare[n-1]
		s.spare = s.spare[:n-1]
		*f = flow{slot: f.slot}
		return f
	}
	if s.flows.n == maxSlots {
		panic("sched: too many flows have work")
	}
	f := s.flows.add()
	s.vtAt = append(s.vtAt, 0)
	s.idleAt = append(s.idleAt, 0)
	return f
}

func (s *Scheduler) groupOf(name string) *group {
	if !s.cfg.Namespaces {
		name = ""
	}
	if g, ok := s.byName[name]; ok {
		return g
	}
	s.serial++
	g := &group{name: name, serial: s.serial, weight: 1, reported: Active}
	if w, ok := s.nsWeights[name]; ok && s.cfg.Namespaces {
		g.weight = w
	}
	g.level.eligible, g.level.throttled.at = &g.eligible, &s.vtAt
	if n := len(s.spareGroup); n > 0 {
		g.slot, s.spareGroup = s.spareGroup[n-1], s.spareGroup[:n-1]
	} else {
		g.slot = int32(len(s.groups))
		s.groups = append(s.groups, nil)
		s.groupAt = append(s.groupAt, 0)
	}
	s.groups[g.slot] = g
	s.byName[name] = g
	return g
}

// forget drops an inactive flow with all that was learnt of it. Its debt goes
// too: it is at most T and a charge old, and nobody waits behind it.
func (s *Scheduler) forget(f *flow) {
	s.inactive.remove(f.slot)
	s.forgotten++
	if f.dirty {
		f.dirty = false
		if f.reported != Inactive {
			s.gone = append(s.gone, Change{f.id, f.reported, Inactive})
		}
	}
	s.byID.drop(f)
	g, place := f.group, f.place
	*f = flow{slot: f.slot}
	s.spare = append(s.spare, f)
	if g.vacate(place); g.flows == 0 {
		s.forgetGroup(g)
	}
}

// seat gives one more flow of the group a place.
func (g *group) seat() int32 {
	g.flows++
	if n := len(g.vacated); n > 0 {
		place := g.vacated[n-1]
		g.vacated = g.vacated[:n-1]
		return place
	}
	g.places++
	return g.places - 1
}

func (g *group) vacate(place int32) {
	g.flows--
	g.vacated = append(g.vacated, place)
}

func (s *Scheduler) forgetGroup(g *group) {
	s.order.dropGroup(g)
	delete(s.byName, g.name)
	s.groups[g.slot] = nil
	s.spareGroup = append(s.spareGroup, g.slot)
}

// arrival learns the flow's inter-arrival time.
func (s *Scheduler) arrival(f *flow) {
	if f.lastSeen != never {
		gap := s.now - f.lastSeen
		f.iat = s.smooth(f.iat, gap, f.iat < 0)
		s.iat = s.smooth(s.iat, gap, !s.iatSeen)
		s.iatSeen = true
	}
	f.lastSeen = s.now
}

// smooth moves an average towards a sample; the first sample is the average.
func (s *Scheduler) smooth(average, sample int64, first bool) int64 {
	if first {
		return sample
	}
	return average + int64(s.cfg.Smoothing*float64(sample-average))
}

// ttl is how long the flow stays active once empty. Before an inter-arrival
// time is known it is T, the one time scale that the operator gave.
func (s *Scheduler) ttl(f *flow) int64 {
	iat, known := f.iat, f.iat >= 0
	if s.cfg.TTLGlobal {
		iat, known = s.iat, s.iatSeen
	}
	t := float64(s.cfg.MaxOverrun())
	if known {
		t = s.cfg.TTLAlpha * float64(iat)
	}
	return int64(min(max(t, float64(s.cfg.TTLMin)), float64(s.cfg.TTLMax)))
}

// lay starts the TTL of a flow that is empty with nothing in flight.
func (s *Scheduler) lay(f *flow) {
	if f.queue.n > 0 || f.inFlight > 0 || f.rest != awake {
		return
	}
	f.rest, f.when = idle, s.now+s.ttl(f)
	switch at := s.idleAt[f.slot]; {
	case at == 0:
		s.expiry.push(f.slot, f.when, f.serial)
	case s.expiry.e[at-1].k1 > f.when:
		s.expiry.fix(f.slot, f.when, f.serial)
	}
}

// wake ends a flow's idleness. Most flows are back before their TTL ends, again
// and again, so its entry stays among the expiring until it comes to the front.
//
//	key of an entry <= idleUntil of its flow, which is what counts
func (s *Scheduler) wake(f *flow) {
	if f.rest == expired {
		s.inactive.remove(f.slot)
	}
	f.rest = awake
}

// expiring is the end of the first TTL; never without an idle flow.
func (s *Scheduler) expiring() int64 {
	for s.expiry.len() > 0 {
		e := s.expiry.top()
		switch f := s.flows.at(e.slot()); {
		case f.rest == awake:
			s.expiry.remove(e.slot())
		case f.when > e.k1:
			s.expiry.fix(e.slot(), f.when, f.serial)
		default:
			return e.k1
		}
	}
	return never
}
