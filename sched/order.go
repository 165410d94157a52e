package sched

import (
	"iter"
	"time"
)

// Order says which of the flows that may run goes first.
type Order struct {
	// Key returns the flow's position. The least goes first, and the older head among equals.
	Key func(Flow) Key
	// Granted is called before a flow's head is taken from its queue to run. Undone is called
	// for a run that Undo or Abandon ends; the flow may have nothing queued then. Both may be
	// nil.
	Granted, Undone func(Flow)
}

// Key is a position in an order. Between flows whose namespaces lead by more than T, only the
// first two numbers count.
type Key [3]int64

// Flow is an order's view of a flow. Two values are equal if they view the same flow, so that
// an order can keep its state of flows in a map. A flow that was forgotten and has come back is
// another flow.
type Flow struct {
	s *Scheduler
	f *flow
}

// Arrived is the time when the flow's oldest queued invocation was enqueued.
func (f Flow) Arrived() time.Duration { return time.Duration(f.f.head().arrival) }

// Oldest is the serial number of the flow's oldest queued invocation. Invocations of all
// flows are numbered from 1 on as they are enqueued.
func (f Flow) Oldest() int64 { return f.f.head().seq }

// Newest is the serial number of the flow's newest queued invocation.
func (f Flow) Newest() int64 { return f.f.queue[len(f.f.queue)-1].seq }

// Expected is the service that the next invocation is expected to use.
func (f Flow) Expected() time.Duration { return time.Duration(f.s.expected(f.f)) }

// Setup is the least expected set-up of the next invocation on any device.
func (f Flow) Setup() time.Duration { return time.Duration(f.f.setup) }

// VirtualTime is the flow's position by virtual time. Virtual times of two namespaces' flows
// have nothing in common, so namespaces are ordered first.
func (f Flow) VirtualTime() Key { return Key{f.f.group.vt, f.f.group.serial, f.f.vt} }

// Competes reports whether the flow does not pause, and some device could serve it.
func (f Flow) Competes() bool { return f.f.competes }

// Backlog goes through all flows that have work queued, in no order.
func (f Flow) Backlog() iter.Seq[Flow] {
	return func(yield func(Flow) bool) {
		for _, other := range f.s.backlog {
			if !yield(Flow{f.s, other}) {
				return
			}
		}
	}
}
