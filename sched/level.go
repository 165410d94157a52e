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
	// aside is a member with something queued that no device could serve. It left its
	// level when global virtual time was leftAt.
	aside  bool
	leftAt int64
}

// enter begins the backlog. A member is lifted to global virtual time: it may not make
// up for the time that it was away. One that stood aside returns with the lead that it
// had, and one that ran ahead keeps its debt.
func (v *virtualTime) enter(gvt int64) {
	v.stepBack(gvt)
	v.vt = max(v.vt, gvt)
}

// stepAside keeps the lead of a member that leaves its level with something queued.
func (v *virtualTime) stepAside(gvt int64) { v.aside, v.leftAt = true, gvt }

func (v *virtualTime) stepBack(gvt int64) {
	if v.aside {
		v.vt += gvt - v.leftAt
		v.aside = false
	}
}

// lead is by how much a member is ahead of global virtual time, or was when it stepped
// aside.
func (v *virtualTime) lead(gvt int64) int64 {
	if v.aside {
		gvt = v.leftAt
	}
	return v.vt - gvt
}

// charge adds to what was charged, or takes a part of it back when by is negative.
func (v *virtualTime) charge(by, gvt int64, backlogged bool) {
	switch {
	case v.aside:
		gvt = v.leftAt
	case !backlogged:
		v.vt += by
		return
	}
	balance := max(v.vt, gvt) - v.credit + by
	v.vt = max(balance, gvt)
	v.credit = v.vt - balance
}

// leave ends the backlog, and with it the credit: that is owed by those that are
// backlogged at the same time.
func (v *virtualTime) leave(gvt int64) {
	v.stepBack(gvt)
	v.vt -= v.credit
	v.credit = 0
}

// enter begins the backlog of a member, and what goes with it.
func (m *member[T]) enter(l *level[T]) {
	if !m.aside {
		m.roundRobin.enter(&l.placed)
	}
	m.virtualTime.enter(l.gvt)
}

// standing is where a flow or a namespace is in its level of fair queueing.
type standing uint8

const (
	out       standing = iota // nothing queued, or nothing that competes
	eligible                  // backlogged, at most T ahead
	throttled                 // backlogged, more than T ahead
)

// member is a flow or a namespace in its level.
type member[T any] struct {
	virtualTime
	roundRobin
	byVT     node[T] // in the heap of its standing
	serial   int64   // order of creation: breaks ties of virtual time
	standing standing
}

// level is one level of fair queueing: siblings that compete. All its members are
// backlogged; virtual time decides which are eligible and which throttled.
//
//	gvt == min VT of what is backlogged, its last value when nothing is
//	VT - gvt <= T for eligible, > T for throttled
//
// A member whose stored VT is below gvt counts as at gvt: it was lifted, which its
// next charge stores.
type level[T any] struct {
	gvt       int64
	placed    int64 // the last place given beyond the window
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

// position puts a backlogged member where its virtual time belongs, and reports whether
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

// lower moves a member down by what its level is moved down. One that has been idle
// for long stays behind by so much that it is lifted when it returns, and no more.
func (m *member[T]) lower(by int64) {
	m.vt -= by
	m.leftAt -= by
	m.byVT.key = m.vt
	if m.standing == out && !m.aside {
		m.vt = max(m.vt, -endless)
	}
}

// lower moves a level down to 0; its members are lowered before.
func (l *level[T]) lower() {
	l.gvt = 0
}
