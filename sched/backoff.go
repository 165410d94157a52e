package sched

import "time"

// A function that fails again and again takes tokens from others for nothing: each run
// creates a container and loses it. It pays for the time, like any other. Beyond that it
// pauses: after the third failure in a row for a while, after each further one for twice
// as long. A run that succeeds ends the pause, and so does a new revision (Revised). A
// flow that pauses does not compete: global virtual time goes on without it, and lifts
// it when it returns.

const (
	// freeFailures in a row may be chance: a device that failed, a single bad input.
	freeFailures = 2
	// firstPause and longestPause are those of Kubernetes for a container that crashes.
	firstPause   = int64(10 * time.Second)
	longestPause = int64(5 * time.Minute)
)

// backoff is the failures of a flow and the pause that follows from them.
type backoff struct {
	failures int  // in a row
	byEnd    node // in Scheduler.pausing while it pauses
}

func (b *backoff) pausing() bool { return b.byEnd.at > 0 }

// backOff follows the end of a run of a flow.
func (s *Scheduler) backOff(f *flow, failed bool) {
	b := &f.backoff
	if !failed {
		b.failures = 0
		s.resume(f)
		return
	}
	if b.failures++; b.failures <= freeFailures {
		return
	}
	pause := firstPause << min(b.failures-freeFailures-1, 10)
	if f.competes = false; len(f.queue) > 0 {
		s.charged = true
	}
	s.pausing.put(&b.byEnd, s.now+min(pause, longestPause))
}

// resume ends the pause of a flow. It keeps the count of failures: the next one
// makes it pause again.
func (s *Scheduler) resume(f *flow) {
	if !f.backoff.pausing() {
		return
	}
	s.pausing.remove(&f.backoff.byEnd)
	if len(f.queue) > 0 {
		s.enter(f)
		s.charged = true
	}
}
