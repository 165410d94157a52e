package sched

import (
	"cmp"
	"math"
	"slices"
)

// never is a time that does not come.
const never = math.MaxInt64

// invocation is queued or in flight.
type invocation struct {
	id      uint64
	seq     int64 // order of Enqueue: the older head is the smaller seq
	arrival int64
	cost    int64 // service that the caller expects, 0 for no estimate
	flow    *flow
	run     *run // nil while queued
}

// run is the part of an invocation that a grant adds.
type run struct {
	device   *device
	granted  int64
	setup    int64 // as View expected it
	estimate int64 // service expected
	basis    int64 // service that the charge stands for
	charge   int64 // to the flow
	above    int64 // to its namespace
	beyond   bool  // it was granted beyond the window
	need     int64 // memory of its device
}

// flow is one flow with its queue and its estimates. The fields that each decision reads of
// all flows come first: next to each other in memory, they are read sooner.
type flow struct {
	work  Work
	group *group
	virtualTime
	setup    int64 // least setup on any device, as of the last survey
	kind     kind  // as of the last survey
	plain    bool  // as Outlook has it, as of the last survey
	short    bool  // of host memory, likewise
	inside   bool  // it and its namespace led by at most T, as of the last survey
	ahead    bool  // it led the others of its namespace by more than T
	dirty    bool  // in Scheduler.changed
	reported State
	queue    []*invocation // by age
	flights  []*invocation
	estimate int64 // mean service, 0 before the first completion
	backoff  backoff

	id     FlowID
	serial int64 // order of creation
	at     int   // its index in Scheduler.backlog while something is queued
	weight float64

	queuedSince  int64 // since when its queue is not empty
	waiting      bool  // its head waits for a container
	waitingSince int64 // when that began
	waitEnd      int64 // when it ends at the latest

	// byIdle is in a heap while nothing is queued or in flight: in expiry by the end of the TTL
	// or, once expired, in inactive by when the flow is forgotten.
	byIdle  node
	expired bool

	lastSeen    int64 // last arrival, never before the first
	iat         int64 // smoothed inter-arrival time, below 0 before the second arrival
	served      uint64
	groupPassed int64 // passedOver of the group when the flow became known
	known       bool  // a run has ended since its function was revised
	last        Rule  // of its last grant
	lastAt      int64
}

// head is the oldest queued invocation; there must be one.
func (f *flow) head() *invocation { return f.queue[0] }

// position is where an invocation is in the queue, or would be by its age.
func (f *flow) position(it *invocation) int {
	at, _ := slices.BinarySearchFunc(f.queue, it, func(a, b *invocation) int { return cmp.Compare(a.seq, b.seq) })
	return at
}

// push queues an invocation by its age: one that was granted and undone comes before younger
// ones.
func (f *flow) push(it *invocation) { f.queue = slices.Insert(f.queue, f.position(it), it) }

// unqueue takes an invocation out of the queue. It moves the older ones: mostly there are none.
func (f *flow) unqueue(it *invocation) {
	copy(f.queue[1:], f.queue[:f.position(it)])
	f.queue[0] = nil
	f.queue = f.queue[1:]
}

// group is the flows of one namespace; without namespace fairness there is one
// group for all flows.
type group struct {
	name   string
	serial int64
	weight float64
	virtualTime
	level  level
	flows  int   // all, not only those with work queued
	queued int   // those with work queued
	at     int   // its index in Scheduler.spaces while it has such
	unfit  unfit // flows beyond the window, in this call of Next
	passed bool  // see moveGroups
	kind   kind  // of the flow that needs least
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
	f := &flow{id: id, serial: s.serial, weight: 1, iat: -1, lastSeen: never, work: s.view.Work(id)}
	f.byIdle.of, f.backoff.byEnd.of = f, f
	f.group = s.groupOf(id.Namespace)
	f.group.flows++
	f.groupPassed = f.group.passedOver
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
	g := &group{name: name, serial: s.serial, weight: 1}
	if w, ok := s.nsWeights[name]; ok && s.cfg.Namespaces {
		g.weight = w
	}
	s.groups[name] = g
	return g
}

// forget drops an inactive flow with its estimates and its debt: that is at most T
// and one charge, and no flow waits for it.
func (s *Scheduler) forget(f *flow) {
	s.inactive.remove(&f.byIdle)
	s.pausing.remove(&f.backoff.byEnd)
	s.gone = append(s.gone, Change{Flow: f.id, From: f.reported, To: Inactive, Forgotten: true})
	f.reported = Inactive // where it is listed as dirty, that has no more to say
	delete(s.flows, f.id)
	if f.group.flows--; f.group.flows == 0 {
		delete(s.groups, f.group.name)
	}
}
