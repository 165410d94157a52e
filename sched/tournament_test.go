package sched

import (
	"math/rand/v2"
	"testing"
)

// TestTournament compares it with a walk over all places.
func TestTournament(t *testing.T) {
	for _, places := range []int{1, 4, 5, 17, 300} {
		rng := rand.New(rand.NewPCG(4, uint64(places)))
		var of tournament
		want := make([]entry, places)
		for i := range want {
			want[i] = vacant
		}
		for step := range 5_000 {
			i := rng.IntN(places)
			want[i] = vacant
			if rng.IntN(3) > 0 {
				want[i] = entryOf(int64(rng.IntN(20)), int64(step), int32(i))
			}
			of.set(int32(i), want[i])
			first, n := vacant, 0
			for _, e := range want {
				if e != vacant {
					n++
				}
				if e.before(first) {
					first = e
				}
			}
			if of.n != n || n > 0 && of.winner != first {
				t.Fatalf("%d places, step %d: %d taken, first %v, want %d and %v", places, step, of.n, of.winner, n, first)
			}
			if err := checkTournament(&of); err != nil {
				t.Fatalf("%d places, step %d: %v", places, step, err)
			}
		}
	}
}
