package sched

import "math/bits"

// byAge is arrival order: the heads of all flows hold the oldest invocation.
func byAge(Flow) Key { return Key{} }

// byLongest is MQFQ-Sticky's order inside the window (paper, Algorithm 1): fewest
// in flight, then longest queue, then older head.
func byLongest(f Flow) Key { return Key{int64(len(f.f.flights)), -int64(len(f.f.queue))} }

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
