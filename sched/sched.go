// Package sched decides which queued GPU invocation runs next, and on which
// device. It has the policies that an invoker offers: MQFQ-Sticky (multi-queue fair queueing
// with an overrun window), a variant with other choices inside the window, and arrival order.
// Scheduler is the engine under all of them, and under each Policy of another package.
//
// It is a pure core: it takes events with the time attached and returns
// decisions. It has no clock, goroutine, lock or IO, and no decision depends
// on map order, so one history always gives one schedule. The owner of a
// Scheduler calls it from one goroutine at a time.
//
// Containers, device memory and activations are outside; a decision sees them through View.
//
// Each rule has its file: clock (virtual time, of flows and of namespaces), pick (which flow
// is next, and where), order (how an order sees flows), keys (the policies' orders), wait (for
// a container of one's own), blocked (flows that cannot use what others can), ttl (when a flow
// is inactive). done has the end of a run.
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

// Lack names the shortage of a flow that does not fit on a device.
type Lack uint8

// The shortages. A flow may lack several things at once.
const (
	LacksMemory    Lack = 1 << iota // device memory that running functions hold
	LacksContainer                  // a container's place, all of which are in use
	LacksLimit                      // memory within its namespace's limit on the device
	LacksHost                       // host memory that other containers of devices hold
	LacksDevice                     // the device could not serve it even if nothing else ran there
)

// Placement describes a start of a flow's next invocation on a device right now.
type Placement struct {
	Start StartKind
	Setup time.Duration // expected time from token to running: create, init, swap in
	Fits  bool          // the container and its memory can be had there now
	Lacks Lack          // the shortages where it does not fit
	// Shares means that the run begins in a container in which another run has not ended, and
	// Anew has the shortages for a container without runs.
	Shares bool
	Anew   Lack
	// Displaces means that the run begins in a new container that takes the place of an idle
	// one, or memory that an idle one holds on the device.
	Displaces bool
	// Need is the device memory that the run and its container hold, Room the memory that
	// the device has for containers altogether.
	Need, Room int64
}

// View is implemented by the owner of containers and memory.
type View interface {
	// Work is a flow as its owner sees it. It is asked for once, when the flow becomes known.
	Work(flow FlowID) Work
}

// Outlook describes a flow for all devices together.
type Outlook struct {
	Setup time.Duration // the least of a start on any device
	Need  int64         // device memory that a run needs
	// Servable means that some device could serve the flow now, or once the current runs
	// there have ended.
	Servable bool
	// Plain means that whether a run fits on a device depends on Need and ShortOfHost alone: the
	// flow has no container and no limit. Of two such flows, a device that the smaller one
	// does not fit has no place for the larger one.
	Plain bool
	// ShortOfHost means that there is no host memory for a container of a plain flow.
	ShortOfHost bool
	// Limited means that the memory of the flow's namespace has a limit.
	Limited bool
}

// Work is a flow with work queued, seen by the owner of containers and memory. A Scheduler
// calls it from inside Next and Explain, for every such flow: it must return at once, must
// not call back and changes nothing.
type Work interface {
	// Outlook describes the flow for all devices together.
	Outlook() Outlook
	// Placement describes a start of the flow's next invocation on a device.
	Placement(device int) Placement
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

// Usage is the time that a finished invocation really took.
type Usage struct {
	Service time.Duration // from grant to return of the token, without container creation
	Setup   time.Duration // container creation and init within the token
	// Failed means that the container could not be used after the invocation.
	Failed bool
	// Outdated means that the function has a newer revision than the one in this run. How
	// the run ended says nothing about the newer revision, so the back-off ignores it.
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

// Change is one flow's transition since the last call of Changes.
type Change struct {
	Flow FlowID
	From State
	To   State
	// Forgotten means that nothing is known of the flow any more, its estimates
	// included. Its state may have been Inactive before.
	Forgotten bool
}
