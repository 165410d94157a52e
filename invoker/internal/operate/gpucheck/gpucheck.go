// Package gpucheck is an operator's acceptance test of a GPU host: it tries the
// shim and what stands on it on the GPU of this machine, measures it, and writes
// the results. It needs no Docker and no network, and leaves the settings of the
// GPU as they are. On the fake driver it does the same, and labels every
// result as such.
//
// It decides nothing for the invoker and is no part of it. Programs on the GPU are
// processes of their own (shim/check); here are only the steps and their judgement.
//
// A step reads as a script and ends at its first error, as a test does: see trial.
// Run returns when all goroutines and programs have ended.
package gpucheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Settings are what is checked and how large. A number that is 0 takes the default, and
// sizes are cut to what the card and the host have free.
type Settings struct {
	Shim          string   // directory with libgpuwhisk.so and check/, as make shim and make -C shim/check leave it
	FakeDriver    string   // directory of a fake libcuda.so.1; empty: the machine's driver
	NVML          string   // path of libnvidia-ml.so.1; empty: the loader finds it
	Python        string   // runs the workers on frameworks
	Self, Version string   // path of this program, and its version for the report
	Steps         []string // names of those to run; empty: all

	Swap       int64         // of the block that is swapped
	Set        int64         // of one container's working set
	Containers int           // with such a set
	Rounds     int           // of each measurement
	RunTime    time.Duration // of one run of a container whose memory is on the device
	// HostMemory is what the host has free for memory that leaves the card; 0
	// asks the kernel, which does not count memory that a virtual machine
	// gets only as it uses it.
	HostMemory int64
	// Reclaim lets a program ask for more plain memory than the card reports as
	// free, where memory that was moved out still counts as used.
	Reclaim bool
	Limit   time.Duration // of the whole check

	Goals    *Goals   // nil: those of the driver
	Environ  []string // of the programs
	Progress io.Writer
	Log      *slog.Logger // gets what goes wrong beside the results

	// frameworks are tried on the fake driver as well: tests have workers that
	// it serves.
	frameworks bool
}

// Defaults are the settings of a check of a card.
func Defaults() Settings {
	return Settings{
		Swap: 8 << 30, Set: 1536 << 20, Containers: 16, Rounds: 15, RunTime: 400 * time.Millisecond,
		Limit: 8 * time.Minute, Python: "python3",
	}
}

func (s Settings) withDefaults() Settings {
	d, goals := Defaults(), RealGoals()
	if s.FakeDriver != "" {
		d.Swap, d.Set, d.Rounds, d.RunTime = 32<<20, 2<<20, 3, 5*time.Millisecond
		// The fake driver's speed is this machine's, and no measure of a card. Only
		// what is slow beyond reason falls below.
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
	Swap     float64 `json:"swap"`     // the least share of the bandwidth of pinned copies
	Overhead float64 `json:"overhead"` // the most that the shim may add to a workload
	Prefetch float64 `json:"prefetch"` // the most that a run after a prefetch may take longer than one that was never swapped
	Left     float64 `json:"left"`     // the least share of an evicted block that must be free afterwards
}

// RealGoals are what the design promises on a card.
func RealGoals() Goals { return Goals{Swap: 0.9, Overhead: 0.01, Prefetch: 0.05, Left: 0.95} }

// ErrCannotRun means that there is nothing to check here, or nothing to check
// it with.
var ErrCannotRun = errors.New("cannot run")

// step is one part of the check. shows is what it looks at and by what numbers, limit
// the longest time that it may take, run tries, measures and judges.
type step struct {
	name, title, shows string
	limit              time.Duration
	run                func(*trial)
}

// steps in the order of running: what is short and finds most comes first.
var steps = []step{
	{"pointers", "Both ways of looking a function up",
		"the pointer of each line of shim/abi.def by dlsym and by cuGetProcAddress, without and under the shim; functions past the shim, and ABIs of hooked functions that are newer than the table",
		30 * time.Second, checkPointers},
	{"swap", "A block swapped out and in",
		"a block of up to 8 GB: wrong words, GB/s each way, the first time and later, against copies of pinned memory and the driver's moves without the shim, what NVML lists of it, the share that is free afterwards by cuMemGetInfo and NVML",
		75 * time.Second, checkSwap},
	{"pair", "Two processes on one device",
		"ms of a run of each while the other's memory goes and comes, then of both at once; wrong words",
		45 * time.Second, func(t *trial) { checkPair(t) }},
	{"mps", "Two processes on one device by MPS",
		"the same as clients of an MPS daemon that runs already, and a limit of memory",
		60 * time.Second, checkMPS},
	{"prefetch", "Prefetch against plain faulting",
		"ms of containers in turns with two thirds of the memory that they need (the paper's figure): never swapped, prefetched ahead, faulted in",
		150 * time.Second, checkPrefetch},
	{"overhead", "What the shim costs a workload",
		"ms of FFT, GEMM and a loop of small kernels without and under the shim in turns, by kernels of the check and of the first framework that is there",
		120 * time.Second, checkOverhead},
	{"frameworks", "Swapping under frameworks",
		"an array in PyTorch (three allocators), CuPy (two pools) and JAX: wrong words, also below a recorded graph, GB/s, how much of its memory does not move, and the MiB that each has beside its memory by NVML",
		150 * time.Second, checkFrameworks},
	{"end-to-end", "Functions through gpuwhisk standalone",
		"two Python functions with kernels of their own in process mode: right results, and ms of each phase by their records",
		60 * time.Second, checkEndToEnd},
}

// Names are the steps' names, in order.
func Names() (out []string) {
	for _, s := range steps {
		out = append(out, s.name)
	}
	return out
}

// Help is a line for each step.
func Help() string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "  %-11s %s (at most %v)\n", s.name, s.shows, s.limit)
	}
	return b.String()
}

