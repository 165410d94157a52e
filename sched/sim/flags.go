package sim

import (
	"encoding"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// Bytes is a size as people write it: 16GB, 400MB, 1.5 GiB. Units are powers
// of 1024, as OpenWhisk's are.
type Bytes int64

var _ encoding.TextUnmarshaler = (*Bytes)(nil)

// maxBytes is more device memory than any server has.
const maxBytes = 1 << 44

// String writes the size with the unit that it comes to at least 1 of.
func (b Bytes) String() string {
	v, unit := float64(b), "B"
	for _, u := range []string{"KB", "MB", "GB", "TB"} {
		if v < 1<<10 && v > -(1<<10) {
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
	scale := map[string]float64{
		"": 1, "K": 1 << 10, "M": mib, "G": gib, "T": 1 << 40,
		"KI": 1 << 10, "MI": mib, "GI": gib, "TI": 1 << 40,
	}[unit]
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || scale == 0 || !(v >= 0 && v*scale < 1<<62) {
		return fmt.Errorf("size %q: want a number with B, KB, MB, GB or TB", text)
	}
	*b = Bytes(v * scale)
	return nil
}

// Overrides is every parameter of a server and a policy that may be set; what
// is nil keeps its published default, which may depend on the policy. It is
// what the commands' flags and the sweeps' parameters both fill in.
type Overrides struct {
	Devices       *int
	Memory        *Bytes
	Tokens        *int
	Dynamic       *bool
	Threshold     *float64
	Pool          *int
	Retention     *string
	Context       *Bytes
	Start         *time.Duration
	Interference  []float64
	InitAlone     *bool
	SwapBandwidth *float64 // GB/s
	SwapOverlap   *float64
	Headroom      *Bytes
	SwapEachRun   *bool
	Prefetch      *string // none, active, next or both
	KernelShare   *float64

	Overrun     *time.Duration
	Gap         *time.Duration
	Alpha       *float64
	TTLMin      *time.Duration
	TTLMax      *time.Duration
	TTLGlobal   *bool
	Smoothing   *float64
	Initial     *time.Duration
	FixedCharge *time.Duration
	CountSetup  *bool
	Correct     *bool
	Wait        *bool
	Locality    *bool
	Shortest    *bool
	Slowdown    *float64
	Patience    *time.Duration
	Deficit     *float64
	Namespaces  *bool

	Window *time.Duration
	Warmup *time.Duration
	Drain  *time.Duration
	Series bool
}

// set copies what is given.
func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// Apply returns the defaults of a policy with the overrides in place. The
// naive policy keeps no pool whatever is asked for: that is what it is.
func (o Overrides) Apply(policy string) (Params, error) {
	p, err := DefaultParams(policy)
	if err != nil {
		return p, err
	}
	set(&p.Devices, o.Devices)
	set((*Bytes)(&p.Memory), o.Memory)
	set(&p.Tokens.Max, o.Tokens)
	set(&p.Tokens.Dynamic, o.Dynamic)
	set(&p.Tokens.Threshold, o.Threshold)
	if !policyInfo(policy).NoPool {
		set(&p.Pool.Size, o.Pool)
		if o.Pool != nil && *o.Pool < 1 {
			return p, fmt.Errorf("--pool %d: must be at least 1", *o.Pool)
		}
	}
	set((*Bytes)(&p.Context), o.Context)
	set(&p.ContainerStart, o.Start)
	if len(o.Interference) > 0 {
		p.Interference = o.Interference
	}
	if o.InitAlone != nil {
		p.InitInterferes = !*o.InitAlone
	}
	if o.SwapBandwidth != nil {
		p.Link.BytesPerSecond = *o.SwapBandwidth * 1e9
	}
	set(&p.Link.Overlap, o.SwapOverlap)
	set((*Bytes)(&p.Headroom), o.Headroom)
	set(&p.SwapEachRun, o.SwapEachRun)
	set(&p.KernelShare, o.KernelShare)
	o.policy(&p)
	if err := o.words(&p); err != nil {
		return p, err
	}
	return p, p.Validate()
}

// words sets what is given by name.
func (o Overrides) words(p *Params) error {
	if o.Retention != nil {
		rule, err := gpu.ParseRule(*o.Retention)
		if err != nil {
			return fmt.Errorf("--retention: %w", err)
		}
		p.Pool.Rule = rule
	}
	if o.Prefetch != nil {
		switch *o.Prefetch {
		case "none", "active", "next", "both":
			p.PrefetchActive = *o.Prefetch == "active" || *o.Prefetch == "both"
			p.PrefetchNext = *o.Prefetch == "next" || *o.Prefetch == "both"
		default:
			return fmt.Errorf("--prefetch %q: not one of none, active, next, both", *o.Prefetch)
		}
	}
	return nil
}

// policy sets what belongs to the policy and to the measuring.
func (o Overrides) policy(p *Params) {
	c := &p.Sched
	set(&c.Overrun, o.Overrun)
	if o.Overrun != nil {
		c.Gap = 0 // a T that is asked for is T, unless a gap is asked for too
	}
	set(&c.Gap, o.Gap)
	set(&c.TTLAlpha, o.Alpha)
	set(&c.TTLMin, o.TTLMin)
	set(&c.TTLMax, o.TTLMax)
	set(&c.TTLGlobal, o.TTLGlobal)
	set(&c.Smoothing, o.Smoothing)
	set(&c.InitialCharge, o.Initial)
	set(&c.FixedCharge, o.FixedCharge)
	set(&c.CountSetup, o.CountSetup)
	set(&c.Correct, o.Correct)
	set(&c.Wait, o.Wait)
	set(&c.Locality, o.Locality)
	set(&c.Shortest, o.Shortest)
	set(&c.Slowdown, o.Slowdown)
	set(&c.Patience, o.Patience)
	set(&c.DeficitLimit, o.Deficit)
	set(&c.Namespaces, o.Namespaces)
	set(&p.Window, o.Window)
	set(&p.Warmup, o.Warmup)
	set(&p.Drain, o.Drain)
}
