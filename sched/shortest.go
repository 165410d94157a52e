package sched

import "math/bits"

// shortest takes, inside the window and among the flows with fewest in flight,
// the one whose next item takes least: expected service plus the least setup on
// any device. What is in flight comes first for the paper's reason: a second run
// of one function costs a second container. Flows that take about the same go by
// the age of their heads.
//
// Shortest first alone starves what is long. Here the window ends that: who has
// led by T gives way to who was served least, and overdue heads go before all.
type shortest struct{ plain }

const (
	sizeShift   = 20 // below 2^20 ns, about a millisecond, all are alike
	sizeOctaves = 28 // up to 2^48 ns, beyond two of the longest durations accepted
	// flightClasses is how many numbers in flight are told apart: more than 3
	// runs of one function at once are alike.
	flightClasses = 4
)

func (shortest) window() bool { return true }
func (shortest) facts() bool  { return true }
func (shortest) classes() int { return flightClasses }

// key gives each number in flight a class of its own; with a single token
// nothing is in flight when a choice is made.
func (shortest) key(s *Scheduler, f *flow) (int8, int64) {
	class := int8(min(f.inFlight, flightClasses-1))
	if s.tokens == 1 {
		class = 0
	}
	return class, sizeRank(s.takes(f))
}

func (shortest) first(s *Scheduler, now int64) (*flow, bool) {
	if f, ok := s.overdue(now); ok {
		return f, true
	}
	return plain{}.first(s, now)
}

func (shortest) granted(s *Scheduler, f *flow) Rule { return s.byLag(f) }

// sizeRank rounds down to 2^k or 1.5 * 2^k and numbers what comes out: expected
// times are not so exact that a little more should put the older head behind.
func sizeRank(size int64) int64 {
	if size < 1<<sizeShift {
		return 0
	}
	k := bits.Len64(uint64(size)) - 1
	half := size >> (k - 1) & 1
	return min(int64(2*(k-sizeShift))+half+1, 2*sizeOctaves)
}
