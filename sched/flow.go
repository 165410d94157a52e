package sched

import (
	"container/list"
	"math"
	"slices"
	"time"
)

// never is a time that does not come.
const never = math.MaxInt64

// invocation is one that is queued or in flight.
type invocation struct {
	id      uint64
	seq     int64 // order of Enqueue: the older head is the smaller seq
	arrival int64
	cost    int64 // what the caller expects, 0 for no estimate
	flow    *flow
	queued  *list.Element // in its flow's queue
	run     *run          // nil while queued
}

// run is what a grant adds to an invocation.
type run struct {
	device   *device
	granted  int64
	setup    int64 // as View expected it
	estimate int64 // service expected
	basis    int64 // service that the charge stands for
	charge   int64 // to the flow
	above    int64 // to its namespace
}

// flow is one flow with its queue and its estimates.
type flow struct {
	id    FlowID
	group *group
	member[*flow]

	queue   list.List // of *invocation, by age
	flights []*invocation
	weight  float64

	byRank node[*flow]   // among those of its namespace that may run, by the policy's order
	misfit *list.Element // in the list of those that fit nowhere, else nil
	setup  int64         // least setup on any device, as last computed
	stale  bool          // setup is to be computed again

	waiting      bool  // its head waits for a container
	waitingSince int64 // when that began

	byIdle  node[*flow] // while nothing is queued or in flight: in expiry, or when expired in inactive
	expired bool
	until   int64 // when its TTL ends or, once expired, when it is forgotten

	lastSeen int64 // last arrival, never before the first
	iat      int64 // smoothed inter-arrival time, below 0 before the second arrival
	estimate int64 // mean service, 0 before the first completion
	served   uint64
	last     Rule // of its last grant
	lastAt   int64

	dirty    bool // in Scheduler.changed
	reported State

	deficit   int64       // paella: its offset from what all earned; when not queued the deficit
	byDeficit node[*flow] // paella: under the limit
	batch     int         // batch: how many more of its queue belong to the batch
}

// head is the oldest queued invocation; there must be one.
func (f *flow) head() *invocation { return f.queue.Front().Value.(*invocation) }

// state is the flow's own standing, without its namespace's.
func (f *flow) state() State {
	switch {
	case f.standing == throttled:
		return Throttled
	case !f.expired:
		return Active
	}
	return Inactive
}

// putBack queues an invocation again, by its age. It was granted and undone, so its
// position is among the first few.
func (f *flow) putBack(it *invocation) {
	at := f.queue.Front()
	for at != nil && at.Value.(*invocation).seq < it.seq {
		at = at.Next()
	}
	if at == nil {
		it.queued = f.queue.PushBack(it)
	} else {
		it.queued = f.queue.InsertBefore(it, at)
	}
}

// group is the flows of one namespace; without namespace fairness there is one
// group for all flows.
type group struct {
	name string
	member[*group]
	weight float64
	flows  int // all, not only those that are backlogged
	level  level[*flow]
	ranked heap[*flow]  // those that may run, by the policy's order
	byRank node[*group] // among the groups that may run, by the first of ranked

	reported State
	dirty    bool
}

// state of a group: it is throttled as a whole or not at all.
func (g *group) state() State {
	if g.standing == throttled {
		return Throttled
	}
	return Active
}

// flowOf finds or makes a flow.
func (s *Scheduler) flowOf(id FlowID) *flow {
	if f := s.flows[id]; f != nil {
		return f
	}
	if len(s.flows) >= s.cfg.MaxFlows && len(s.inactive) > 0 {
		s.forget(s.inactive.top().of)
	}
	s.serial++
	f := &flow{id: id, weight: 1, iat: -1, lastSeen: never}
	f.serial = s.serial
	f.byVT.of, f.byRank.of, f.byIdle.of, f.byDeficit.of = f, f, f, f
	f.group = s.groupOf(id.Namespace)
	f.group.flows++
	s.flows[id] = f
	return f
}

