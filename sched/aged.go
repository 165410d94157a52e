package sched

import "math/bits"

// aged takes, inside the window and among the flows with fewest in flight, the
// one of the highest response ratio (wait + S)/S, where S is the expected setup
// shared by the backlog plus the expected service: short and warm flows first,
// but nobody waits for ever. What is in flight comes first for the paper's
// reason: a second run of one function costs a second container.
//
// Ratios change with time, each at its own speed, so no fixed key orders them.
// S is therefore rounded down to one of a few classes; inside a class the
// ratio goes by the age of the head alone, and only the first of each class
// are compared.
type aged struct{ plain }

const (
	agedShift   = 20 // S below 2^20 ns, about a millisecond, is one class
	agedOctaves = 28 // up to 2^48 ns, beyond two of the longest durations accepted
	agedClasses = 2*agedOctaves + 1
	// agedBlocks is how many numbers in flight are told apart: more than 3
	// runs of one function at once are alike.
	agedBlocks = 4
)

func (aged) window() bool { return true }
func (aged) facts() bool  { return true }
func (aged) classes() int { return agedBlocks * classPage }

// key gives each number in flight a page of classes; with a single token
// nothing is in flight when a choice is made.
func (aged) key(s *Scheduler, f *flow) (int32, int64) {
	class := agedClass(f.setup/int64(f.queue.n) + s.expected(f))
	if s.tokens != 1 {
		class += min(f.inFlight, agedBlocks-1) * classPage
	}
	return class, s.head(f).arrival
}

// agedClass rounds S down to 2^k or 1.5 * 2^k.
func agedClass(size int64) int32 {
	if size < 1<<agedShift {
		return 0
	}
	k := bits.Len64(uint64(size)) - 1
	half := int32(size>>(k-1)) & 1
	return min(2*int32(k-agedShift)+half+1, agedClasses-1)
}

// agedSize is the S that a class stands for.
func agedSize(class int) int64 {
	if class == 0 {
		return 1 << (agedShift - 1)
	}
	k := agedShift + (class-1)/2
	return int64(2+(class-1)%2) << (k - 1)
}

// first compares wait/S, which orders as (wait + S)/S does; a tie goes to the
// older head.
func (aged) first(s *Scheduler, now int64) (*flow, bool) {
	class, ok := s.order.next(0)
	if !ok {
		return nil, false
	}
	_, best := s.order.first(class)
	size := agedSize(class % classPage)
	for c, ok := s.order.next(class + 1); ok && c/classPage == class/classPage; c, ok = s.order.next(c + 1) {
		_, e := s.order.first(c)
		if cs := agedSize(c % classPage); ratioAbove(now-e.k1, cs, e.k2, now-best.k1, size, best.k2) {
			best, size = e, cs
		}
	}
	return s.flows[best.slot], true
}

// ratioAbove says that waitA/sizeA > waitB/sizeB, or equal and A is older.
func ratioAbove(waitA, sizeA, seqA, waitB, sizeB, seqB int64) bool {
	hiA, loA := bits.Mul64(uint64(waitA), uint64(sizeB))
	hiB, loB := bits.Mul64(uint64(waitB), uint64(sizeA))
	if hiA != hiB {
		return hiA > hiB
	}
	if loA != loB {
		return loA > loB
	}
	return seqA < seqB
}
