package sim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// Options has every parameter of a server and a policy that can be set. A nil field keeps its
// published default, which may depend on the policy. The commands offer the options as flags.
type Options struct {
	Devices       *int           `group:"Server" placeholder:"1" help:"GPUs."`
	Memory        *Bytes         `group:"Server" name:"gpu-memory" placeholder:"16GB" help:"Memory of each GPU."`
	Tokens        *int           `group:"Server" placeholder:"2" help:"D: runs in flight per device; its upper bound with --dynamic-tokens."`
	DynamicTokens *bool          `negatable:"" group:"Server" help:"Let D follow utilization and the slowdown that is learned."`
	Threshold     *float64       `group:"Server" placeholder:"0.9" help:"Utilization above which a dynamic D falls."`
	Pool          *int           `group:"Server" placeholder:"32" help:"Containers per device."`
	Retention     *string        `group:"Server" placeholder:"lru" help:"Which idle container is evicted: lru, flow-lru (inactive, then throttled flows first), protect-lru, demand. sticky-plus: demand."`
	Context       *Bytes         `group:"Server" placeholder:"400MB" help:"Device memory of a container's CUDA context."`
	Start         *time.Duration `group:"Server" name:"container-start" placeholder:"1.5s" help:"Container start on top of a function's cold time."`
	MemoryReport  *time.Duration `group:"Server" placeholder:"100us" help:"From a run's answer until its container's memory is reported and its token is free."`
	LogCollection *time.Duration `group:"Server" placeholder:"1ms" help:"From a run's answer until its logs are collected and its container is free."`
	Interference  []float64      `group:"Server" placeholder:"1,1.3,2.1,3" help:"Slowdown of each of 1, 2, 3, ... runs at once."`
	SwapBandwidth *float64       `group:"Server" placeholder:"12" help:"GB/s between host and device, in each direction."`
	SwapOverlap   *float64       `group:"Server" placeholder:"0" help:"Share of a run's own transfer that overlaps with the run."`
	Headroom      *Bytes         `group:"Server" placeholder:"0B" help:"Device memory kept free by moving out memory of throttled and inactive flows."`
	SwapEachRun   *bool          `negatable:"" group:"Server" help:"Move a container's memory out after every run."`
	Prefetch      *bool          `negatable:"" group:"Server" help:"Bring memory in ahead for flows that become active."`
	KernelShare   *float64       `group:"Server" placeholder:"0.6" help:"Share of a lone run's time with a kernel running, as a utilization reading sees it."`

	Overrun       *time.Duration `group:"Policy" short:"T" placeholder:"10s" help:"T: how far a flow may run ahead."`
	Gap           *time.Duration `group:"Policy" placeholder:"0s" help:"Largest difference in service between two flows that the window allows: T is half of it if that is more than --overrun. sticky-plus: 2m."`
	TTLAlpha      *float64       `group:"Policy" name:"ttl-alpha" placeholder:"2" help:"TTL of an empty flow, as a multiple of its inter-arrival time."`
	TTLMin        *time.Duration `group:"Policy" name:"ttl-min" placeholder:"100ms" help:"Least TTL."`
	TTLMax        *time.Duration `group:"Policy" name:"ttl-max" placeholder:"10m" help:"Largest TTL. With --ttl-min of the same value: one TTL for all."`
	TTLGlobal     *bool          `negatable:"" group:"Policy" name:"ttl-global" help:"Use one inter-arrival time for all flows."`
	InitialCharge *time.Duration `group:"Policy" placeholder:"T/10" help:"Charge of a function that never finished."`
	FixedCharge   *time.Duration `group:"Policy" placeholder:"off" help:"Charge every run this time instead of its estimate."`
	CountSetup    *bool          `negatable:"" group:"Policy" help:"Count set-up as service."`
	Correct       *bool          `negatable:"" group:"Policy" help:"Settle the charge at completion. sticky-plus: yes."`
	Wait          *bool          `negatable:"" group:"Policy" help:"Wait for a busy container rather than start another. sticky-plus: yes."`
	Locality      *bool          `negatable:"" group:"Policy" help:"Wait for the device of an idle container. sticky-plus: yes."`
	Shortest      *bool          `negatable:"" aliases:"aged" group:"Policy" help:"Choose the run that is expected to take least, setup included. sticky-plus: yes."`
	Namespaces    *bool          `negatable:"" group:"Policy" help:"Share between namespaces first."`

	Window *time.Duration `group:"Measuring" placeholder:"30s" help:"Window of service gaps."`
	Warmup *time.Duration `group:"Measuring" placeholder:"0s" help:"Arrivals before it are not measured."`
	Drain  *time.Duration `group:"Measuring" placeholder:"1h" help:"How long the simulation may go on after the last arrival."`
}

