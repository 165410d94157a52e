package sched

import (
	"fmt"
	"time"
)

// pass ends a turn beyond the window that is used up; false if something is left of it.
func (a *oracleAccount) pass() bool {
	if a.used < int64(time.Second) {
		return false
	}
	a.used -= int64(time.Second)
	a.level.placed++
	a.position = a.level.placed
	return true
}

// enter begins a backlog, or goes on with one that no device could serve.
func (a *oracleAccount) enter() {
	if !a.aside {
		a.level.placed++
		a.position, a.used = a.level.placed, max(a.used, 0)
	}
	a.back()
	a.vt = max(a.vt, a.level.gvt)
}

func (a *oracleAccount) back() {
	if a.aside {
		a.vt, a.aside = a.vt+a.level.gvt-a.leftAt, false
	}
}

// leave drops the credit of what is backlogged no more.
func (a *oracleAccount) leave() {
	a.back()
	a.vt, a.credit = a.vt-a.credit, 0
}

// compete enters a flow that may run from now on into its level.
func (w *oracle) compete(f *oracleFlow) {
	if f.competes || f.reach == "" || f.pauseEnd > 0 || len(f.queue) == 0 {
		return
	}
	if w.printed != "no lift" {
		if !w.backlogged(f.space) {
			f.space.enter()
		}
		f.enter()
	}
	f.competes = true
}

// measure computes the reach of every flow that waits.
func (w *oracle) measure() {
	reaches := map[*oracleFlow]string{}
	for _, f := range w.flows {
		if len(f.queue) == 0 {
			continue
		}
		reach := ""
		for _, d := range w.devices {
			if !d.leaving && !w.ask(f, d).Unfit {
				reach += fmt.Sprint(d.index, " ")
			}
		}
		if f.met = true; reach != f.reach {
			reaches[f] = reach
		}
	}
	moved := w.which(func(f *oracleFlow) bool { _, ok := reaches[f]; return ok })
	for _, f := range moved {
		if reaches[f] == "" && f.competes {
			f.competes, f.aside, f.leftAt = false, true, f.level.gvt
			if s := f.space; !w.backlogged(s) {
				s.aside, s.leftAt = true, w.root.gvt
			}
		}
	}
	w.update()
	for _, f := range moved {
		f.reach = reaches[f]
		w.compete(f)
	}
	w.update()
}

// present is the set of all devices.
func (w *oracle) present() (set string) {
	for _, d := range w.devices {
		if !d.leaving {
			set += fmt.Sprint(d.index, " ")
		}
	}
	return set
}

// partial reports whether a flow that waits cannot use every device.
func (w *oracle) partial() bool {
	return len(w.which(func(f *oracleFlow) bool { return len(f.queue) > 0 && (f.reach != w.all || f.pauseEnd > 0) })) > 0
}
