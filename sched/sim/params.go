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
	// what throttled and inactive flows hold.
	Headroom int64
	// SwapEachRun moves a container's memory out after every run, as the
	// public code of the paper does for its baselines.
	SwapEachRun bool
	// PrefetchActive brings in the memory of a flow that becomes active.
	PrefetchActive bool
	// PrefetchNext brings in the memory of the flow whose turn is likely next.
	PrefetchNext bool
	// KernelShare is the share of a lone run's time in which a kernel runs,
	// which is all that utilization-driven tokens can see of it.
	KernelShare float64

	Window time.Duration // over which service gaps are measured
	Warmup time.Duration // arrivals before it are served and not measured
	Drain  time.Duration // the run goes on that long after the last arrival
	Series bool          // keep each function's service per window
	Verify bool          // check the invariants of gpu after every event
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

// Validate names the flag and the value that cannot be. The policy's own
// parameters are validated by sched.NewPolicy.
func (p Params) Validate() error {
	switch {
	case p.Devices < 1 || p.Devices > 64:
		return fmt.Errorf("--devices %d: must lie within 1 and 64", p.Devices)
	case p.Memory <= 0 || p.Memory > maxBytes:
		return fmt.Errorf("--gpu-memory %s: must be above 0 and at most %s", Bytes(p.Memory), Bytes(maxBytes))
	case p.Context < 0 || p.Context >= p.Memory:
		return fmt.Errorf("--context %s: must be at least 0 and below the device's %s", Bytes(p.Context), Bytes(p.Memory))
	case p.Headroom < 0 || p.Headroom >= p.Memory:
		return fmt.Errorf("--headroom %s: must be at least 0 and below the device's %s", Bytes(p.Headroom), Bytes(p.Memory))
	case p.Pool.Size > 100_000:
		return fmt.Errorf("--pool %d: must be at most 100000", p.Pool.Size)
	case p.ContainerStart < 0 || p.ContainerStart > maxCost:
		return fmt.Errorf("--container-start %v: must lie within 0 and %v", p.ContainerStart, maxCost)
	case !(p.KernelShare > 0 && p.KernelShare <= 1):
		return fmt.Errorf("--kernel-share %v: must be above 0 and at most 1", p.KernelShare)
	case p.Window <= 0 || p.Window > maxTime:
		return fmt.Errorf("--window %v: must be above 0 and at most %v", p.Window, maxTime)
	case p.Warmup < 0 || p.Warmup > maxTime:
		return fmt.Errorf("--warmup %v: must lie within 0 and %v", p.Warmup, maxTime)
	case p.Drain < 0 || p.Drain > maxTime:
		return fmt.Errorf("--drain %v: must lie within 0 and %v", p.Drain, maxTime)
	}
	return p.validateParts()
}

func (p Params) validateParts() error {
	if !(p.Tokens.Threshold > 0 && p.Tokens.Threshold <= 1) {
		return fmt.Errorf("--threshold %v: must be above 0 and at most 1", p.Tokens.Threshold)
	}
	if p.Tokens.Max < 1 || p.Tokens.Max > 64 {
		return fmt.Errorf("--tokens %d: must lie within 1 and 64", p.Tokens.Max)
	}
	if err := p.Tokens.Validate(); err != nil {
		return fmt.Errorf("--tokens: %w", err)
	}
	if err := p.Pool.Validate(); err != nil {
		return fmt.Errorf("--pool: %w", err)
	}
	if err := p.Interference.Validate(); err != nil {
		return fmt.Errorf("--interference: %w", err)
	}
	if !(p.Link.Overlap >= 0 && p.Link.Overlap <= 1) {
		return fmt.Errorf("--swap-overlap %v: must lie within 0 and 1", p.Link.Overlap)
	}
	if err := p.Link.Validate(); err != nil {
		return fmt.Errorf("--swap-bandwidth: %w", err)
	}
	return nil
}

// fits refuses functions that no device of the server could ever hold.
func (p Params) fits(w *Workload) error {
	for _, f := range w.Functions {
		if f.Memory+p.Context > p.Memory {
			return fmt.Errorf("function %s: its %s and a --context of %s do not fit --gpu-memory %s",
				f.Name, Bytes(f.Memory), Bytes(p.Context), Bytes(p.Memory))
		}
	}
	return nil
}
