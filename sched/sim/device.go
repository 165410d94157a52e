package sim

import (
	"math/bits"
	"time"
)

// fixed is the scale of slowdowns: progress is computed in integers, so that a
// run gives the same numbers on every machine.
const fixed = 10_000

// device is the world of one simulated GPU.
type device struct {
	live    int     // containers
	running []int32 // jobs that use the device's cores, in order of start
	last    time.Duration
	up      time.Duration // when the link to the device is free
	down    time.Duration // when the link from the device is free

	active    time.Duration // time with at least one run, in all
	sampledAt time.Duration // last utilization sample
	kernel    float64       // seconds with a kernel running since then
}

// slowdown returns s(k) in fixed point.
func (e *engine) slowdown(k int) int64 {
	for len(e.slow) <= k {
		e.slow = append(e.slow, int64(e.p.Interference.Slowdown(len(e.slow))*fixed+0.5))
	}
	return e.slow[k]
}

// advance lets the runs of a device progress up to now.
func (e *engine) advance(d *device) {
	dt := e.now - d.last
	d.last = e.now
	k := len(d.running)
	if dt <= 0 || k == 0 {
		return
	}
	work := mulDiv(int64(dt), fixed, e.slowdown(k))
	for _, j := range d.running {
		job := &e.jobs[j]
		job.remaining -= work
		if job.phase == running || e.p.Sched.CountSetup {
			e.fns[job.fn].service += dt
		}
	}
	d.active += dt
	d.kernel += dt.Seconds() * min(1, e.p.KernelShare*float64(k))
}

// finish returns when the first of a device's runs ends if nothing changes.
func (e *engine) finish(d *device) (time.Duration, bool) {
	k := len(d.running)
	if k == 0 {
		return 0, false
	}
	least := e.jobs[d.running[0]].remaining
	for _, j := range d.running[1:] {
		least = min(least, e.jobs[j].remaining)
	}
	// Rounded up, and work is rounded down: at that time it may lack the last
	// nanosecond, which finished forgives.
	return d.last + time.Duration(mulDiv(max(least, 0), e.slowdown(k), fixed)+1), true
}

// mulDiv returns a*b/c without overflow in between; all are positive.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}
