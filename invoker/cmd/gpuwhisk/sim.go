package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simCmd groups the simulator's commands.
type simCmd struct {
	Run     simRunCmd     `cmd:"" help:"Simulate one workload under one policy."`
	Compare simCompareCmd `cmd:"" help:"Simulate one workload under every policy, over several seeds."`
	Grid    simGridCmd    `cmd:"" help:"Compare sticky-plus with every policy over a grid of servers and workloads."`
	Sweep   simSweepCmd   `cmd:"" help:"Vary one parameter: T, D, TTL, pool, load, weight and others."`
	Claims  simClaimsCmd  `cmd:"" help:"Reproduce the paper's results, claim by claim, with a verdict on each."`
	Figures simFiguresCmd `cmd:"" help:"Draw the paper's figures again, and those beyond it, as SVG."`
	Replay  simReplayCmd  `cmd:"" help:"Feed what an invoker's GPU lane heard to a lane again and compare its orders."`
}

// Help is the longer text of gpuwhisk sim --help.
func (simCmd) Help() string {
	return `The simulator runs the scheduling and memory code of the invoker itself on simulated
devices. Nothing of it needs a GPU, and the same seed always gives the same numbers.

  gpuwhisk sim run --policy mqfq-sticky
  gpuwhisk sim run --trace t.csv --functions f.csv --policy fcfs --pool 4 --tokens 1 --json
  gpuwhisk sim compare --workload azure --seeds 20
  gpuwhisk sim sweep --over overrun --policies mqfq-sticky,sticky-plus
  gpuwhisk sim claims --seeds 20
  gpuwhisk sim replay lane.log

docs/scheduling.md explains the model and every parameter.`
}

// workloadFlags choose what arrives.
type workloadFlags struct {
	Workload  string        `default:"zipf" enum:"zipf,azure,copies,burst,diurnal,rare,hog,tiny,liar,onoff" group:"Workload" help:"Generated workload: ${enum}."`
	Count     int           `default:"24" group:"Workload" help:"Functions of the zipf class and what builds on it."`
	Load      float64       `default:"0.7" group:"Workload" help:"Share of the server's capacity that is asked for, everything warm. Above 1 it cannot be served."`
	Zipf      float64       `default:"1.5" group:"Workload" help:"Exponent of the popularity."`
	TraceID   int           `default:"4" group:"Workload" help:"Which of the nine azure samples, 0 to 8; 4 is the medium one."`
	WarmShare float64       `default:"0.55" group:"Workload" help:"Share of an azure sample's published utilization that is warm work."`
	Footprint sim.Bytes     `default:"0B" group:"Workload" help:"Device memory of every generated function; 0 keeps the published ones."`
	Large     bool          `group:"Workload" help:"Only functions of about two seconds or more."`
	Duration  time.Duration `default:"30m" group:"Workload" help:"How long activations arrive."`
	Seed      uint64        `default:"1" group:"Workload" help:"Seed of the arrivals; the first one where there are several."`

	Trace       string        `type:"existingfile" placeholder:"FILE" group:"Trace" help:"Read arrivals from a file instead."`
	TraceFormat string        `default:"plain" enum:"plain,azure2019,azure2021,activations" group:"Trace" help:"Form of the file: ${enum}. plain is arrival_ms,function in order of time; activations is one OpenWhisk activation record a line, or an array."`
	Functions   string        `type:"existingfile" placeholder:"FILE" group:"Trace" help:"Table function,warm_ms,cold_ms,memory_mb[,weight]; for azure2019 also the data set's function durations."`
	ColdExtra   time.Duration `default:"3s" group:"Trace" help:"Initialization of functions whose cold time the trace does not tell."`
	MemoryEach  sim.Bytes     `default:"1GB" group:"Trace" help:"Device memory of functions whose memory the trace does not tell."`
}

func (f workloadFlags) spec() sim.Spec {
	s := sim.DefaultSpec()
	s.Kind, s.Functions, s.Load, s.Zipf, s.Trace = f.Workload, f.Count, f.Load, f.Zipf, f.TraceID
	s.Footprint = int64(f.Footprint)
	s.WarmShare, s.Large, s.Duration, s.Seed = f.WarmShare, f.Large, f.Duration, f.Seed
	return s
}

