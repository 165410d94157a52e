package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestMemoryLimit: the limit of the settings applies, unless GOMEMLIMIT is set and not
// empty.
func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	limitMemory([]string{"GOMEMLIMIT=1GiB"}, 5<<30)
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("with GOMEMLIMIT in the environment the limit is %d, want %d", got, before)
	}
	limitMemory([]string{"GOMEMLIMIT="}, 5<<30)
	if got := debug.SetMemoryLimit(-1); got != 5<<30 {
		t.Errorf("with an empty GOMEMLIMIT the limit is %d", got)
	}
}

func TestProcessors(t *testing.T) {
	for all, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 8: 4, 64: 4} {
		if got := processors(all); got != want {
			t.Errorf("of %d processors the invoker takes %d, want %d", all, got, want)
		}
	}
}

// TestProcessorsOfTheEnvironment: GOMAXPROCS overrides the invoker's choice, unless it
// is empty.
func TestProcessorsOfTheEnvironment(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	runtime.GOMAXPROCS(3)
	limitProcessors([]string{"PATH=/bin", "GOMAXPROCS=3"})
	if got := runtime.GOMAXPROCS(0); got != 3 {
		t.Errorf("with GOMAXPROCS in the environment there are %d processors, want 3", got)
	}
	limitProcessors([]string{"PATH=/bin", "GOMAXPROCS="})
	if got := runtime.GOMAXPROCS(0); got != 1 {
		t.Errorf("with an empty GOMAXPROCS there are %d of 3 processors, want 1", got)
	}
}
