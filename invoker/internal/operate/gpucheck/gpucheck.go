// Package gpucheck is an operator's acceptance test of a GPU host. It tries and measures
// the shim on the GPU of this machine and writes a report. It needs no Docker and no
// network and changes no setting of the GPU. It also runs on the fake driver, and then
// every result is labelled as fake.
//
// The invoker does not use this package. The programs on the GPU are processes of their own
// (shim/check). The steps are data: steps.yaml has the programs of each step, scripts with
// orders for them, and judgements of their answers. This package carries the scripts out.
//
// Run returns when all goroutines and programs have ended.
package gpucheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Settings are the parts and sizes of a check. A number that is 0 takes the default. Sizes
// are cut to the free memory of card and host.
type Settings struct {
	Shim          string   // directory of libgpuwhisk.so and check/, as make shim and make -C shim/check leave it
	FakeDriver    string   // directory of a fake libcuda.so.1; empty: the machine's driver
	NVML          string   // path of libnvidia-ml.so.1; empty: the loader finds it
	Python        string   // runs the workers on frameworks
	Self, Version string   // path of this program, and its version for the report
	Only, Skip    []string // names of the steps to run, empty for all; names of the steps to leave out

	Swap       int64         // bytes of the block that is swapped
	Set        int64         // bytes of one container's working set
	Containers int           // number of containers with such a set
	Rounds     int           // repetitions of each measurement
	RunTime    time.Duration // of one run of a container whose memory is on the device
	// HostMemory is the host's free memory for blocks that leave the card. 0 asks the
	// kernel, which does not count memory that a virtual machine gets only as it uses it.
	HostMemory int64
	// Reclaim lets programs fill the card for a moment: to get the memory that was moved
	// out and still counts as used, and to put two functions under pressure.
	Reclaim bool
	Limit   time.Duration // of the whole check
	// Save is called with the report after each step, so that an end of the machine's time
	// loses only the step under way.
	Save func(*Report)

	Goals    *Goals   // nil: the driver's goals
	Environ  []string // of the programs
	Progress io.Writer
	Log      *slog.Logger // gets errors that are not results

	// frameworks runs the steps on frameworks on the fake driver as well: tests have
	// workers that the fake driver serves.
	frameworks bool
}

// Defaults are the settings of a check of a card.
func Defaults() Settings {
	return Settings{
		Swap: 8 << 30, Set: 1536 << 20, Containers: 16, Rounds: 15, RunTime: 400 * time.Millisecond,
		Limit: 9 * time.Minute, Python: "python3",
	}
}

func (s Settings) withDefaults() Settings {
	d, goals := Defaults(), RealGoals()
	if s.FakeDriver != "" {
		d.Swap, d.Set, d.Rounds, d.RunTime = 32<<20, 2<<20, 3, 5*time.Millisecond
		// The fake driver is as fast as this machine, which says nothing about a card.
		// Only absurd slowness is below these goals.
		goals = Goals{Swap: 0.0001, Overhead: 1000, Prefetch: 1000, Left: 0.95}
		s.Reclaim = true // no other program uses that device
	}
	s.Swap, s.Set, s.Rounds, s.RunTime = cmp.Or(s.Swap, d.Swap), cmp.Or(s.Set, d.Set), cmp.Or(s.Rounds, d.Rounds), cmp.Or(s.RunTime, d.RunTime)
	s.Containers, s.Limit = cmp.Or(s.Containers, d.Containers), cmp.Or(s.Limit, d.Limit)
	s.Goals, s.Python = cmp.Or(s.Goals, &goals), cmp.Or(s.Python, d.Python)
	s.Progress, s.Log = cmp.Or(s.Progress, io.Discard), cmp.Or(s.Log, slog.New(slog.DiscardHandler))
	return s
}

// Goals are the bounds between well and below.
type Goals struct {
	Swap     float64 `json:"swap"`     // least share of the bandwidth of pinned copies
	Overhead float64 `json:"overhead"` // most that the shim may add to a workload
	Prefetch float64 `json:"prefetch"` // most that a run after a prefetch may be longer than an unswapped run
	Left     float64 `json:"left"`     // least share of an evicted block that must be free afterwards
}

// RealGoals are the goals for a card.
func RealGoals() Goals { return Goals{Swap: 0.9, Overhead: 0.01, Prefetch: 0.05, Left: 0.95} }

// ErrCannotRun means that the device or a part of the check is missing.
var ErrCannotRun = errors.New("cannot run")

// Run carries out the check. An error that it returns wraps ErrCannotRun, or the check could
// not be prepared. Errors within a step are in the report. When ctx ends, the steps that are
// left fail.
func Run(ctx context.Context, s Settings) (*Report, error) {
	s = s.withDefaults()
	of, budget, err := s.chosen()
	if err != nil {
		return nil, err
	}
	f, err := openFixture(ctx, s)
	if err != nil {
		return nil, err
	}
	defer f.close()
	var loading sync.WaitGroup
	defer loading.Wait()
	ctx, cancel := context.WithTimeoutCause(ctx, s.Limit, errTime)
	defer cancel()
	// The frameworks' files are then in the page cache when a step needs them. A step reports
	// the error.
	loading.Go(func() { _, _ = f.python(ctx, "import "+strings.Join(f.modules, ", ")) })
	end := f.began.Add(s.Limit)
	fmt.Fprintf(s.Progress, "%d steps, at most %v (budgets of %v)\n", len(of), s.Limit, budget)
	r := f.report()
	for _, st := range of {
		budget -= st.Budget
		// The later steps keep their budgets, in a short check their share.
		kept := min(budget, time.Duration(share(float64(budget), float64(budget+st.Budget))*float64(time.Until(end))))
		r.Steps = append(r.Steps, f.step(ctx, st, end.Add(-kept)))
		r.Seconds = time.Since(r.Started).Seconds()
		r.judge()
		if s.Save != nil {
			s.Save(r)
		}
	}
	return r, nil
}

// step runs one step until its end and ends the programs that it started.
func (f *fixture) step(ctx context.Context, st step, end time.Time) Result {
	r := Result{Name: st.Name, Title: st.Title, Shows: st.Shows}
	fmt.Fprintf(f.s.Progress, "%-10s %s ...\n", st.Name, st.Title)
	began := time.Now()
	ctx, cancel := context.WithDeadlineCause(ctx, end, errTime)
	defer cancel()
	err := ctx.Err()
	if err == nil {
		err = f.play(ctx, st, &r)
	}
	// At the end of the time, or after an interrupt, programs are ended, which causes other
	// errors.
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", pick(errors.Is(context.Cause(ctx), errTime), errTime, errInterrupted), err)
	}
	if err != nil && !errors.As(err, new(errSkip)) {
		err = fmt.Errorf("step %s: %w (--only %[1]s repeats it, --skip %[1]s leaves it out)", st.Name, err)
	}
	r.Seconds = time.Since(began).Seconds()
	r.conclude(err)
	fmt.Fprintf(f.s.Progress, "%-10s %s in %.1f s: %s\n", st.Name, r.Verdict, r.Seconds, cmp.Or(r.Reason, strings.Join(r.Says, " ")))
	return r
}

// The causes of the end of a step that had not ended by itself.
var (
	errTime        = errors.New("out of time (--limit gives more)")
	errInterrupted = errors.New("interrupted")
)