// idle names a flag that says nothing here: arrivals come from a file or are
// generated, never both.
func (f workloadFlags) idle() error {
	d, t := sim.DefaultSpec(), sim.DefaultTrace()
	reads := f.Trace != ""
	for _, c := range []struct {
		flag  string
		given bool
		reads bool // is for a trace
	}{
		{"--workload", f.Workload != d.Kind, false},
		{"--count", f.Count != d.Functions, false},
		{"--load", f.Load != d.Load, false},
		{"--zipf", f.Zipf != d.Zipf, false},
		{"--trace-id", f.TraceID != d.Trace, false},
		{"--warm-share", f.WarmShare != d.WarmShare, false},
		{"--footprint", int64(f.Footprint) != d.Footprint, false},
		{"--large", f.Large, false},
		{"--duration", f.Duration != d.Duration, false},
		{"--functions", f.Functions != "", true},
		{"--trace-format", f.TraceFormat != t.Format, true},
		{"--cold-extra", f.ColdExtra != t.ColdExtra, true},
		{"--memory-each", int64(f.MemoryEach) != t.Memory, true},
	} {
		switch {
		case c.given && c.reads && !reads:
			return fmt.Errorf("%s: needs --trace", c.flag)
		case c.given && !c.reads && reads:
			return fmt.Errorf("%s: is for generated workloads, and --trace reads one", c.flag)
		}
	}
	if reads && f.Functions == "" && f.TraceFormat == "plain" {
		return fmt.Errorf("--functions: a plain trace needs it for the functions' costs")
	}
	return nil
}

// check says what is wrong with flags before anything runs. entries are made of
// them. What a trace holds is not looked at: a file is no flag.
func (f workloadFlags) check(entries []sim.Entry, err error) error {
	if err := errors.Join(f.idle(), err); err != nil || f.Trace != "" {
		return err
	}
	return sim.Check(entries, f.Seed)
}

// nothing stands for a trace that is not read yet.
func (f workloadFlags) nothing() *sim.Source {
	if f.Trace == "" {
		return nil
	}
	return sim.Fixed(nil)
}

// trace reads the trace if one is given.
func (f workloadFlags) trace() (*sim.Source, error) {
	if f.Trace == "" {
		return nil, nil
	}
	t := sim.DefaultTrace()
	t.Format, t.Name, t.Seed = f.TraceFormat, f.Trace, f.Seed
	t.ColdExtra, t.Memory = f.ColdExtra, int64(f.MemoryEach)
	data, err := os.Open(f.Trace)
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	defer data.Close()
	t.Data = data
	if f.Functions != "" {
		table, err := os.Open(f.Functions)
		if err != nil {
			return nil, fmt.Errorf("--functions: %w", err)
		}
		defer table.Close()
		t.Functions, t.FunctionsName = table, f.Functions
	}
	w, err := t.Read()
	if err != nil {
		return nil, err
	}
	w.Name = filepath.Base(f.Trace)
	return sim.Fixed(w), nil
}

// serverFlags are every parameter of the server and of the policies. What is
// not given keeps its published default, which may differ between policies.
type serverFlags struct {
	Devices       *int           `group:"Server" placeholder:"1" help:"GPUs."`
	GPUMemory     *sim.Bytes     `group:"Server" name:"gpu-memory" placeholder:"16GB" help:"Memory of each."`
	Tokens        *int           `group:"Server" placeholder:"2" help:"D: runs in flight per device, or the most of it with --dynamic-tokens."`
	DynamicTokens *bool          `negatable:"" group:"Server" help:"Let D follow utilization and the slowdown that is learned."`
	Threshold     *float64       `group:"Server" placeholder:"0.9" help:"Utilization above which a dynamic D falls."`
	Pool          *int           `group:"Server" placeholder:"32" help:"Containers per device."`
	Retention     *string        `group:"Server" placeholder:"lru" help:"Which idle container is given up: lru, flow-lru (inactive, then throttled flows first), protect-lru, demand. sticky-plus: demand."`
	Context       *sim.Bytes     `group:"Server" placeholder:"400MB" help:"Device memory of a container's CUDA context."`
	Start         *time.Duration `group:"Server" name:"container-start" placeholder:"1.5s" help:"Container start on top of a function's cold time."`
	Interference  []float64      `group:"Server" placeholder:"1,1.3,2.1,3" help:"Slowdown of each of 1, 2, 3, ... runs at once."`
	InitAlone     *bool          `negatable:"" group:"Server" help:"Initialization does not load the device."`
	SwapBandwidth *float64       `group:"Server" placeholder:"12" help:"GB/s between host and device, in each direction."`
	SwapOverlap   *float64       `group:"Server" placeholder:"0" help:"Share of a run's own transfer that is hidden."`
	Headroom      *sim.Bytes     `group:"Server" placeholder:"0B" help:"Device memory kept free by moving out what throttled and inactive flows hold."`
	SwapEachRun   *bool          `negatable:"" group:"Server" help:"Move a container's memory out after every run."`
	Prefetch      *string        `group:"Server" placeholder:"both" help:"Bring memory in ahead for flows that become active, for the likely next, both, or none."`
	KernelShare   *float64       `group:"Server" placeholder:"0.6" help:"Share of a lone run's time with a kernel running, as a utilization reading sees it."`

	Overrun       *time.Duration `group:"Policy" short:"T" placeholder:"10s" help:"T: how far a flow may run ahead."`
	Gap           *time.Duration `group:"Policy" placeholder:"0s" help:"How far two flows may get apart by the window: T is half of it, where that is more. sticky-plus: 2m."`
	TTLAlpha      *float64       `group:"Policy" name:"ttl-alpha" placeholder:"2" help:"TTL of an empty flow over its inter-arrival time."`
	TTLMin        *time.Duration `group:"Policy" name:"ttl-min" placeholder:"100ms" help:"Least TTL."`
	TTLMax        *time.Duration `group:"Policy" name:"ttl-max" placeholder:"10m" help:"Largest TTL. With --ttl-min of the same value: one TTL for all."`
	TTLGlobal     *bool          `negatable:"" group:"Policy" name:"ttl-global" help:"One inter-arrival time for all flows."`
	Smoothing     *float64       `group:"Policy" placeholder:"0.2" help:"Weight of a new sample in the estimates of service and inter-arrival time."`
	InitialCharge *time.Duration `group:"Policy" placeholder:"T/10" help:"Charge of a function that never finished."`
	FixedCharge   *time.Duration `group:"Policy" placeholder:"off" help:"Charge every run the same instead of its estimate."`
	CountSetup    *bool          `negatable:"" group:"Policy" help:"Service counts cold time."`
	Correct       *bool          `negatable:"" group:"Policy" help:"Settle the charge at completion. sticky-plus: yes."`
	Wait          *bool          `negatable:"" group:"Policy" help:"Wait for a busy container rather than start another. sticky-plus: yes."`
	Locality      *bool          `negatable:"" group:"Policy" help:"Wait for the device of an idle container. sticky-plus: yes."`
	Shortest      *bool          `negatable:"" aliases:"aged" group:"Policy" help:"Choose what is expected to take least, setup included. sticky-plus: yes."`
	Slowdown      *float64       `group:"Policy" placeholder:"40" help:"A head of a flow served least goes first once it has waited so many times what it takes; 0 never."`
	Patience      *time.Duration `group:"Policy" placeholder:"0s" help:"The least that such a head waits."`
	DeficitLimit  *float64       `group:"Policy" placeholder:"4" help:"paella: dispatches of deficit that go first."`
	Namespaces    *bool          `negatable:"" group:"Policy" help:"Share between namespaces first."`

	Window *time.Duration `group:"Measuring" placeholder:"30s" help:"Window of service gaps."`
	Warmup *time.Duration `group:"Measuring" placeholder:"0s" help:"Arrivals before it are not measured."`
	Drain  *time.Duration `group:"Measuring" placeholder:"1h" help:"How long the run may go on after the last arrival: its horizon."`
}

