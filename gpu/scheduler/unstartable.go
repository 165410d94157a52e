package scheduler

import (
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// A function that cannot be started, such as one whose code has an error or whose image
// cannot be pulled, fails each invocation in the same way. While its flow pauses after
// such failures, invocations are refused at once: the caller gets the known error now and
// not after the pause. The first invocation after the pause is tried.

// holdsBack reports whether the flow of a revision has queued invocations, pauses, and the
// last run of the revision could not be started.
func (s *Scheduler) holdsBack(rev *revision) bool {
	return rev.unstartable && s.policy.Explainer(s.now)(rev.flow.id).Rule == sched.RuleBackoff
}

// refuseUnstartable refuses the queued invocations of a revision that is held back.
func (s *Scheduler) refuseUnstartable(rev *revision) {
	if !s.holdsBack(rev) {
		return
	}
	var queued []*invocation
	for at := rev.flow.queue.Front(); at != nil; at = at.Next() {
		if in := at.Value.(*invocation); in.rev == rev {
			queued = append(queued, in)
		}
	}
	for _, in := range queued {
		s.refuseQueued(in.id, Unstartable)
	}
}