// set copies a value that is given.
func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// Apply returns the defaults of a policy with the options in place. A policy without
// a pool has none whatever is asked for.
func (o Options) Apply(policy string) (Params, error) {
	p, err := DefaultParams(policy)
	if err != nil {
		return p, err
	}
	if o.Pool != nil && *o.Pool < 1 {
		return p, fmt.Errorf("--pool %d: must be at least 1", *o.Pool)
	}
	if p.Pool.Size > 0 {
		set(&p.Pool.Size, o.Pool)
	}
	if o.Retention != nil {
		if p.Pool.Rule, err = gpu.ParseRetentionPolicy(*o.Retention); err != nil {
			return p, fmt.Errorf("--retention: %w", err)
		}
	}
	if len(o.Interference) > 0 {
		p.Interference = o.Interference
	}
	if o.SwapBandwidth != nil {
		p.Link.BytesPerSecond = *o.SwapBandwidth * 1e9
	}
	if o.Overrun != nil {
		p.Sched.Gap = 0 // a T that is asked for is T, unless a gap is asked for too
	}
	o.copyTo(&p)
	return p, p.Validate()
}

// copyTo copies the options whose values are used as they are.
func (o Options) copyTo(p *Params) {
	set(&p.GPUs, o.Devices)
	set((*Bytes)(&p.GPUMemory), o.Memory)
	set(&p.Tokens.Max, o.Tokens)
	set(&p.Tokens.Dynamic, o.DynamicTokens)
	set(&p.Tokens.Threshold, o.Threshold)
	set((*Bytes)(&p.Context), o.Context)
	set(&p.ContainerStart, o.Start)
	set(&p.MemoryReport, o.MemoryReport)
	set(&p.LogCollection, o.LogCollection)
	set(&p.Link.Overlap, o.SwapOverlap)
	set((*Bytes)(&p.Headroom), o.Headroom)
	set(&p.SwapEachRun, o.SwapEachRun)
	set(&p.PrefetchActive, o.Prefetch)
	set(&p.KernelShare, o.KernelShare)
	set(&p.Window, o.Window)
	set(&p.Warmup, o.Warmup)
	set(&p.Drain, o.Drain)
	c := &p.Sched
	set(&c.Overrun, o.Overrun)
	set(&c.Gap, o.Gap)
	set(&c.TTLAlpha, o.TTLAlpha)
	set(&c.TTLMin, o.TTLMin)
	set(&c.TTLMax, o.TTLMax)
	set(&c.TTLGlobal, o.TTLGlobal)
	set(&c.InitialCharge, o.InitialCharge)
	set(&c.FixedCharge, o.FixedCharge)
	set(&c.CountSetup, o.CountSetup)
	set(&c.Correct, o.Correct)
	set(&c.Wait, o.Wait)
	set(&c.Locality, o.Locality)
	set(&c.Shortest, o.Shortest)
	set(&c.Namespaces, o.Namespaces)
}

// Bytes is a size as people write it: 16GB, 400MB, 1.5 GiB. Units are powers
// of 1024, as OpenWhisk's are.
type Bytes int64

// maxBytes is more device memory than any server has.
const maxBytes = 1 << 44

// String writes the size with the unit that it comes to at least 1 of.
func (b Bytes) String() string {
	v, unit := float64(b), "B"
	for _, u := range []string{"KB", "MB", "GB", "TB"} {
		if math.Abs(v) < 1<<10 {
			break
		}
		v, unit = v/(1<<10), u
	}
	return strconv.FormatFloat(v, 'f', -1, 64) + unit
}

// UnmarshalText parses a number with an optional unit.
func (b *Bytes) UnmarshalText(text []byte) error {
	s := strings.ToUpper(strings.TrimSpace(string(text)))
	number := strings.TrimRight(s, "KMGTIB ")
	unit := strings.TrimSuffix(strings.TrimSpace(s[len(number):]), "B")
	scale, ok := map[string]float64{
		"": 1, "K": 1 << 10, "M": mib, "G": gib, "T": 1 << 40,
		"KI": 1 << 10, "MI": mib, "GI": gib, "TI": 1 << 40,
	}[unit]
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || !(v >= 0 && v*scale < 1<<62) {
		return fmt.Errorf("size %q: want a number with B, KB, MB, GB or TB", text)
	}
	*b = Bytes(v * scale)
	return nil
}
