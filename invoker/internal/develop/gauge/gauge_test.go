package gauge

import (
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestInterval(t *testing.T) {
	low, high := Interval([]time.Duration{10, 20, 30}, []time.Duration{20, 40, 60})
	check.AtMost(t, math.Abs(low-0.5), 1e-9, "always half")
	check.AtMost(t, math.Abs(high-0.5), 1e-9, "always half")
	low, high = Interval([]time.Duration{10, 40}, []time.Duration{20, 20})
	check.AtMost(t, low, 0.5, "half and twice")
	check.AtLeast(t, high, 2, "half and twice")
}

func TestOwnProcess(t *testing.T) {
	pid := os.Getpid()
	before, switches := CPU(t, pid), contextSwitches(t, pid)
	for CPU(t, pid) == before { // it computes meanwhile
		runtime.Gosched()
	}
	check.AtLeast(t, Resident(t, pid), 1)
	for contextSwitches(t, pid) <= switches { // it waits for a timer, and so gives its core back
		<-time.After(time.Millisecond)
	}
}
