// Package gauge tells what another process takes of the machine, and how two
// that do the same work in turns compare. It is for benchmarks alone.
package gauge

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the time that the threads of a process have spent on a core.
func CPU(b testing.TB, pid int) time.Duration {
	b.Helper()
	const ofProcess = 2 // the clock that counts what all threads have run (clock_getcpuclockid(3))
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|ofProcess), &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// Resident is the memory of a process that lies in the machine's, in MB.
func Resident(b testing.TB, pid int) float64 {
	b.Helper()
	kb, ok := status(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
	if !ok {
		b.Fatalf("process %d tells no VmRSS", pid)
	}
	return float64(kb) / 1024
}

// Switches is how often the threads of a process gave their core back to wait.
func Switches(b testing.TB, pid int) (n int) {
	b.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, task := range tasks {
		one, _ := status(task, "voluntary_ctxt_switches") // a thread may have ended
		n += one
	}
	return n
}

// status is the number of a line of a status file.
func status(file, key string) (int, bool) {
	text, _ := os.ReadFile(file)
	_, after, _ := strings.Cut(string(text), "\n"+key+":")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0, false
	}
	n, err := strconv.Atoi(fields[0])
	return n, err == nil
}

// Interval is where the ratio of what the turns of one took to those of another
// lies by the spread of the turns, with 95 %: two standard errors about the mean
// of its logarithm. Of one turn it says nothing.
func Interval(a, b []time.Duration) (low, high float64) {
	var sum, squares float64
	n := float64(len(a))
	for i := range a {
		r := math.Log(float64(max(a[i], 1)) / float64(max(b[i], 1)))
		sum += r
		squares += r * r
	}
	mean := sum / n
	spread := 2 * math.Sqrt(max(squares/n-mean*mean, 0)/max(n-1, 1))
	return math.Exp(mean - spread), math.Exp(mean + spread)
}
