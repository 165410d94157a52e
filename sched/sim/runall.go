package sim

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Task is one run to make: a workload, generated or given, under parameters.
type Task struct {
	Source *Source // of the workload
	Seed   uint64
	Params Params
	Bound  bool // the result's lower bound is wanted, which may take longer than the run
}

// Progress is told after each task how many of how many are done. It is called
// from several goroutines, one at a time.
type Progress func(done, total int)

// RunAll makes every run, several at a time, and returns the results in the
// order of the tasks whatever order they ended in. It stops at the first error
// or when ctx is done. parallel of 0 or less takes the number of processors.
func RunAll(ctx context.Context, tasks []Task, parallel int, progress Progress) ([]*Result, error) {
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var (
		results = make([]*Result, len(tasks))
		errs    = make([]error, len(tasks))
		next    atomic.Int64
		mu      sync.Mutex // guards done and calls of progress
		done    int
		wg      sync.WaitGroup
	)
	work := func() {
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= len(tasks) {
				return
			}
			results[i], errs[i] = tasks[i].run()
			if errs[i] != nil {
				stop()
				return
			}
			mu.Lock()
			done++
			if progress != nil {
				progress(done, len(tasks))
			}
			mu.Unlock()
		}
	}
	for range min(parallel, len(tasks)) {
		wg.Go(work)
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("run %d of %d: %w", i+1, len(tasks), err)
		}
	}
	if err := context.Cause(ctx); err != nil && done < len(tasks) {
		return nil, err
	}
	return results, nil
}

func (t Task) run() (*Result, error) {
	w, err := t.Source.Workload(t.Seed)
	if err != nil {
		return nil, err
	}
	r, err := simulate(w, t.Params)
	if err != nil {
		return nil, err
	}
	r.least = func() float64 { return t.Source.lowerBound(t.Seed, t.Params) }
	if t.Bound {
		r.bounded()
	}
	return r, nil
}

// Spread is a figure over seeds.
type Spread struct {
	Median float64 `json:"median"`
	Q10    float64 `json:"q10"`
	Q90    float64 `json:"q90"`
	N      int     `json:"n"`
}

// SpreadOf summarizes values, which it sorts in place.
func SpreadOf(v []float64) Spread {
	l := summarize(v)
	return Spread{Median: l.P50, Q10: quantile(v, 0.1), Q90: quantile(v, 0.9), N: len(v)}
}
