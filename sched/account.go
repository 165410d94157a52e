package sched

// account is the virtual time of a flow or a namespace: what it was charged so
// far, each charge over its weight.
//
// Nothing that is charged or taken back is ever cut off. What is backlogged
// counts as no further back than global virtual time, so that this never goes
// back; of a refund, the part that would move it below is kept as credit and
// pays the next charges. A surcharge that moves it past T stays as it is.
//
//	vt - credit == sum of charges - sum of refunds + lifts
type account struct {
	vt     int64
	credit int64 // 0 unless backlogged
}

// lift has what is backlogged count from global virtual time at least: who was
// away, or could run nowhere, may not make up for that time.
func (a *account) lift(gvt int64) { a.vt = max(a.vt, gvt) }

// charge adds to what was charged, out of the credit as far as it goes.
func (a *account) charge(by int64) {
	paid := min(by, a.credit)
	a.credit -= paid
	a.vt += by - paid
}

// refund takes back a charge, or a part of it, of somebody who is backlogged.
func (a *account) refund(by, gvt int64) {
	a.vt -= by
	if a.vt < gvt {
		a.credit += gvt - a.vt
		a.vt = gvt
	}
}

// adjust charges more after the fact, or less when it is negative.
func (a *account) adjust(by, gvt int64, backlogged bool) {
	switch {
	case !backlogged:
		a.vt += by
	case by < 0:
		a.lift(gvt)
		a.refund(-by, gvt)
	default:
		a.lift(gvt)
		a.charge(by)
	}
}

// leave ends the backlog. Credit ends with it: it is a claim on those one waits
// beside.
func (a *account) leave() {
	a.vt -= a.credit
	a.credit = 0
}
