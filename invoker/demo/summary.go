package demo

import (
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// line is what became of one function, or of all GPU functions, under one
// policy.
type line struct {
	runs   int
	errors int
	starts map[string]int
	mean   time.Duration // latency as callers saw it
	p95    time.Duration
	// slowdown is the mean latency over what a run alone takes; 0: unknown.
	slowdown float64
}

// summarise gives a line for each function and one for all GPU functions.
func summarise(functions []Function, r round) (lines []line, gpus line) {
	lines = make([]line, len(functions))
	latencies, every := make([][]time.Duration, len(functions)), []time.Duration(nil)
	gpus.starts = map[string]int{}
	for i := range lines {
		lines[i].starts = map[string]int{}
	}
	for _, c := range r.calls {
		latencies[c.function] = append(latencies[c.function], c.latency)
		lines[c.function].count(c, r.records[c.id])
		if functions[c.function].GPU != nil {
			every = append(every, c.latency)
			gpus.count(c, r.records[c.id])
		}
	}
	for i, f := range functions {
		lines[i].times(latencies[i])
		if f.Warm > 0 {
			lines[i].slowdown = float64(lines[i].mean) / float64(f.Warm)
			gpus.slowdown = max(gpus.slowdown, lines[i].slowdown)
		}
	}
	gpus.times(every)
	return lines, gpus
}

// count takes in a call and its record. A start counts as cold whether a
// container was made for it because there was none or because all were busy.
func (l *line) count(c call, r *activation.Record) {
	l.runs++
	if c.err != nil {
		l.errors++
	}
	if r == nil {
		return
	}
	if raw, ok := r.Annotations.Get("gpu"); ok {
		if g, err := decodeGPU(raw); err == nil {
			if g.Start == "busy-cold" {
				g.Start = "cold"
			}
			l.starts[g.Start]++
		}
	}
}

func (l *line) times(latencies []time.Duration) {
	if len(latencies) == 0 {
		return
	}
	slices.Sort(latencies)
	var sum time.Duration
	for _, t := range latencies {
		sum += t
	}
	l.mean, l.p95 = sum/time.Duration(len(latencies)), percentile(latencies, 0.95)
}

// jain is Jain's index of fairness: 1 when all values are alike, 1/n when one
// has everything; 0 without values.
func jain(values []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(values)) * squares)
}

// fairness is Jain's index of the GPU functions' slowdowns: whether each waits
// in proportion to its own work. Functions that were not called do not count.
func fairness(lines []line) float64 {
	var slowdowns []float64
	for _, l := range lines {
		if l.slowdown > 0 {
			slowdowns = append(slowdowns, l.slowdown)
		}
	}
	return jain(slowdowns)
}
