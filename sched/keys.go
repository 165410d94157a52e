package sched

import "math/bits"

// key is a position in a policy's order: the least goes first, and the older head among
// equals.
type key [3]int64

// byAge is arrival order: the heads of all flows hold the oldest invocation.
func byAge(*Scheduler, *flow) key { return key{} }

// byVirtualTime takes the eligible flow of least virtual time. The original
// multi-queue fair queueing leaves the choice inside the window open. With T = 0
// and one token it is start-time fair queueing. Virtual times of two namespaces'
// flows have nothing in common, so namespaces are ordered first.
func byVirtualTime(_ *Scheduler, f *flow) key { return key{f.group.vt, f.group.serial, f.vt} }

// byService takes the shortest expected service.
func byService(s *Scheduler, f *flow) key { return key{s.expected(f)} }

// byDeadline takes the earliest deadline: arrival plus expected time, the cold
// start included when no container of the flow is idle.
func byDeadline(s *Scheduler, f *flow) key { return key{f.head().arrival + f.setup + s.expected(f)} }

// byLongest is MQFQ-Sticky's order inside the window (paper, Algorithm 1): fewest
// in flight, then longest queue, then older head.
func byLongest(_ *Scheduler, f *flow) key { return key{int64(len(f.flights)), -int64(f.queue.Len())} }

// byShortest takes, inside the window and among the flows with fewest runs in flight, the
// flow whose next invocation costs least: its expected service, and setupWeight times the
// least set-up on any device. Flows with fewest runs go first for the paper's reason: a
// second run of one function costs a second container.
//
// Shortest first alone starves long runs. A head that has waited for patience times its cost
// counts half, and half again after each doubling of its wait. Flows that cost about the same
// go by the age of their heads.
func byShortest(s *Scheduler, f *flow) key {
	cost := s.expected(f) + setupWeight*f.setup
	waited := s.now - f.head().arrival
	return key{int64(len(f.flights)), sizeRank(cost) - int64(bits.Len64(uint64(waited/(patience*cost))))}
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
