package goheap

import (
	"slices"
	"testing"
)

func TestPercentFor(t *testing.T) {
	for _, c := range []struct {
		rests bool
		live  uint64
		want  int
	}{
		{false, 8 << 20, 300},
		{false, 9 << 20, 250},
		{false, 1 << 20, 400},
		{false, 0, 400},
		{false, 40 << 20, 100},
		{false, 1 << 40, 100},
		{true, 8 << 20, 100},
	} {
		if got := percentFor(c.rests, c.live); got != c.want {
			t.Errorf("at rest %v, %d MiB held: %d %%, want %d", c.rests, c.live>>20, got, c.want)
		}
	}
}

func TestOnlyNewsAreSet(t *testing.T) {
	var set []int
	g := &garbage{percent: usualPercent, set: func(percent int) int { set = append(set, percent); return 0 }}
	for _, rests := range []bool{false, false, true, true, false} {
		g.suit(rests, 8<<20)
	}
	if want := []int{300, 100, 300}; !slices.Equal(set, want) {
		t.Errorf("set %v, want %v", set, want)
	}
}
