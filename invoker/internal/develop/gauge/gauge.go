// Package gauge measures the processor time and the memory of another process, and
// compares two processes that do the same work in turns. Only benchmarks use it.
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

// CPU returns the processor time that the threads of a process have used.
func CPU(b testing.TB, pid int) time.Duration {
	b.Helper()
	const ofProcess = 2 // the clock of the time of all threads (clock_getcpuclockid(3))
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|ofProcess), &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// Resident returns the resident memory of a process in MB.
func Resident(b testing.TB, pid int) float64 {
	b.Helper()
	kb, ok := status(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
	if !ok {
		b.Fatalf("process %d has no VmRSS", pid)
	}
	return float64(kb) / 1024
}

// contextSwitches returns the number of voluntary context switches of a process's threads.
func contextSwitches(b testing.TB, pid int) (n int) {
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

// status returns the number that follows the key in a status file of /proc, and
// whether there is one.
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

// Side is one of the processes that are compared.
type Side struct {
	Name   string          // prefix of the names of its metrics
	PID    int             // the process
	Rounds []time.Duration // the processor time of each turn
	Walls  []time.Duration // the elapsed time of each turn

	switches, runs int
}

// Round measures the process during one turn. work must perform the given number of
// runs.
func (s *Side) Round(b testing.TB, runs int, work func()) {
	cpu, switches, began := CPU(b, s.PID), contextSwitches(b, s.PID), time.Now()
	work()
	s.Walls = append(s.Walls, time.Since(began))
	s.Rounds = append(s.Rounds, CPU(b, s.PID)-cpu)
	s.switches += contextSwitches(b, s.PID) - switches
	s.runs += runs
}

// Each returns the mean processor time of a run in us.
func (s *Side) Each() float64 { return s.each(s.Rounds) }

func (s *Side) each(rounds []time.Duration) (us float64) {
	for _, t := range rounds {
		us += float64(t.Nanoseconds()) / 1000
	}
	return us / float64(s.runs)
}

// Report adds the mean costs of a run to the metrics of the benchmark.
func (s *Side) Report(b *testing.B) {
	b.ReportMetric(s.Each(), s.Name+"cpu-us/run")
	b.ReportMetric(s.each(s.Walls), s.Name+"wall-us/run")
	b.ReportMetric(float64(s.switches)/float64(s.runs), s.Name+"switches/run")
}

// Turns gives each side its turns until the benchmark ends, so that each comes first as
// often, and reports the costs. turn performs the given number of runs on a side. If there
// is a side "other-", the ratio of the first side's costs to its costs is reported, too.
func Turns(b *testing.B, sides []*Side, runs int, turn func(side int)) {
	for round := 0; b.Loop(); round++ {
		for i := range sides {
			i = (i + round) % len(sides)
			sides[i].Round(b, runs, func() { turn(i) })
		}
	}
	for _, s := range sides {
		s.Report(b)
		if s.Name == "other-" {
			reportRatio(b, sides[0], s)
		}
	}
}

// reportRatio adds the ratio of our cost to the other's, for processor time and for
// elapsed time, each with its confidence interval (see Interval).
func reportRatio(b *testing.B, ours, other *Side) {
	for _, of := range []struct {
		name        string
		ours, other []time.Duration
	}{{"ratio", ours.Rounds, other.Rounds}, {"wall-ratio", ours.Walls, other.Walls}} {
		b.ReportMetric(ours.each(of.ours)/other.each(of.other), of.name)
		low, high := Interval(of.ours, of.other)
		b.ReportMetric(low, of.name+"-low")
		b.ReportMetric(high, of.name+"-high")
	}
}

// Interval returns the 95 % confidence interval of the ratio of a to b: two standard
// errors around the mean of the logarithms of the turns' ratios. It needs at least
// two turns.
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