func (s *Scheduler) groupOf(name string) *group {
	if !s.cfg.Namespaces {
		name = ""
	}
	if g, ok := s.groups[name]; ok {
		return g
	}
	s.serial++
	g := &group{name: name, weight: 1, reported: Active}
	g.serial = s.serial
	g.byVT.of, g.byRank.of = g, g
	if w, ok := s.nsWeights[name]; ok && s.cfg.Namespaces {
		g.weight = w
	}
	s.groups[name] = g
	return g
}

// known lists all flows in the order of their creation, for rare events.
func (s *Scheduler) known() []*flow {
	all := make([]*flow, 0, len(s.flows))
	for _, f := range s.flows {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *flow) int { return int(a.serial - b.serial) })
	return all
}

// forget drops an inactive flow with its estimates and its debt: that is at most T
// and one charge, and no flow waits for it.
func (s *Scheduler) forget(f *flow) {
	s.inactive.remove(&f.byIdle)
	if f.dirty {
		s.changed = slices.DeleteFunc(s.changed, func(other *flow) bool { return other == f })
	}
	if f.reported != Inactive {
		s.gone = append(s.gone, Change{f.id, f.reported, Inactive})
	}
	delete(s.flows, f.id)
	if f.group.flows--; f.group.flows == 0 {
		delete(s.groups, f.group.name)
	}
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

// startTTL follows an event after which a flow may be empty with nothing in flight.
func (s *Scheduler) startTTL(f *flow) {
	if f.queue.Len() > 0 || len(f.flights) > 0 || f.byIdle.at > 0 {
		return
	}
	f.until = s.now + s.ttl(f)
	s.expiry.put(&f.byIdle, rank{key: f.until, tie: f.serial})
}

// expire makes a flow inactive, as from a time.
func (s *Scheduler) expire(f *flow, at int64) {
	s.expiry.remove(&f.byIdle)
	f.expired, f.until = true, at+int64(s.cfg.KeepInactive)
	s.inactive.put(&f.byIdle, rank{key: f.until, tie: f.serial})
}

// stopTTL follows the return of an empty flow.
func (s *Scheduler) stopTTL(f *flow) {
	if f.expired {
		s.inactive.remove(&f.byIdle)
	} else {
		s.expiry.remove(&f.byIdle)
	}
	f.expired = false
}

// Deadline is when Tick would change something; false for never.
func (s *Scheduler) Deadline() (time.Duration, bool) {
	at := min(s.waitUntil, s.retryAt)
	for _, h := range []heap[*flow]{s.expiry, s.inactive} {
		if len(h) > 0 {
			at = min(at, h.top().key)
		}
	}
	return time.Duration(at), at != never
}

// Tick lets time pass: empty flows whose TTL is over become inactive, flows
// inactive for long are forgotten, and a wait or a pause of Next ends, so that the
// next call of Next may grant.
func (s *Scheduler) Tick(now time.Duration) {
	t := s.clock(now)
	for len(s.expiry) > 0 && s.expiry.top().key <= t {
		f := s.expiry.top().of
		s.expire(f, f.until)
		s.setDirty(f)
	}
	for len(s.inactive) > 0 && s.inactive.top().key <= t {
		s.forget(s.inactive.top().of)
	}
	if s.waitUntil <= t {
		s.waitUntil = never
	}
	if s.retryAt <= t {
		s.retryAt = never
	}
}

// SetWeight sets a flow's weight. The weight is forgotten with the flow. What was
// charged before stays as it was.
func (s *Scheduler) SetWeight(now time.Duration, id FlowID, weight float64) error {
	if err := checkWeight("flow "+id.String(), weight); err != nil {
		return err
	}
	s.clock(now)
	f := s.flows[id]
	if f == nil {
		if weight == 1 {
			return nil
		}
		f = s.flowOf(id)
		s.expire(f, s.now)
	}
	f.weight = weight
	return nil
}
