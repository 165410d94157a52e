package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Params is everything of a run but its workload: the policy and the server.
// What the paper leaves open is a field with a published default.
type Params struct {
	Policy string
	Sched  sched.Config

	Devices int
	Memory  int64 // of each device
	Tokens  gpu.TokensConfig
	Pool    gpu.PoolConfig // of each device

	// Context is the device memory that a live container's CUDA context takes.
	Context int64
	// ContainerStart comes on top of a function's cold time.
	ContainerStart time.Duration
	Interference   gpu.Interference
	// InitInterferes makes a container's initialization load the device like
	// a run does; otherwise it only takes its time.
	InitInterferes bool
	Link           gpu.Link
	// Headroom is device memory that is kept free ahead of need by moving out
	// what throttled and inactive flows have there.
	Headroom int64
	// SwapEachRun moves a container's memory out after every run, as the
	// public code of the paper does for its baselines.
	SwapEachRun bool
	// PrefetchActive brings in the memory of a flow that becomes active.
	PrefetchActive bool
	// PrefetchNext brings in the memory of the flow that is likely next.
	PrefetchNext bool
	// KernelShare is the share of a lone run's time in which a kernel runs,
	// which is all that utilization-driven tokens can see of it.
	KernelShare float64

	Window time.Duration // over which service gaps are measured
	Warmup time.Duration // arrivals before it are served and not measured
	Drain  time.Duration // the run goes on that long after the last arrival
	Series bool          // keep each function's service per window
	Verify bool          // check the scheduler's invariants
	// Clock, when set, is read around the policy's calls to measure their
	// cost. It influences nothing else.
	Clock func() time.Duration
}

// DefaultParams returns the published defaults for a policy: a 16 GB device,
// the paper's D=2, T=10 s, alpha=2 and a pool of 32.
func DefaultParams(policy string) (Params, error) {
	cfg, ok := sched.Defaults(policy)
	if !ok {
		return Params{}, fmt.Errorf("--policy %q: not one of %s", policy, strings.Join(PolicyNames(), ", "))
	}
	p := Params{
		Policy: policy, Sched: cfg,
		Devices: 1, Memory: 16 * gib, Tokens: gpu.DefaultTokens(),
		Pool: gpu.PoolConfig{Size: 32, Rule: gpu.LRU}, Context: 400 * mib,
		ContainerStart: 1500 * time.Millisecond, InitInterferes: true,
		Interference: gpu.DefaultInterference(), Link: gpu.DefaultLink(),
		PrefetchActive: true, PrefetchNext: true, KernelShare: 0.6,
		Window: 30 * time.Second, Drain: time.Hour,
	}
	info := policyInfo(policy)
	if info.NoPool {
		p.Pool.Size = 0
	}
	if info.Demand {
		p.Pool.Rule = gpu.DemandAware
	}
	if policy == "sfq" {
		p.Tokens.Max = 1 // start-time fair queueing serves one at a time
	}
	return p, nil
}

// PolicyNames lists the policies in the order of the paper's comparison.
func PolicyNames() []string {
	var names []string
	for _, p := range sched.Policies() {
		names = append(names, p.Name)
	}
	return names
}

func policyInfo(name string) sched.Info {
	for _, p := range sched.Policies() {
		if p.Name == name {
			return p
		}
	}
	return sched.Info{}
}

// Capacity returns the most warm work that a server's devices do per second:
// 1 is one device that takes one run at a time.
func Capacity(p Params) float64 {
	best := 0.0
	for k := 1; k <= p.Tokens.Max; k++ {
		best = max(best, p.Interference.Throughput(k))
	}
	return best * float64(p.Devices)
}

// constraint is a rule on a value, named by its flag.
type constraint struct {
	flag  string
	value any
	ok    bool
	rule  string
}

// within is the first broken rule as an error.
func within(rules []constraint) error {
	for _, c := range rules {
		if !c.ok {
			return fmt.Errorf("%s %v: must %s", c.flag, c.value, c.rule)
		}
	}
	return nil
}

// Validate names the flag and the value that is out of range. The policy's own
// parameters are validated by sched.NewPolicy.
func (p Params) Validate() error {
	belowMemory := fmt.Sprintf("be at least 0 and below the device's %s", Bytes(p.Memory))
	upTo := func(d time.Duration) string { return fmt.Sprintf("lie within 0 and %v", d) }
	if err := within([]constraint{
		{"--devices", p.Devices, p.Devices >= 1 && p.Devices <= 64, "lie within 1 and 64"},
		{"--gpu-memory", Bytes(p.Memory), p.Memory > 0 && p.Memory <= maxBytes, fmt.Sprintf("be above 0 and at most %s", Bytes(maxBytes))},
		{"--context", Bytes(p.Context), p.Context >= 0 && p.Context < p.Memory, belowMemory},
		{"--headroom", Bytes(p.Headroom), p.Headroom >= 0 && p.Headroom < p.Memory, belowMemory},
		{"--pool", p.Pool.Size, p.Pool.Size <= 100_000, "be at most 100000"},
		{"--container-start", p.ContainerStart, p.ContainerStart >= 0 && p.ContainerStart <= maxCost, upTo(maxCost)},
		{"--kernel-share", p.KernelShare, p.KernelShare > 0 && p.KernelShare <= 1, "be above 0 and at most 1"},
		{"--window", p.Window, p.Window > 0 && p.Window <= maxTime, fmt.Sprintf("be above 0 and at most %v", maxTime)},
		{"--warmup", p.Warmup, p.Warmup >= 0 && p.Warmup <= maxTime, upTo(maxTime)},
		{"--drain", p.Drain, p.Drain >= 0 && p.Drain <= maxTime, upTo(maxTime)},
		{"--threshold", p.Tokens.Threshold, p.Tokens.Threshold > 0 && p.Tokens.Threshold <= 1, "be above 0 and at most 1"},
		{"--tokens", p.Tokens.Max, p.Tokens.Max >= 1 && p.Tokens.Max <= 64, "lie within 1 and 64"},
		{"--swap-overlap", p.Link.Overlap, p.Link.Overlap >= 0 && p.Link.Overlap <= 1, "lie within 0 and 1"},
	}); err != nil {
		return err
	}
	for _, part := range []struct {
		flag string
		err  error
	}{
		{"--tokens", p.Tokens.Validate()}, {"--pool", p.Pool.Validate()},
		{"--interference", p.Interference.Validate()}, {"--swap-bandwidth", p.Link.Validate()},
	} {
		if part.err != nil {
			return fmt.Errorf("%s: %w", part.flag, part.err)
		}
	}
	return nil
}

// fits refuses functions that are larger than a device of the server.
func (p Params) fits(w *Workload) error {
	for _, f := range w.Functions {
		if f.Memory+p.Context > p.Memory {
			return fmt.Errorf("function %s: its %s and a --context of %s do not fit --gpu-memory %s",
				f.Name, Bytes(f.Memory), Bytes(p.Context), Bytes(p.Memory))
		}
	}
	return nil
}
