package sched

import (
	"cmp"
	"slices"
	"time"
)

// excuse takes back the charge for a set-up that the flow did not cause, up to T.
func (w *oracle) excuse(f *oracleFlow, it *oracleInvocation, used Usage) {
	if !used.Replaces || used.Failed || w.cfg.CountSetup || w.overrun == endless {
		return
	}
	by := min(int64(float64(used.Setup)/f.weight), max(0, w.overrun-f.excused))
	f.excused += by
	w.amend(f, it, -by, 0)
}

// backOff has a flow pause after its third failure in a row, for longer with each.
func (w *oracle) backOff(f *oracleFlow, failed bool) {
	if !failed {
		f.failures, f.pauseEnd = 0, 0
		w.compete(f)
		return
	}
	if f.failures++; f.failures < 3 {
		return
	}
	f.pauseEnd = w.now + int64(min(10*time.Second<<min(f.failures-3, 10), 5*time.Minute))
	was := f.competes
	f.competes = false
	f.leave()
	if was && !w.backlogged(f.space) {
		f.space.leave()
	}
}

// resumePaused ends the pauses that are over.
func (w *oracle) resumePaused() {
	over := w.which(func(f *oracleFlow) bool { return f.pauseEnd > 0 && f.pauseEnd <= w.now })
	slices.SortStableFunc(over, func(a, b *oracleFlow) int { return cmp.Compare(a.pauseEnd, b.pauseEnd) })
	for _, f := range over {
		f.pauseEnd = 0
		w.compete(f)
		w.update()
	}
}

// Revised has the next run count in full, and ends the pause of a flow.
func (w *oracle) Revised(now time.Duration, id FlowID) {
	w.clock(now)
	f := w.find(id)
	if f == nil {
		return
	}
	f.revised = true
	f.failures, f.pauseEnd = 0, 0
	w.compete(f)
	w.update()
}