func (f serverFlags) overrides() sim.Overrides {
	return sim.Overrides{
		Devices: f.Devices, Memory: f.GPUMemory, Tokens: f.Tokens, Dynamic: f.DynamicTokens,
		Threshold: f.Threshold, Pool: f.Pool, Retention: f.Retention, Context: f.Context,
		Start: f.Start, Interference: f.Interference, InitAlone: f.InitAlone,
		SwapBandwidth: f.SwapBandwidth, SwapOverlap: f.SwapOverlap, Headroom: f.Headroom, SwapEachRun: f.SwapEachRun,
		Prefetch: f.Prefetch, KernelShare: f.KernelShare,
		Overrun: f.Overrun, Gap: f.Gap, Alpha: f.TTLAlpha, TTLMin: f.TTLMin, TTLMax: f.TTLMax,
		TTLGlobal: f.TTLGlobal, Smoothing: f.Smoothing, Initial: f.InitialCharge,
		FixedCharge: f.FixedCharge, CountSetup: f.CountSetup, Correct: f.Correct, Wait: f.Wait,
		Locality: f.Locality, Shortest: f.Shortest,
		Slowdown: f.Slowdown, Patience: f.Patience, Deficit: f.DeficitLimit,
		Namespaces: f.Namespaces, Window: f.Window, Warmup: f.Warmup, Drain: f.Drain,
	}
}

// manyFlags are those of the commands that make many runs.
type manyFlags struct {
	Seeds    int  `default:"20" help:"Seeds per figure; medians and 10% and 90% quantiles are over them."`
	Parallel int  `default:"0" help:"Runs at a time; 0 is one per processor."`
	JSON     bool `name:"json" help:"Print JSON."`
}

// check says what is wrong with them.
func (f manyFlags) check() error {
	if f.Parallel < 0 || f.Parallel > mostParallel {
		return fmt.Errorf("--parallel %d: must lie within 0 and %d", f.Parallel, mostParallel)
	}
	return sim.CheckSeeds(f.Seeds)
}

// mostParallel is more processors than a machine has.
const mostParallel = 1024

// progress returns a reporter on the terminal, or nil where stderr is none.
func progress(what string) (report sim.Progress, end func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil, func() {}
	}
	last := time.Time{}
	return func(done, total int) {
			if now := time.Now(); now.Sub(last) > 100*time.Millisecond || done == total {
				last = now
				fmt.Fprintf(os.Stderr, "\r%s: %d of %d runs", what, done, total)
			}
		}, func() {
			fmt.Fprint(os.Stderr, "\r\x1b[K")
		}
}

// untilSignal is done when the person interrupts.
func untilSignal() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// wallClock returns a clock that counts from now.
func wallClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
