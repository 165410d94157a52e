package sched

import (
	"cmp"
	"fmt"
	"time"
)

// Config is every parameter of every policy. Start from Defaults: a zero
// Config is not the default one (T = 0 means strict fair queueing). The tags
// are the invoker's settings, as invoker/internal/config reads them.
type Config struct {
	// Overrun is T: how far a flow's virtual time may lead global virtual
	// time. Ignored by the policies without a window.
	Overrun time.Duration `key:"whisk.gpu.overrun,policy" doc:"T: how far a flow may run ahead of the others; larger is faster and less fair"`
	// Gap is by how much two flows may get apart because of the window: T
	// is half of it where that is more than Overrun. 0 keeps T at Overrun.
	Gap time.Duration `key:"whisk.gpu.gap,policy" doc:"how much more device time one waiting function may get than another: T is half of it where that is more than the overrun; more is faster on the mean and less fair; 0 where an overrun is set"`
	// Namespaces adds a level of fair queueing above the flows: namespaces
	// share by their weight first, then the flows of each. Without it a
	// tenant's weight for a flow counts against all others.
	Namespaces bool `key:"whisk.gpu.namespaces" default:"true" doc:"share among namespaces first, then among the functions of each; false shares among all functions, and annotations' weights do not count"`

	// TTLAlpha times the flow's inter-arrival time, clamped to TTLMin and
	// TTLMax, is how long an empty flow stays active.
	TTLAlpha float64       `key:"whisk.gpu.ttl.alpha" default:"2" range:"0..1000" doc:"an empty flow stays active for alpha times its mean time between arrivals, within min and max"`
	TTLMin   time.Duration `key:"whisk.gpu.ttl.min" default:"100 ms" doc:"an empty flow stays active for alpha times its mean time between arrivals, within min and max"`
	TTLMax   time.Duration `key:"whisk.gpu.ttl.max" default:"10 minutes" doc:"an empty flow stays active for alpha times its mean time between arrivals, within min and max"`
	// TTLGlobal uses one inter-arrival time, that of all arrivals' flows
	// together, for every flow (the paper's ablation).
	TTLGlobal bool

	// InitialCharge is the estimate of a function never seen to finish; 0
	// means a tenth of T. It is never below 1 ms.
	InitialCharge time.Duration `key:"whisk.gpu.initial-charge" default:"0 seconds" doc:"estimated service of a function that never finished; 0 means a tenth of the overrun"`
	// FixedCharge charges every dispatch the same instead of the function's
	// estimate (the paper's ablation "1.0"); 0 is off.
	FixedCharge time.Duration
	// CountSetup charges the expected container creation when a run starts. Without it the
	// creation is charged when the run ends.
	CountSetup bool `key:"whisk.gpu.charge.setup,policy" doc:"charge the expected creation of a container when its run starts; false: when it ends"`
	// Correct settles the charge with the service really used, at completion. Without
	// it there is no bound on service: estimates may be wrong for ever.
	Correct bool `key:"whisk.gpu.charge.correct,policy" doc:"settle a flow's charge with the measured use, at completion; without it no bound on service holds"`

	// Wait lets a flow that is in flight wait for its own container when
	// that is expected sooner than a cold start takes.
	Wait bool `key:"whisk.gpu.wait,policy" doc:"wait for a busy container where that is sooner than a cold start"`
	// Locality lets a flow with an idle container on a full device wait for
	// that device when that is expected sooner than starting elsewhere.
	Locality bool `key:"whisk.gpu.locality,policy" doc:"wait for the device that has the container where that is sooner than starting elsewhere"`
	// Shortest takes the least expected time first inside the window, setup
	// included, instead of the paper's order.
	Shortest bool `key:"whisk.gpu.shortest,policy" doc:"take the flow whose run is expected to end soonest, among flows that may go; for the sticky policies"`

	// KeepInactive is how long an inactive flow's estimates are kept, and
	// MaxFlows how many flows are known before inactive ones are forgotten
	// early, longest inactive first.
	KeepInactive time.Duration
	MaxFlows     int
}

// Defaults are the published defaults of a policy: those of the paper where it
// gives one. The second result is false for an unknown name.
func Defaults(policy string) (Config, bool) {
	p, ok := PolicyNamed(policy)
	if !ok {
		return Config{}, false
	}
	return p.Defaults(), true
}

// Defaults is like the function Defaults, for a policy that need not be listed.
func (p Policy) Defaults() Config {
	c := Config{
		Overrun:      10 * time.Second,
		TTLAlpha:     2,
		TTLMin:       100 * time.Millisecond,
		TTLMax:       10 * time.Minute,
		Correct:      true,
		Namespaces:   true,
		KeepInactive: time.Hour,
		MaxFlows:     100_000,
	}
	if p.Adjust != nil {
		p.Adjust(&c)
	}
	return c
}

// limit is the longest duration accepted: with weights of at least minWeight
// no sum of charges can overflow an int64 of nanoseconds in practice.
const (
	limit     = 24 * time.Hour
	minWeight = 0.001
	maxWeight = 1000
	maxFlows  = 1 << 22
)

func (c Config) validate() error {
	return cmp.Or(
		within("Overrun", c.Overrun, 0, limit),
		within("Gap", c.Gap, 0, limit),
		within("TTLAlpha", c.TTLAlpha, 0, 1000),
		within("TTLMin", c.TTLMin, 0, limit),
		within("TTLMax", c.TTLMax, c.TTLMin, limit),
		within("InitialCharge", c.InitialCharge, 0, limit),
		within("FixedCharge", c.FixedCharge, 0, limit),
		within("KeepInactive", c.KeepInactive, 0, 365*limit),
		within("MaxFlows", c.MaxFlows, 1, maxFlows),
	)
}

// within returns an error unless a setting lies within bounds. NaN does not.
func within[T cmp.Ordered](key string, value, least, most T) error {
	if !(value >= least && value <= most) {
		return fmt.Errorf("sched config %s=%v: must be from %v to %v", key, value, least, most)
	}
	return nil
}

// MaxOverrun is T as the policies with a window use it, which bounds are stated
// for.
func (c Config) MaxOverrun() time.Duration { return max(c.Overrun, c.Gap/2) }

// GapBound is the most by which the service of two flows of one namespace that need the same,
// each over its weight, can differ in any span in which both compete:
//
//	2T + 2D(ci/wi + cj/wj)
//
// Service is the time that tokens were really held, that of runs under way included. c is the
// longest run of a flow, set-up included, or the most that was charged for one before it was
// known, and D the tokens of all devices together, or the most there were if D
// changed. T is Config.MaxOverrun. It takes the place of the paper's equation 1,
// which gives 0 for D = 1. Namespaces keep it one level up, with the longest run
// of any of their flows. docs/scheduling.md says why.
func GapBound(overrun time.Duration, tokens int, ci time.Duration, wi float64, cj time.Duration, wj float64) time.Duration {
	per := float64(ci)/wi + float64(cj)/wj
	return 2*overrun + time.Duration(float64(2*tokens)*per)
}
