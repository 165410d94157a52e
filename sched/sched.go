// Package sched decides which queued GPU invocation runs next, and on which
// device. It holds MQFQ-Sticky (multi-queue fair queueing with an overrun
// window) and its rivals; Scheduler is the engine under all of them.
//
// It is a pure core: it takes events with the time attached and returns
// decisions. It has no clock, goroutine, lock or IO, and no decision depends
// on map order, so one history always gives one schedule. The owner of a
// Scheduler calls it from one goroutine at a time.
//
// Containers, device memory and activations are outside of it. What a decision needs
// of them comes through View.
//
// Each rule has its file: level and fair (virtual time, of flows and of namespaces),
// order and keys (which flow is first), overdue (what goes before the order), fit (on
// which device, and when to wait), reach (which devices could serve a flow), spare (what
// runs beyond the window), ttl (when a flow is inactive). Next and done have the life of
// an invocation.
package sched

import "time"

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
	Cost time.Duration // expected service where the caller has an estimate, else 0
}

// Placement is what starting one invocation of a flow on a device would mean right now.
type Placement struct {
	Start StartKind
	Setup time.Duration // expected time from token to running: create, init, swap in
	Fits  bool          // the container and its memory can be had there now
	// Unfit means that the device could not serve it even if nothing else ran there.
	Unfit bool
	// Elsewhere means that it does not fit, and that the end of other flows' runs there would
	// not make it fit: the device is not kept for it.
	Elsewhere bool
}

// View is implemented by the owner of containers and memory. A Scheduler calls it from
// inside Next, Likely and Explain; it must return at once and must not call back.
//
// Fits=false makes Next skip the flow for this call; the flow keeps its position. When
// a placement of a flow changes for a reason other than the Next, Done, Undo and
// Abandon of its own invocations (a container removed, adopted or swapped), the owner
// calls Touch; when it is not known of which flows, Resized.
type View interface {
	// Placements is what a start of the flow's next invocation would be, by device. The
	// function is not called after anything has changed.
	Placements(flow FlowID) func(device int) Placement
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
	// Replaces means that the container replaced one that worked and that its owner
	// removed for others: of Setup the flow is excused, within bounds.
	Replaces bool
	// Failed means that the container could not be used after the invocation.
	Failed bool
	// Outdated means that the function has a newer revision than the one that ran. How
	// the run ended says nothing about the newer one, so the back-off ignores it.
	Outdated bool
}

// State is a flow's state, which memory management follows.
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
	// Forgotten means that nothing is known of the flow any more, its estimates
	// included. Its state may have been Inactive before.
	Forgotten bool
}
