package delivery

import "github.com/gpuwhisk/gpuwhisk/activation"

// History is the state in which earlier processes left an activation.
type History struct {
	// Begun is set if the action had begun to run and its end is not known. Attempts
	// counts the processes that were killed during a run. A process that stopped in order
	// does not count.
	Begun    bool
	Attempts int
	// Completed is set if the acks and the record are safe.
	Completed bool
	// Ended is the known end whose acks or record may be lost, or nil.
	Ended *activation.Record
}

// Merge joins the journal's history with the history in the metadata of Kafka's offset.
// The later state counts.
func (h History) Merge(o History) History {
	h.Begun = h.Begun || o.Begun
	h.Attempts = max(h.Attempts, o.Attempts)
	h.Completed = h.Completed || o.Completed
	if h.Ended == nil {
		h.Ended = o.Ended
	}
	return h
}

// Mark is the part of a history that Kafka's metadata can hold for an open activation: one
// byte, 0 for an activation that never began.
type Mark = uint8

// Marked returns the history that a mark stands for.
func Marked(m Mark) History { return History{Begun: m&1 == 1, Attempts: int(m >> 1)} }

func (h History) mark() Mark {
	m := Mark(min(h.Attempts, 63)) << 1
	if h.Begun {
		m |= 1
	}
	return m
}

// BeginMarks returns the marks of an activation that begins to run in this process: the mark for
// the next process if this one is killed during the run, and the mark if it stops in order.
func (h History) BeginMarks() (killed, stopped Mark) {
	h.Begun = true
	stopped = h.mark()
	h.Attempts++
	return h.mark(), stopped
}

// Recovery is how a process goes on with an activation of an earlier process.
type Recovery uint8

// The recoveries.
const (
	Run       Recovery = iota // it had not begun
	RunAgain                  // it had begun, and may run again
	Interrupt                 // it had begun, and must not run again
	GiveUp                    // it has ended too many processes
	Repeat                    // its end is known, and is sent again
	Skip                      // it is completed
)

// maxAttempts bounds how many processes may be killed during the runs of one activation:
// the activation may be the cause.
const maxAttempts = 3

// Recovery decides how a process goes on with the activation. rerun is set if an
// interrupted run may be repeated.
func (h History) Recovery(rerun bool) Recovery {
	switch {
	case h.Completed:
		return Skip
	case h.Ended != nil:
		return Repeat
	case !h.Begun:
		return Run
	case h.Attempts >= maxAttempts:
		return GiveUp
	case rerun:
		return RunAgain
	}
	return Interrupt
}