// Run carries out the check. The error wraps ErrCannotRun, or ctx's end; what
// goes wrong within a step is in the report.
func Run(ctx context.Context, s Settings) (*Report, error) {
	s = s.withDefaults()
	for _, name := range s.Steps {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("steps %v: known are %v: %w", s.Steps, Names(), ErrCannotRun)
		}
	}
	f, err := openFixture(ctx, s)
	if err != nil {
		return nil, err
	}
	defer f.close()
	var loading sync.WaitGroup
	defer loading.Wait()
	ctx, cancel := context.WithTimeout(ctx, s.Limit)
	defer cancel()
	if f.hasFrameworks() {
		loading.Go(func() { f.preload(ctx) })
	}
	r := f.report()
	for _, st := range steps {
		if len(s.Steps) == 0 || slices.Contains(s.Steps, st.name) {
			r.Steps = append(r.Steps, f.step(ctx, st))
		}
	}
	r.Seconds = time.Since(r.Started).Seconds()
	r.judge()
	return r, nil
}

// trial is one step under way.
type trial struct {
	*fixture
	*Result
	ctx context.Context

	mu      sync.Mutex
	started []*program
}

// step runs one step within its bound and what is left of the whole time, and ends the
// programs that it started.
func (f *fixture) step(ctx context.Context, st step) Result {
	r := Result{Name: st.name, Title: st.title, Shows: st.shows}
	fmt.Fprintf(f.s.Progress, "%-10s %s ...\n", st.name, st.title)
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, st.limit)
	defer cancel()
	t := &trial{fixture: f, Result: &r, ctx: ctx}
	err := catch(func() {
		require(ctx.Err())
		st.run(t)
	})
	// Programs are killed at the end of the time, and what they leave undone gives other errors.
	if why := ctx.Err(); err != nil && why != nil && !errors.Is(err, why) {
		err = fmt.Errorf("%w: %w", why, err)
	}
	for _, p := range t.started {
		p.end(0)
	}
	r.Seconds = time.Since(began).Seconds()
	r.conclude(err)
	fmt.Fprintf(f.s.Progress, "%-10s %s in %.1f s%s\n", st.name, r.Verdict, r.Seconds, because(r.Reason))
	return r
}

// failure carries an error out of a step.
type failure struct{ err error }

// require ends the step if there is an error.
func require(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// fail ends the step.
func fail(format string, args ...any) { require(fmt.Errorf(format, args...)) }

// value is the value of a call that must not fail.
func value[T any](v T, err error) T {
	require(err)
	return v
}

// catch returns the error with which a function ended the step.
func catch(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// attempt runs a part of a step, and returns the error with which it ended.
func attempt(part string, f func()) error {
	if err := catch(f); err != nil {
		return fmt.Errorf("%s: %w", part, err)
	}
	return nil
}

// together runs functions at the same time.
func together(functions ...func()) {
	parallel(len(functions), len(functions), func(i int) { functions[i]() })
}

// parallel runs n functions, at most so many at a time, and ends the step with the
// first error when all have returned.
func parallel(n, atOnce int, f func(i int)) {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error { return catch(func() { f(i) }) })
	}
	require(g.Wait())
}
