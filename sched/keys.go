package sched

import (
	"iter"
	"math/bits"
	"time"
)

// Flow is a flow with work queued as an order sees it. A Flow equals another if both are the
// same flow, so that it can be the key of a map. A flow that was forgotten and has come back
// is another Flow.
type Flow struct {
	s *Scheduler
	f *flow
}

// ID names the flow.
func (f Flow) ID() FlowID { return f.f.id }

// Queued is the number of queued invocations.
func (f Flow) Queued() int { return f.f.queue.Len() }

// Arrived is the time when the flow's oldest queued invocation was enqueued.
func (f Flow) Arrived() time.Duration { return time.Duration(f.f.head().arrival) }

// Oldest and Newest number the flow's oldest and newest queued invocations in the order in
// which the invocations of all flows were enqueued.
func (f Flow) Oldest() int64 { return f.f.head().seq }

// Newest is described with Oldest.
func (f Flow) Newest() int64 { return f.f.queue.Back().Value.(*invocation).seq }

// Expected is the service that the next invocation is expected to use.
func (f Flow) Expected() time.Duration { return time.Duration(f.s.expected(f.f)) }

// Setup is the least expected set-up of the next invocation on any device.
func (f Flow) Setup() time.Duration { return time.Duration(f.f.setup) }

// VirtualTime orders flows by their virtual times. Those of two namespaces' flows have nothing
// in common, so namespaces are ordered first.
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

// byAge is arrival order: the heads of all flows hold the oldest invocation.
func byAge(Flow) Key { return Key{} }

// byLongest is MQFQ-Sticky's order inside the window (paper, Algorithm 1): fewest
// in flight, then longest queue, then older head.
func byLongest(f Flow) Key { return Key{int64(len(f.f.flights)), -int64(f.f.queue.Len())} }

// byShortest takes, inside the window and among the flows with fewest runs in flight, the
// flow whose next invocation costs least: its expected service, and setupWeight times the
// least set-up on any device. Flows with fewest runs go first for the paper's reason: a
// second run of one function costs a second container.
//
// Shortest first alone starves long runs. A head that has waited for patience times its cost
// counts half, and half again after each doubling of its wait. Flows that cost about the same
// go by the age of their heads.
func byShortest(of Flow) Key {
	s, f := of.s, of.f
	cost := s.expected(f) + setupWeight*f.setup
	waited := s.now - f.head().arrival
	return Key{int64(len(f.flights)), sizeRank(cost) - int64(bits.Len64(uint64(waited/(patience*cost))))}
}

// patience is by how many times its cost a head waits before it counts less.
const patience = 4

// setupWeight: a set-up serves no waiting call, and mostly causes another set-up, of the
// container that it displaces. So a device drains the queues whose memory it has before it
// moves others in.
const setupWeight = 8

// sizeRank gives sizes within a factor of two the same rank: expected times are not so
// exact that a little more should put the older head behind. Below 2^20 ns, about a
// millisecond, all are alike.
func sizeRank(size int64) int64 { return int64(bits.Len64(uint64(size) >> 20)) }
