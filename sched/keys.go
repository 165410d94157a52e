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

// byShortest takes, inside the window and among the flows with fewest in flight,
// the one whose next invocation costs least: its expected service, and setupWeight
// times the least set-up on any device. What is in flight comes first for the paper's
// reason: a second run of one function costs a second container. Flows that cost about
// the same go by the age of their heads.
//
// Shortest first alone starves what is long. Here the window ends that: a flow that
// led by T gives way to those served least.
func byShortest(s *Scheduler, f *flow) key {
	return key{int64(len(f.flights)), sizeRank(s.expected(f) + setupWeight*f.setup)}
}

// setupWeight: a set-up serves none of those that wait, and mostly causes another one,
// of the container that it displaces. So a device drains the queues whose memory it
// has before it moves others in.
const setupWeight = 8

// sizeRank gives sizes within a factor of two the same rank: expected times are not so
// exact that a little more should put the older head behind. Below 2^20 ns, about a
// millisecond, all are alike.
func sizeRank(size int64) int64 { return int64(bits.Len64(uint64(size) >> 20)) }
