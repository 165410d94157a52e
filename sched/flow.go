package sched

import "math"

// standing is where a flow or a namespace is in its level of fair queueing.
type standing uint8

const (
	out       standing = iota // nothing queued
	eligible                  // backlogged, at most T ahead
	throttled                 // backlogged, more than T ahead
)

// flow is everything known of one flow. It takes three cache lines; what every
// event needs lies in the first two.
type flow struct {
	id    FlowID
	group *group
	account
	serial int64 // order of creation: breaks ties of virtual time
	slot   int32
	class  int32 // in the order index

	queue    list
	inFlight int32
	standing standing
	ordered  bool // is in the order index
	passed   bool // is in the list of those that fit nowhere
	beyond   bool // is being granted although it is throttled
	arrived  bool
	idle     bool  // empty, nothing in flight: among the expiring, or the inactive ones
	expired  bool  // idle for longer than its TTL
	flying   int32 // its newest flight, none without
	stale    bool  // setup is to be asked again
	holding  bool  // its head waits for a container
	dirty    bool  // to be looked at by Changes
	reported State
	last     Rule
	batch    int32 // batch: how many more of its queue belong to the batch
	estimate int64 // mean service, 0 before the first completion
	lastSeen int64 // last arrival
	iat      int64 // smoothed, below 0 before the second arrival
	setup    int64 // least setup on any device, as last asked

	idleUntil int64 // when its TTL ends, or, of an expired one, when it is forgotten

	weight    float64
	served    uint64
	service   int64 // summed
	waited    int64 // summed over grants
	lastAt    int64 // last grant
	heldSince int64 // when waiting began for the present head
	deficit   int64 // paella: its offset from what all earned; when not queued the deficit
	before    int32 // in the list of those that fit nowhere, by slot
	after     int32
}

// state is the flow's own standing, without its namespace's.
func (f *flow) state() State {
	switch {
	case f.standing == throttled:
		return Throttled
	case f.standing == eligible || f.inFlight > 0 || !f.expired:
		return Active
	}
	return Inactive
}

// group is the flows of one namespace; without namespace fairness there is one
// group for all flows.
type group struct {
	name   string
	slot   int32
	serial int64
	account
	weight   float64
	level    level // its flows
	standing standing
	flows    int                 // known ones
	buckets  []*[classPage]int32 // pages of class -> bucket slot+1, 0 for none

	reported State
	dirty    bool
}

// level is one level of fair queueing: siblings that compete. What is in it is
// backlogged; eligible and throttled are told apart by virtual time.
//
//	gvt == max(floor, min VT of what is backlogged), its last value when nothing is
//	VT - gvt <= T for eligible, > T for throttled
//
// A member whose stored VT is below gvt counts as at gvt: it was lifted, and
// learns of it with its next charge.
type level struct {
	gvt       int64
	floor     int64 // where gvt was last raised past those that fit nowhere
	eligible  heap  // by VT
	throttled heap  // by VT
}

func (l *level) empty() bool { return l.eligible.len()+l.throttled.len() == 0 }

// advance moves gvt up to the least virtual time that is backlogged. It never
// goes back: whoever is backlogged counts from it at least.
func (l *level) advance() {
	least := int64(math.MaxInt64)
	if l.eligible.len() > 0 {
		least = l.eligible.top().k1
	}
	if l.throttled.len() > 0 {
		least = min(least, l.throttled.top().k1)
	}
	if least != math.MaxInt64 {
		l.gvt = max(l.gvt, least)
	}
}
