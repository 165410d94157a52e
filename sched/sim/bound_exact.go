package sim

import (
	"cmp"
	"math"
	"slices"
)

const (
	// fewCalls are worth an attempt to find the optimum.
	fewCalls = 12
	// exactSteps end that attempt: some hundredths of a second.
	exactSteps = 100_000
)

// exactly returns the least sum of latencies of few calls on a server with the
// places and tokens of this one, one run at a time in a container, where runs
// neither slow each other down nor wait for memory. It tries every order of
// grants and every place for each, and leaves off where the rest cannot be
// better than what it has. It reports false for more calls, or a harder case,
// than it can finish, and after a warm-up, whose leavings it does not know.
func (b *bounded) exactly() (float64, bool) {
	if len(b.calls) > fewCalls || b.begin > 0 {
		return 0, false
	}
	s := &search{bounded: b, best: math.Inf(1), served: make([]bool, len(b.calls))}
	places := b.places
	if places == 0 {
		places = b.tokens
	}
	// More places than calls, and more tokens than places, change nothing.
	for range min(places, len(b.calls)) {
		s.boxes = append(s.boxes, spot{fn: -1})
	}
	s.grant(0, 0, 0)
	return s.best, s.steps <= exactSteps
}

// spot is a place for a container: whose it is, and when its run ends.
type spot struct {
	fn   int
	free float64
}

// search is a plan under way.
type search struct {
	*bounded
	boxes  []spot
	served []bool
	best   float64
	steps  int
}

// grant tries every call that may be next, in every place, given what was
// granted until now.
func (s *search) grant(granted int, now, sum float64) {
	if s.steps++; s.steps > exactSteps {
		return
	}
	if granted == len(s.calls) {
		s.best = min(s.best, sum)
		return
	}
	now = max(now, s.token())
	if sum+s.rest(now) >= s.best {
		return
	}
	for i, c := range s.calls {
		if s.served[i] || s.later(i) {
			continue
		}
		s.served[i] = true
		for k, old := range s.boxes {
			if slices.Index(s.boxes[:k], old) >= 0 {
				continue // one like it was tried
			}
			begin := max(now, c.at, old.free)
			end := begin + c.work
			if old.fn != c.fn || s.places == 0 {
				end += s.fns[c.fn].start
			}
			s.boxes[k] = spot{fn: c.fn, free: end}
			s.grant(granted+1, begin, sum+end-c.at)
			s.boxes[k] = old
		}
		s.served[i] = false
	}
}

// token returns when the next token is free: so many places may be busy.
func (s *search) token() float64 {
	if s.tokens >= len(s.boxes) {
		return 0
	}
	byEnd := slices.Clone(s.boxes)
	slices.SortFunc(byEnd, func(a, b spot) int { return cmp.Compare(b.free, a.free) })
	return byEnd[s.tokens-1].free
}

// rest returns the least that the unserved calls add to the sum.
func (s *search) rest(now float64) float64 {
	sum := 0.0
	for i, c := range s.calls {
		if !s.served[i] {
			sum += max(now, c.at) + c.work - c.at
		}
	}
	return sum
}

// later reports whether an equal call that came earlier is unserved: it may as
// well go first.
func (s *search) later(i int) bool {
	for k, c := range s.calls[:i] {
		if !s.served[k] && c.fn == s.calls[i].fn && c.work == s.calls[i].work {
			return true
		}
	}
	return false
}
