package sched

import "math"

// standing is where a flow or a namespace is in its level of fair queueing.
type standing uint8

const (
	out       standing = iota // nothing queued
	eligible                  // backlogged, at most T ahead
	throttled                 // backlogged, more than T ahead
)

// flow is everything known of one flow: four cache lines. An arrival needs the
// first two, a grant the third, the fourth is for what is rare.
type flow struct {
	id       FlowID
	group    *group
	headSeq  int64 // of the oldest queued item
	lastSeen int64 // last arrival, never before the first
	iat      int64 // smoothed, below 0 before the second arrival

	account
	queue    list
	inFlight int32
	estimate int64 // mean service, 0 before the first completion
	setup    int64 // least setup on any device, as last asked
	slot     int32
	place    int32 // among its group's flows
	standing standing
	class    int8 // in the order index, outside when it is not there
	passed   bool // is in the list of those that fit nowhere
	rest     rest
	stale    bool // setup is to be asked again
	holding  bool // its head waits for a container
	dirty    bool // to be looked at by Changes
	reported State

	// when is the arrival of the oldest queued item. Of a flow that rests it is
	// when its TTL ends, or, once that is over, when it is forgotten.
	when    int64
	serial  int64 // order of creation: breaks ties of virtual time
	weight  float64
	waited  int64 // summed over grants
	lastAt  int64 // last grant
	served  uint64
	service int64 // summed
	flying  int32 // its newest flight, none without
	beyond  bool  // is being granted although it is throttled
	last    Rule

	heldSince int64 // when waiting began for the present head
	deficit   int64 // paella: its offset from what all earned; when not queued the deficit
	batch     int32 // batch: how many more of its queue belong to the batch
	before    int32 // in the list of those that fit nowhere, by slot
	after     int32
	_         [36]byte
}

// outside is the class of a flow that is not in the order index.
const outside int8 = -1

// rest says how long a flow has had nothing queued and nothing in flight.
type rest uint8

const (
	awake   rest = iota
	idle         // for less than its TTL: among the expiring
	expired      // for longer: among the inactive ones
)

// state is the flow's own standing, without its namespace's.
func (f *flow) state() State {
	switch {
	case f.standing == throttled:
		return Throttled
	case f.standing == eligible || f.inFlight > 0 || f.rest != expired:
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
	eligible ranks // of them
	standing standing
	flows    int                 // known ones
	places   int32               // of flows, those given up included
	vacated  []int32             // of them, given up
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
	floor     int64   // where gvt was last raised past those that fit nowhere
	eligible  ranking // by VT
	throttled heap    // by VT
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
