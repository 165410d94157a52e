package gauge

import (
	"math"
	"os"
	"runtime"
	"testing"
	"time"
)

func TestInterval(t *testing.T) {
	low, high := Interval([]time.Duration{10, 20, 30}, []time.Duration{20, 40, 60})
	if math.Abs(low-0.5) > 1e-9 || math.Abs(high-0.5) > 1e-9 {
		t.Errorf("always half: %v to %v", low, high)
	}
	if low, high = Interval([]time.Duration{10, 40}, []time.Duration{20, 20}); low > 0.5 || high < 2 {
		t.Errorf("half and twice: %v to %v", low, high)
	}
}

func TestOwnProcess(t *testing.T) {
	pid := os.Getpid()
	before, switches := CPU(t, pid), Switches(t, pid)
	for CPU(t, pid) == before { // it computes meanwhile
		runtime.Gosched()
	}
	if Resident(t, pid) < 1 {
		t.Error("a process without memory")
	}
	for Switches(t, pid) <= switches { // it waits for a timer, and so gives its core back
		<-time.After(time.Millisecond)
	}
}
