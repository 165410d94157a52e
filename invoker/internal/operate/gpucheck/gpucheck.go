// Package gpucheck is an operator's acceptance test of a GPU host. It tries and measures
// the shim on the GPU of this machine and writes a report. It needs no Docker and no
// network and changes no setting of the GPU. It also runs on the fake driver, and then
// every result is labelled as fake.
//
// The invoker does not use this package. The programs on the GPU are processes of their own
// (shim/check); this package has the table of steps that drive and judge them. A step reads
// as a script and ends at its first error, as a test does.
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
	"slices"
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
	Steps         []string // names of the steps to run; empty: all

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
		Limit: 10 * time.Minute, Python: "python3",
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

// step is one part of the check. shows describes its measurements, limit is the longest
// time that it may take, and run tries, measures and judges.
type step struct {
	name, title, shows string
	limit              time.Duration
	run                func(*trial)
}

// steps in the order of running: short steps that find most come first.
var steps = []step{
	{"pointers", "Both ways of looking a function up",
		"the pointer of each line of shim/abi.def by dlsym and by cuGetProcAddress, without and under the shim; functions past the shim, and ABIs of hooked functions that are newer than the table",
		30 * time.Second, checkPointers},
	{"swap", "A block swapped out and in",
		"a block of up to 8 GB: wrong words, GB/s each way, the first time and later, against copies of pinned memory and the driver's moves without the shim, the share that is free afterwards by cuMemGetInfo and NVML",
		75 * time.Second, checkSwap},
	{"fresh", "First touch of fresh managed memory",
		"GB/s of a kernel that writes a fresh block, and writes it again, with plain memory and with managed memory under the shim; GB/s of the block's first way out and of a later one; wrong words",
		45 * time.Second, checkFresh},
	{"large", "A block above 8 GiB",
		"a block of 12 GiB that goes out and in: wrong words, GB/s each way against copies of pinned memory",
		90 * time.Second, checkLarge},
	{"graph", "A graph across a move",
		"a graph that a C program recorded before its memory moved: wrong words after replays that fault the memory in, and after a prefetch",
		30 * time.Second, checkGraph},
	{"vmm", "Mapped handles beside managed memory",
		"a block that moves as managed memory, and as mapped handles (whisk.gpu.memory=vmm): wrong words, also below a recorded graph, GB/s each way against copies of pinned memory, the share that is free afterwards",
		90 * time.Second, checkVMM},
	{"pair", "Two processes on one device",
		"ms of a run of each while the other's memory goes and comes, then of both at once; wrong words",
		45 * time.Second, func(t *trial) { checkPair(t) }},
	{"mps", "Two processes on one device by MPS",
		"the same as clients of an MPS daemon that runs already, and a limit of memory",
		60 * time.Second, checkMPS},
	{"prefetch", "Prefetch against plain faulting",
		"ms of containers in turns with two thirds of the memory that they need (the paper's figure): never swapped, prefetched ahead, faulted in",
		150 * time.Second, checkPrefetch},
	{"overhead", "Overhead of the shim",
		"ms of FFT, GEMM and a loop of small kernels without and under the shim in turns, by kernels of the check and of the first framework that is there",
		120 * time.Second, checkOverhead},
	{"frameworks", "Swapping under frameworks",
		"an array in PyTorch (three allocators), CuPy (two pools) and JAX: wrong words, also below a recorded graph, GB/s, how much of its memory does not move, and the MiB that each has beside its memory by NVML",
		150 * time.Second, checkFrameworks},
	{"cgroups", "NVML, control groups and managed memory",
		"whether NVML lists managed memory for its process; whether the memory limits of control groups (NVML 13.4) count managed memory and hold",
		45 * time.Second, checkCgroups},
	{"end-to-end", "Functions through gpuwhisk standalone",
		"two Python functions with kernels of their own in process mode: right results, and ms of each phase by their records",
		60 * time.Second, func(t *trial) { checkFunctions(t, false) }},
	{"pressure", "Functions that together exceed the card",
		"the same where the card has room for one and a half functions, so that the invoker must move their memory",
		90 * time.Second, func(t *trial) { checkFunctions(t, true) }},
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

// Run carries out the check. Its error wraps ErrCannotRun or ctx's error. Errors within a
// step are in the report.
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

// step runs one step within its limit and ends the programs that it started.
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
	// At the end of the time programs are killed, which causes other errors.
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
