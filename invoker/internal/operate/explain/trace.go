// Package explain keeps traces of the last activations, and describes a trace in plain
// sentences: why the activation waited, how it started, how it ran and how it ended. It
// also computes statistics of the functions' waiting and answering times.
//
// It makes no decisions and starts no goroutines. The invoker adds a trace when it has
// completed an activation; the console and the admin port read the traces.
package explain

import (
	"strings"
	"time"
	"unique"
)

// Trace is the history of one activation. Times are instants of this machine's clock. A
// field is zero if the step did not happen or is not known.
type Trace struct {
	ID        string `json:"activationId"`
	Namespace string `json:"namespace"`
	Action    string `json:"action"` // namespace/name or namespace/package/name
	Kind      string `json:"kind,omitzero"`
	Status    int    `json:"status"`

	Sent      time.Time `json:"sent,omitzero"` // by the controller
	Accepted  time.Time `json:"accepted,omitzero"`
	Queued    time.Time `json:"queued,omitzero"` // when its action was known, and it joined a queue
	Granted   time.Time `json:"granted,omitzero"`
	Launched  time.Time `json:"launched,omitzero"`
	Answered  time.Time `json:"answered,omitzero"`
	Completed time.Time `json:"completed,omitzero"` // when acks and record were safe

	Acked  time.Time `json:"acked,omitzero"`  // when the broker had the last ack
	Stored time.Time `json:"stored,omitzero"` // when the store had accepted or refused the record
	// Batch is the number of records that were written in one request, this one
	// included. It is 0 if that is not known, as for a record that went to the spool.
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
	Again       int           `json:"again,omitzero"` // containers that had ended when it came
	TimedOut    bool          `json:"timedOut,omitzero"`
	Recorded    bool          `json:"recorded,omitzero"`
	Refused     string        `json:"refused,omitzero"` // reason for which it never reached a container

	// FromRecord means that the trace was made from the record alone.
	FromRecord bool `json:"fromRecord,omitzero"`

	GPU *GPU `json:"gpu,omitzero"` // nil for a CPU run
}

// GPU is the part of a trace that belongs to GPU runs only.
type GPU struct {
	Device      string        `json:"device,omitzero"`
	Simulated   bool          `json:"simulated,omitzero"`
	MoveStart   time.Time     `json:"moveStart,omitzero"`
	Moved       time.Duration `json:"movedNs,omitzero"`     // time to bring its memory back
	Memory      int64         `json:"memoryBytes"`          // peak of its container
	Beside      int           `json:"beside,omitzero"`      // other runs on the device when this run began
	Company     string        `json:"company,omitzero"`     // the function with the most of those runs
	CompanyRuns int           `json:"companyRuns,omitzero"` // number of those runs
	WaitReason  string        `json:"waitReason,omitzero"`  // reason for which its flow waited when it came
	Lead        time.Duration `json:"leadNs,omitzero"`      // lead of its flow at that time
	Overrun     time.Duration `json:"overrunNs,omitzero"`   // greatest lead that was allowed
	Alone       bool          `json:"-"`                    // other runs are not known
	Level       string        `json:"level,omitzero"`       // whose lead it was: the function's or its namespace's
	Behind      string        `json:"behind,omitzero"`      // the flow that went first
	Own         int           `json:"own,omitzero"`         // calls of its own function that were queued before it
	Passed      int           `json:"passed,omitzero"`      // calls of other functions that started while it waited
	PassedBy    int           `json:"passedBy,omitzero"`    // those of Behind
}

// NoBatch is the Batch of a trace whose record the store refused.
const NoBatch = -1

// Wait returns the time in the queue.
func (a *Trace) Wait() time.Duration { return duration(a.Queued, a.Granted) }

// Latency returns the time from the sending by the controller to the answer. If the time
// of the sending is not known, it begins with the acceptance.
func (a *Trace) Latency() time.Duration {
	if a.Sent.IsZero() {
		return duration(a.Accepted, a.Answered)
	}
	return duration(a.Sent, a.Answered)
}

// Function returns the function's name: the namespace of the caller, and the action.
func (a *Trace) Function() string { return a.Namespace + "/" + a.Action }

// Cold reports whether a container was created for the activation.
func (a *Trace) Cold() bool { return a.Start == "cold" || a.Start == "busy-cold" }

// Outcome describes the status code.
func (a *Trace) Outcome() string { return outcomes[a.Status&3] }

// Copy returns a deep copy. The copy shares no text with the activation's message,
// because a substring would keep the whole message in memory, with its parameters. Equal
// names are shared between copies.
func (a *Trace) Copy() Trace {
	c := *a
	c.ID, c.Container = strings.Clone(a.ID), strings.Clone(a.Container)
	intern(&c.Namespace, &c.Action, &c.Kind, &c.Refused)
	if a.GPU != nil {
		g := *a.GPU
		intern(&g.Device, &g.Company, &g.Behind)
		c.GPU = &g
	}
	return c
}

func intern(texts ...*string) {
	for _, text := range texts {
		*text = unique.Make(*text).Value()
	}
}

func duration(from, to time.Time) time.Duration {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return max(0, to.Sub(from))
}
