package sim

import (
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
)

// Params has everything about a run except its workload: the policy and the server. A
// parameter that the paper leaves open is a field with a published default.
type Params struct {
	// Config is the configuration for the invoker's scheduler. Its Devices are GPUs of
	// GPUMemory each.
	scheduler.Config
	GPUs      int
	GPUMemory int64

	// ContainerStart comes on top of a function's cold time.
	ContainerStart time.Duration
	// MemoryReport is the time from the answer of a run until its container has reported its
	// memory. Then the run's token is free.
	MemoryReport time.Duration
	// LogCollection is the time from the answer of a run until its logs are collected. Then the
	// run's container is free, if its memory was reported.
	LogCollection time.Duration
	Interference  gpu.Interference
	// KernelShare is the share of a lone run's time in which a kernel runs. Utilization-driven
	// tokens see nothing else of the run.
	KernelShare float64

	Window time.Duration // over which service gaps are measured
	Warmup time.Duration // arrivals before it are served and not measured
	Drain  time.Duration // the run goes on that long after the last arrival
	Series bool          // keep each function's service per window
	Verify bool          // check the scheduler's invariants
	Clock  Clock
}

// Clock measures the cost of the scheduler's decisions, if it is set. It influences nothing
// else.
type Clock func() time.Duration

func (c Clock) read() time.Duration {
	if c == nil {
		return 0
	}
	return c()
}

// DefaultParams returns the published defaults for a policy: a 16 GB device,
// the paper's D=2, T=10 s, alpha=2 and a pool of 32.
func DefaultParams(policy string) (Params, error) {
	of, err := policyNamed(policy)
	if err != nil {
		return Params{}, err
	}
	p := Params{
		Config: scheduler.Config{
			Policy: policy, NewPolicy: newPolicy, Sched: of.Defaults(), Tokens: gpu.DefaultTokens(), Pool: gpu.PoolConfig{Size: 32, Rule: gpu.LRU},
			Link: gpu.DefaultTransferModel(), Context: 400 * mib, Memory: gib, PrefetchActive: true,
			Faults: true, // how much of a transfer a run waits for is the link's rule
		},
		GPUs: 1, GPUMemory: 16 * gib, ContainerStart: 1500 * time.Millisecond,
		MemoryReport: 100 * time.Microsecond, LogCollection: time.Millisecond,
		Interference: gpu.DefaultInterference(), KernelShare: 0.6,
		Window: 30 * time.Second, Drain: time.Hour,
	}
	if of.NoPool {
		p.Pool.Size = 0
	}
	if of.Demand {
		p.Pool.Rule = gpu.DemandAware
	}
	if of.OneToken {
		p.Tokens.Max = 1 // more would count as capacity
	}
	return p, nil
}

// Capacity returns the most warm work that a server's devices do per second:
// 1 is one device that takes one run at a time.
func Capacity(p Params) float64 {
	best := 0.0
	for k := 1; k <= p.Tokens.Max; k++ {
		best = max(best, p.Interference.Throughput(k))
	}
	return best * float64(p.GPUs)
}

// constraint is a rule on a value, named by its flag.
type constraint struct {
	flag  string
	value any
	ok    bool
	rule  string
}

// within is the first broken rule as an error.
func within(rules ...constraint) error {
	for _, c := range rules {
		if !c.ok {
			return fmt.Errorf("%s %v: must %s", c.flag, c.value, c.rule)
		}
	}
	return nil
}

// inside has a value lie within bounds.
func inside[T int | int64 | float64 | time.Duration | Bytes](flag string, v, least, most T) constraint {
	return constraint{flag, v, v >= least && v <= most, fmt.Sprintf("lie within %v and %v", least, most)}
}

// above has a value be more than the lower bound, and no more than the upper one.
func above[T float64 | time.Duration | Bytes](flag string, v, least, most T) constraint {
	return constraint{flag, v, v > least && v <= most, fmt.Sprintf("be above %v and at most %v", least, most)}
}

// leastWindow keeps a run from being all windows: each goes over all functions.
const leastWindow = time.Millisecond

// Validate names the flag and the value that is out of range. The policy's own
// parameters are validated by sched.New.
func (p Params) Validate() error {
	belowMemory := fmt.Sprintf("be at least 0 and below the device's %s", Bytes(p.GPUMemory))
	if err := within(
		inside("--devices", p.GPUs, 1, 64),
		above("--gpu-memory", Bytes(p.GPUMemory), 0, maxBytes),
		constraint{"--context", Bytes(p.Context), p.Context >= 0 && p.Context < p.GPUMemory, belowMemory},
		constraint{"--headroom", Bytes(p.Headroom), p.Headroom >= 0 && p.Headroom < p.GPUMemory, belowMemory},
		inside("--pool", p.Pool.Size, 0, 100_000),
		inside("--container-start", p.ContainerStart, 0, maxCost),
		inside("--memory-report", p.MemoryReport, 0, maxCost),
		inside("--log-collection", p.LogCollection, 0, maxCost),
		above("--kernel-share", p.KernelShare, 0, 1),
		inside("--window", p.Window, leastWindow, maxTime),
		inside("--warmup", p.Warmup, 0, maxTime),
		inside("--drain", p.Drain, 0, maxTime),
		above("--threshold", p.Tokens.Threshold, 0, 1),
		inside("--tokens", p.Tokens.Max, 1, 64),
		inside("--swap-overlap", p.Link.Overlap, 0, 1),
	); err != nil {
		return err
	}
	if err := p.Interference.Validate(); err != nil {
		return fmt.Errorf("--interference: %w", err)
	}
	if err := p.Link.Validate(); err != nil {
		return fmt.Errorf("--swap-bandwidth: %w", err)
	}
	return nil
}

// validateFor refuses a workload, too, of which nothing would be measured, or with
// functions that are larger than a device.
func (p Params) validateFor(w *Workload) error {
	if err := p.Validate(); err != nil {
		return err
	}
	for _, f := range w.Functions {
		if f.Memory+p.Context > p.GPUMemory {
			return fmt.Errorf("function %s: its %s and a --context of %s do not fit --gpu-memory %s",
				f.Name, Bytes(f.Memory), Bytes(p.Context), Bytes(p.GPUMemory))
		}
	}
	if last := w.Arrivals[len(w.Arrivals)-1].At; last < p.Warmup {
		return fmt.Errorf("--warmup %v: nothing is left to measure, the last arrival is at %v", p.Warmup, last)
	}
	return nil
}
