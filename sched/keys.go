package sched

import (
	"math"
	"math/bits"
)

// byAge is arrival order: the heads of all flows hold the oldest invocation.
func byAge(*Scheduler, *flow) (int64, int64) { return 0, 0 }

// byVirtualTime takes the eligible flow of least virtual time. The original
// multi-queue fair queueing leaves the choice inside the window open. With T = 0
// and one token it is start-time fair queueing. Virtual times of two namespaces'
// flows have nothing in common, so it is nested.
func byVirtualTime(_ *Scheduler, f *flow) (int64, int64) { return 0, f.vt }

// byService takes the shortest expected service.
func byService(s *Scheduler, f *flow) (int64, int64) { return 0, s.expected(f) }

// byDeadline takes the earliest deadline: arrival plus expected time, the cold
// start included when no container of the flow is idle.
func byDeadline(s *Scheduler, f *flow) (int64, int64) {
	return 0, f.head().arrival + f.setup + s.expected(f)
}

// byLongest is MQFQ-Sticky's order inside the window (paper, Algorithm 1): fewest
// in flight, then longest queue, then older head. With a single token nothing is
// in flight whenever a choice is made.
func byLongest(s *Scheduler, f *flow) (int64, int64) {
	return s.flightClass(f, math.MaxInt), -int64(f.queue.Len())
}

// byShortest takes, inside the window and among the flows with fewest in flight,
// the one whose next invocation takes least: expected service plus the least setup
// on any device. What is in flight comes first for the paper's reason: a second run
// of one function costs a second container. Flows that take about the same go by
// the age of their heads.
//
// Shortest first alone starves what is long. Here the window ends that: a flow that
// led by T gives way to those served least, and overdue heads go before all.
func byShortest(s *Scheduler, f *flow) (int64, int64) {
	return s.flightClass(f, maxFlightClass), sizeRank(s.takes(f))
}

// maxFlightClass is from how many runs of one function at once on all count alike.
const maxFlightClass = 3

func (s *Scheduler) flightClass(f *flow, most int) int64 {
	if s.tokens == 1 {
		return 0
	}
	return int64(min(len(f.flights), most))
}

const (
	sizeShift   = 20 // below 2^20 ns, about a millisecond, all are alike
	sizeOctaves = 28 // up to 2^48 ns, beyond two of the longest durations accepted
)

// sizeRank numbers the classes 2^k and 1.5 * 2^k of expected times. Within a class the
// older head goes first: expected times are not exact enough for finer ones.
func sizeRank(size int64) int64 {
	if size < 1<<sizeShift {
		return 0
	}
	k := bits.Len64(uint64(size)) - 1
	half := size >> (k - 1) & 1
	return min(int64(2*(k-sizeShift))+half+1, 2*sizeOctaves)
}
