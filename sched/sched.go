// Package sched decides which queued GPU invocation runs next, and on which
// device. It holds MQFQ-Sticky (multi-queue fair queueing with an overrun
// window) and its rivals behind one interface, Policy.
//
// It is a pure core: it takes events with the time attached and returns
// decisions. It has no clock, goroutine, lock or IO, and no decision depends
// on map order, so one history always gives one schedule. The owner of a
// Policy calls it from one goroutine at a time.
//
// It does not know containers, device memory or activations. What it must know
// of them it asks through View.
package sched

import (
	"time"
)

// FlowID names a flow: the invocations of one function in the namespace that
// invokes it. Function is the function's full name, so that two flows of one
// namespace never share it.
type FlowID struct {
	Namespace string
	Function  string
}

// String writes the flow as namespace/function.
func (f FlowID) String() string { return f.Namespace + "/" + f.Function }

// Invocation is one invocation as it arrives.
type Invocation struct {
	ID   uint64 // the caller's; unique among those queued or in flight
	Flow FlowID
	Cost time.Duration // expected service if the caller knows it, else 0
}

// Placement is what starting one invocation of a flow on a device would mean right now.
type Placement struct {
	Start StartKind
	Setup time.Duration // expected time from token to running: create, init, swap in
	Fits  bool          // the container and its memory can be had there now
}

// View answers what only the owner of containers and memory knows. A Policy
// calls it from inside Next, Likely and Explain; it must answer from memory
// and must not call back.
//
// With many devices few differ for a flow. Near lists those, in their order, and
// says what a start is on all others. There Placement must answer the same, but for
// Fits, which is false in elsewhere only where it is false on all of them.
//
// Fits=false makes Next pass the flow by for this call; the flow keeps its
// position. When a placement of a flow changes for a reason other than the Next,
// Done, Undo and Abandon of its own invocations (a container evicted, created ahead
// or swapped), the owner calls Touch.
type View interface {
	Placement(flow FlowID, device int) Placement
	// Near appends to buf.
	Near(flow FlowID, buf []int) (near []int, elsewhere Placement)
}

// Choice is a granted token: this invocation, on this device.
type Choice struct {
	Invocation uint64
	Flow       FlowID
	Device     int
	Placement  Placement     // as View answered when the choice was made
	Waited     time.Duration // from Enqueue to now
	Charged    time.Duration // virtual time charged to the flow
	Rule       Rule          // the rule that chose it
}

// Usage is what a finished invocation really took.
type Usage struct {
	Service time.Duration // from grant to return of the token, without container creation
	Setup   time.Duration // container creation and init within the token
}

// State is a flow's standing, which memory management follows.
type State uint8

// The states of a flow (paper, table of symbols and Algorithm 1).
const (
	Inactive  State = iota // empty for longer than its TTL, or never seen
	Active                 // eligible, in flight, or empty for less than its TTL
	Throttled              // backlogged, and more than T ahead of global virtual time
)

// String gives the state's name.
func (s State) String() string {
	return [...]string{"inactive", "active", "throttled", "unknown"}[s&3]
}

// Change is one flow's transition since the last call of Changes. With
// per-namespace fairness a whole namespace may be throttled at once: then
// Flow.Function is empty and every backlogged flow of the namespace is meant.
type Change struct {
	Flow FlowID
	From State
	To   State
}

// Policy is one scheduling policy with its flows, devices and tokens. Times are
// durations since an epoch the caller picks, and never go back.
//
// The owner calls Next after every other event, again and again until it
// answers false. Misuse (an unknown or repeated id) panics.
type Policy interface {
	// Enqueue adds an invocation at the end of its flow.
	Enqueue(now time.Duration, in Invocation)
	// Cancel takes a queued invocation out; false if it is not queued.
	Cancel(now time.Duration, id uint64) bool
	// Next grants a token; false if there is nothing that may and can run.
	Next(now time.Duration) (Choice, bool)
	// Done returns the token of a finished invocation and learns from what it used.
	Done(now time.Duration, id uint64, used Usage)
	// Undo returns the token, takes the charge back and puts the invocation at
	// the head of its flow again: for one that could not be started. View
	// should say that it does not fit, or Next may choose it again.
	Undo(now time.Duration, id uint64)
	// Abandon returns the token, takes the charge back and forgets the invocation.
	Abandon(now time.Duration, id uint64)
	// Touch says that View would answer differently for a flow now.
	Touch(now time.Duration, flow FlowID)
	// Likely names the flow and device that would be granted next if every
	// device had one token more, so that its memory can be brought in ahead.
	Likely(now time.Duration) (FlowID, int, bool)

	// AddDevice brings a device with its tokens D; queued work may use it.
	AddDevice(now time.Duration, device, tokens int)
	// RemoveDevice takes a device away. What is in flight there still ends
	// with Done, Undo or Abandon; queued work stays queued.
	RemoveDevice(now time.Duration, device int)
	// SetTokens changes a device's D. More in flight than D drains by itself.
	SetTokens(now time.Duration, device, tokens int)
	// Reserve takes a free token for work outside of any flow (a prewarm, a
	// repartitioning); false if there is none. Release gives it back.
	Reserve(now time.Duration, device int) bool
	Release(now time.Duration, device int)

	// SetWeight sets a flow's weight, SetNamespaceWeight a namespace's.
	SetWeight(now time.Duration, flow FlowID, weight float64) error
	SetNamespaceWeight(now time.Duration, namespace string, weight float64) error

	// Deadline says when Tick would change something; false for never.
	Deadline() (time.Duration, bool)
	// Tick lets time pass: flows expire, waiting flows are let go.
	Tick(now time.Duration)

	// Changes appends to buf what changed state since the last call. The
	// record starts with the first call, which reports all that is not
	// inactive.
	Changes(buf []Change) []Change
	// State is a flow's standing now.
	State(flow FlowID) State
	// Explain says what holds a flow, or which rule chose it last.
	Explain(now time.Duration, flow FlowID) Reason
	// Flow copies one flow's figures; false if it is not known.
	Flow(flow FlowID) (FlowStats, bool)
	// Flows appends the figures of all known flows, in the order of their ids.
	Flows(buf []FlowStats) []FlowStats
	// Stats copies the figures of the whole; its slices are the caller's.
	Stats() Stats
}
