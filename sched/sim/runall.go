package sim

import (
	"context"
	"fmt"
	"runtime"
	"sync"
)

// Task is one run to make: a workload, generated or given, under parameters.
type Task struct {
	Source *Source // of the workload
	Seed   uint64
	Params Params
}

// Progress receives after each task how many of how many are done. It is called
// from several goroutines, one at a time.
type Progress func(done, total int)

// RunAll makes every run, several at a time, and returns the results in the
// order of the tasks whatever order they ended in. It stops at the first error
// or when ctx is done. parallel of 0 or less takes the number of processors.
func RunAll(ctx context.Context, tasks []Task, parallel int, progress Progress) ([]*Result, error) {
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		results = make([]*Result, len(tasks))
		next    = make(chan int)
		mu      sync.Mutex // guards done and calls of progress
		done    int
		wg      sync.WaitGroup
	)
	for range min(parallel, len(tasks)) {
		wg.Go(func() {
			for i := range next {
				r, err := tasks[i].run()
				if err != nil {
					stop(fmt.Errorf("run %d of %d: %w", i+1, len(tasks), err))
				}
				mu.Lock()
				results[i] = r
				done++
				if progress != nil {
					progress(done, len(tasks))
				}
				mu.Unlock()
			}
		})
	}
	for i := 0; i < len(tasks) && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return results, nil
}

func (t Task) run() (*Result, error) {
	w, err := t.Source.Workload(t.Seed)
	if err != nil {
		return nil, err
	}
	return Run(w, t.Params)
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

// String writes the median with the quantiles.
func (s Spread) String() string { return fmt.Sprintf("%.2f [%.2f %.2f]", s.Median, s.Q10, s.Q90) }
