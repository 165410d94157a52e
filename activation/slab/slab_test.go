package slab

import (
	"runtime"
	"testing"
)

type value struct {
	n int
	_ [40]byte
}

func TestPlacesAreUsedAgain(t *testing.T) {
	var s Slab[value]
	taken := map[*value]bool{}
	for i := range 3000 {
		p := s.Take()
		if taken[p] {
			t.Fatal("a place was given twice")
		}
		if p.n != 0 {
			t.Fatalf("a new value is %+v", *p)
		}
		p.n, taken[p] = i+1, true
	}
	for p := range taken {
		s.Give(p)
	}
	for range 3000 {
		if p := s.Take(); !taken[p] || p.n != 0 {
			t.Fatalf("a new place, or an old value: %+v", *p)
		}
	}
}

// TestNothingIsRoundedUp: values take little more than their size.
func TestNothingIsRoundedUp(t *testing.T) {
	const n, size = 100_000, 48
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var s Slab[value]
	for range n {
		s.Take()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := float64(after.HeapAlloc-before.HeapAlloc) / n; each > size+5 {
		t.Errorf("%.1f bytes for each of %d", each, size)
	}
	runtime.KeepAlive(&s)
}
