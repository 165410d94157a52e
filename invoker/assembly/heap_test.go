package assembly

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	for _, c := range []struct {
		since time.Duration
		live  uint64
		want  int
	}{
		{time.Second, 8 << 20, 300},
		{time.Second, 9 << 20, 250},
		{time.Second, 1 << 20, 400},
		{time.Second, 0, 400},
		{time.Second, 40 << 20, 100},
		{time.Second, 1 << 40, 100},
		{2 * time.Minute, 8 << 20, 100},
	} {
		if got := percentFor(c.since, c.live); got != c.want {
			t.Errorf("%s after the one before, %d MiB held: %d %%, want %d", c.since, c.live>>20, got, c.want)
		}
	}
}

// TestCollectionsAreHeardOf, each, and what follows from one is set.
func TestCollectionsAreHeardOf(t *testing.T) {
	set := make(chan int)
	c := &collections{last: time.Now(), set: func(percent int) int {
		select {
		case set <- percent:
		case <-t.Context().Done():
		}
		return 0
	}}
	c.await()
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

func TestOnlyNewsAreSet(t *testing.T) {
	var set []int
	c := &collections{percent: usualPercent, set: func(percent int) int { set = append(set, percent); return 0 }}
	c.last = time.Now()
	for _, since := range []time.Duration{time.Second, time.Second, 2 * restful, 2 * restful, time.Second} {
		c.heard(c.last.Add(since), 8<<20)
	}
	if want := []int{300, 100, 300}; !slices.Equal(set, want) {
		t.Errorf("set %v, want %v", set, want)
	}
}
