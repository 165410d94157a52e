package sched

import "math"

// Fair queueing has two levels: flows compete inside their namespace by their
// virtual time, namespaces compete by theirs. Both levels keep the same rule, so
// both keep its bound.

// virtualTime is what a flow or a namespace was charged so far, each charge over
// its weight.
//
// Nothing that is charged or taken back is ever cut off. What is backlogged
// counts as no further back than global virtual time, so that this never goes
// back; the part of a refund that would move it below is kept as credit and pays
// the next charges. A surcharge that moves it past T stays as it is.
//
//	vt - credit == sum of charges - sum of refunds + lifts
type virtualTime struct {
	vt     int64
	credit int64 // 0 unless backlogged
}

// lift counts from global virtual time at least: a flow that was away, or could
// run nowhere, may not make up for that time.
func (v *virtualTime) lift(gvt int64) { v.vt = max(v.vt, gvt) }

// charge adds to what was charged, out of the credit as far as it goes.
func (v *virtualTime) charge(by int64) {
	paid := min(by, v.credit)
	v.credit -= paid
	v.vt += by - paid
}

// refund takes back a charge, or a part of it, of a flow that is backlogged.
func (v *virtualTime) refund(by, gvt int64) {
	v.vt -= by
	if v.vt < gvt {
		v.credit += gvt - v.vt
		v.vt = gvt
	}
}

// adjust charges more after the fact, or less when by is negative.
func (v *virtualTime) adjust(by, gvt int64, backlogged bool) {
	switch {
	case !backlogged:
		v.vt += by
	case by < 0:
		v.lift(gvt)
		v.refund(-by, gvt)
	default:
		v.lift(gvt)
		v.charge(by)
	}
}

// leave ends the backlog. Credit ends with it: it is a claim on those that wait
// beside the flow.
func (v *virtualTime) leave() {
	v.vt -= v.credit
	v.credit = 0
}

// standing is where a flow or a namespace is in its level of fair queueing.
type standing uint8

const (
	out       standing = iota // nothing queued
	eligible                  // backlogged, at most T ahead
	throttled                 // backlogged, more than T ahead
)

// member is what a level knows of a flow or a namespace.
type member[T any] struct {
	virtualTime
	byVT     node[T] // in the heap that its standing says
	serial   int64   // order of creation: breaks ties of virtual time
	standing standing
}

// level is one level of fair queueing: siblings that compete. What is in it is
// backlogged; eligible and throttled are told apart by virtual time.
//
//	gvt == max(floor, min VT of what is backlogged), its last value when nothing is
//	VT - gvt <= T for eligible, > T for throttled
//
// A member whose stored VT is below gvt counts as at gvt: it was lifted, which its
// next charge stores.
type level[T any] struct {
	gvt       int64
	floor     int64 // where gvt was last raised past those that fit nowhere
	eligible  heap[T]
	throttled heap[T]
}

func (l *level[T]) len() int { return len(l.eligible) + len(l.throttled) }

func (l *level[T]) heap(of standing) *heap[T] {
	if of == throttled {
		return &l.throttled
	}
	return &l.eligible
}

// position puts a backlogged member where its virtual time belongs, and says whether
// its standing changed.
func (l *level[T]) position(m *member[T], overrun int64) bool {
	want := eligible
	if m.vt-l.gvt > overrun {
		want = throttled
	}
	changed := m.standing != want
	if changed {
		l.heap(m.standing).remove(&m.byVT)
	}
	m.standing = want
	l.moved(m)
	return changed
}

// moved follows a change of a backlogged member's virtual time; position must follow.
func (l *level[T]) moved(m *member[T]) {
	l.heap(m.standing).put(&m.byVT, rank{key: m.vt, tie: m.serial})
}

func (l *level[T]) remove(m *member[T]) {
	l.heap(m.standing).remove(&m.byVT)
	m.standing = out
}

// advance moves gvt up to the least virtual time that is backlogged. It never
// goes back: what is backlogged counts from it at least.
func (l *level[T]) advance() {
	least := int64(math.MaxInt64)
	for _, h := range []heap[T]{l.eligible, l.throttled} {
		if len(h) > 0 {
			least = min(least, h.top().key)
		}
	}
	if least != math.MaxInt64 {
		l.gvt = max(l.gvt, least)
	}
}

// released is a throttled member that global virtual time has reached; false for
// none.
func (l *level[T]) released(overrun int64) (of T, ok bool) {
	if len(l.throttled) == 0 || l.throttled.top().key-l.gvt > overrun {
		return of, false
	}
	return l.throttled.top().of, true
}

// raise moves global virtual time up past what fits nowhere.
func (l *level[T]) raise(to int64) {
	l.gvt = max(l.gvt, to)
	l.floor = max(l.floor, l.gvt)
}
