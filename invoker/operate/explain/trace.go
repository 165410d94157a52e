// Package explain keeps a trace of what became of each of the last
// activations, and describes it in plain sentences: why it waited, how it started,
// what it did and how it ended. It also sums up what the functions' waiting and
// running times have been of late.
//
// It decides nothing and starts no goroutine. The invoker adds a trace when
// an activation has left it; the console and the admin listener read.
package explain

import (
	"strings"
	"time"
	"unique"
)

// Trace is what one activation went through. Times are instants of this
// machine's clock; the zero time, duration and text stand for what did not
// happen or is not known.
type Trace struct {
	ID        string `json:"activationId"`
	Namespace string `json:"namespace"`
	Action    string `json:"action"` // namespace/name or namespace/package/name
	Kind      string `json:"kind,omitzero"`
	Status    int    `json:"status"`

	Sent      time.Time `json:"sent,omitzero"` // by the controller
	Accepted  time.Time `json:"accepted,omitzero"`
	Queued    time.Time `json:"queued,omitzero"` // its action was known and it stood in a queue
	Granted   time.Time `json:"granted,omitzero"`
	Launched  time.Time `json:"launched,omitzero"`
	Answered  time.Time `json:"answered,omitzero"`
	Completed time.Time `json:"completed,omitzero"` // acks and record are safe

	Acked  time.Time `json:"acked,omitzero"`  // the broker had the last ack
	Stored time.Time `json:"stored,omitzero"` // the store had the record, or would not take it
	// Batch is how many records were written in one request with it, 0 where that
	// is not known, as of one that went to the spool.
	Batch int `json:"batch,omitzero"`

	Start       string        `json:"start,omitzero"` // gpu-warm, host-warm, cold, busy-cold; warmed, prewarmed, cold
	Container   string        `json:"container,omitzero"`
	CreateStart time.Time     `json:"createStart,omitzero"`
	Create      time.Duration `json:"createNs,omitzero"`
	InitStart   time.Time     `json:"initStart,omitzero"`
	InitEnd     time.Time     `json:"initEnd,omitzero"`
	RunStart    time.Time     `json:"runStart,omitzero"`
	RunEnd      time.Time     `json:"runEnd,omitzero"`
	LogsStart   time.Time     `json:"logsStart,omitzero"`
	Logs        time.Duration `json:"logsNs,omitzero"`
	Again       int           `json:"again,omitzero"` // containers that were gone when it came
	TimedOut    bool          `json:"timedOut,omitzero"`
	Recorded    bool          `json:"recorded,omitzero"`
	Refused     string        `json:"refused,omitzero"` // why it never reached a container

	// FromRecord is whether nothing but the record is known.
	FromRecord bool `json:"fromRecord,omitzero"`

	GPU *GPU `json:"gpu,omitzero"` // nil: the CPU path
}

// GPU is the part of a trace that only GPU runs have.
type GPU struct {
	Device      string        `json:"device,omitzero"`
	Simulated   bool          `json:"simulated,omitzero"`
	MoveStart   time.Time     `json:"moveStart,omitzero"`
	Moved       time.Duration `json:"movedNs,omitzero"`     // bringing its memory back
	Memory      int64         `json:"memoryBytes"`          // the most of its container
	Beside      int           `json:"beside,omitzero"`      // other runs on the device when it began
	Company     string        `json:"company,omitzero"`     // the function with the most of those runs
	CompanyRuns int           `json:"companyRuns,omitzero"` // that many of them
	WaitReason  string        `json:"waitReason,omitzero"`  // why its flow waited when it came
	Lead        time.Duration `json:"leadNs,omitzero"`      // how far its flow was ahead then
	Overrun     time.Duration `json:"overrunNs,omitzero"`   // how far it might be
	Alone       bool          `json:"-"`                    // nothing is known of other runs
	Level       string        `json:"level,omitzero"`       // whose lead it was: the function's or its namespace's
	Behind      string        `json:"behind,omitzero"`      // the flow that went first
	Own         int           `json:"own,omitzero"`         // of its own function, queued before it
	Passed      int           `json:"passed,omitzero"`      // of others, granted while it waited
	PassedBy    int           `json:"passedBy,omitzero"`    // of them, of Behind
}

// NoBatch is the Batch of a trace whose record the store refused.
const NoBatch = -1

// Wait is how long it stood in a queue.
func (a *Trace) Wait() time.Duration { return span(a.Queued, a.Granted) }

// Latency is the time from the controller's sending to the answer, or from the
// acceptance where the sending is not known.
func (a *Trace) Latency() time.Duration {
	if a.Sent.IsZero() {
		return span(a.Accepted, a.Answered)
	}
	return span(a.Sent, a.Answered)
}

// Function names what ran as its caller sees it.
func (a *Trace) Function() string { return a.Namespace + "/" + a.Action }

// Cold reports whether its container was made for it.
func (a *Trace) Cold() bool { return a.Start == "cold" || a.Start == "busy-cold" }

// Outcome is OpenWhisk's name of its status code.
func (a *Trace) Outcome() string { return outcomes[a.Status&3] }

// Copy is a trace that shares nothing with this one, nor with the message that
// it is about: a text that is a part of it would keep all of it in memory,
// parameters too. Names are shared between copies.
func (a *Trace) Copy() Trace {
	c := *a
	c.ID, c.Container = strings.Clone(a.ID), strings.Clone(a.Container)
	share(&c.Namespace, &c.Action, &c.Kind, &c.Refused)
	if a.GPU != nil {
		g := *a.GPU
		share(&g.Device, &g.Company, &g.Behind)
		c.GPU = &g
	}
	return c
}

func share(texts ...*string) {
	for _, text := range texts {
		*text = unique.Make(*text).Value()
	}
}

func span(from, to time.Time) time.Duration {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return max(0, to.Sub(from))
}
