package goheap

import (
	"runtime"
	"testing"
	"time"
)

// TestCollectionsAreHeardOf, each, and what follows from one is set.
func TestCollectionsAreHeardOf(t *testing.T) {
	set := make(chan int)
	x := &tuner{last: time.Now(), pages: &pages{maps: func() ([]byte, error) { return nil, nil }}, garbage: &garbage{set: func(percent int) int {
		select {
		case set <- percent:
		case <-t.Context().Done():
		}
		return 0
	}}}
	x.await()
	for {
		runtime.GC() // before it is awaited again it is not heard of
		select {
		case percent := <-set:
			if percent < usualPercent || percent > mostPercent {
				t.Errorf("%d %% are set", percent)
			}
			return
		default:
		}
	}
}

// TestRestIsAMinute without a collection; the heap of this process is read.
func TestRestIsAMinute(t *testing.T) {
	var percents, advices []int
	x := &tuner{
		garbage: &garbage{percent: usualPercent, set: func(percent int) int { percents = append(percents, percent); return 0 }},
		pages:   &pages{maps: ownMaps, advise: func(_ region, how int) error { advices = append(advices, how); return nil }},
	}
	m := read()
	if m.mapped < m.live || m.mapped == 0 {
		t.Fatalf("read %+v", m)
	}
	for _, c := range []struct {
		since  time.Duration
		advice int
	}{{restful, 0}, {restful - 1, collapse}, {restful - 1, 0}, {restful, noHugePages}, {restful, 0}, {1, collapse}} {
		percents, advices = nil, nil
		x.heard(x.last.Add(c.since), m)
		if n := len(advices); (n > 0) != (c.advice > 0) || n > 0 && advices[n-1] != c.advice {
			t.Errorf("%v after the one before: %v is advised, want %d", c.since, advices, c.advice)
		}
		if len(percents) != min(len(advices), 1) {
			t.Errorf("%v after the one before: %v is set", c.since, percents)
		}
	}
}
