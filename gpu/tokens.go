package gpu

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// TokensConfig sets how many runs one device takes at once.
type TokensConfig struct {
	// Max is D, or its upper bound when Dynamic is set.
	Max int `key:"whisk.gpu.tokens" default:"2" range:"1..64" doc:"D: invocations in flight per device; its upper bound when it is dynamic"`
	// Dynamic lets D move between 1 and Max.
	Dynamic bool `key:"whisk.gpu.dynamic-tokens" default:"false" doc:"let D move between 1 and its bound by utilization and by how much runs slow each other down"`
	// Threshold is the moving average of utilization, in 0 to 1, above which D
	// falls. The paper's example is 0.9.
	Threshold float64 `key:"whisk.gpu.utilization-threshold" default:"0.9" range:"0.01..1" doc:"share of time in which a kernel runs, averaged, above which a dynamic D falls"`
	// Smoothing is the weight of a new sample in the moving average.
	Smoothing float64
	// Hold is the least time between two changes of D, so that the effect of
	// one shows in the average before the next.
	Hold time.Duration
	// MinSamples is how many runs at a concurrency are needed before its
	// learned slowdown counts.
	MinSamples int
}

// DefaultTokens returns a fixed D of 2, and for dynamic use a threshold of 90%
// with samples every 200 ms averaged over about a second.
func DefaultTokens() TokensConfig {
	return TokensConfig{
		Max: 2, Threshold: 0.9, Smoothing: 0.2,
		Hold: time.Second, MinSamples: 5,
	}
}

// maxD bounds the configured D: beyond it no device gains and tables grow.
const maxD = 64

// Validate names the field and the value that cannot be.
func (c TokensConfig) Validate() error {
	switch {
	case c.Max < 1 || c.Max > maxD:
		return fmt.Errorf("tokens %d: must lie within 1 and %d", c.Max, maxD)
	case !c.Dynamic:
		return nil
	case !(c.Threshold > 0 && c.Threshold <= 1):
		return fmt.Errorf("utilization threshold %v: must lie above 0 and at most 1", c.Threshold)
	case !(c.Smoothing > 0 && c.Smoothing <= 1):
		return fmt.Errorf("utilization smoothing %v: must lie above 0 and at most 1", c.Smoothing)
	case c.Hold < 0:
		return fmt.Errorf("token hold time %v: must not be negative", c.Hold)
	case c.MinSamples < 1:
		return fmt.Errorf("token samples %d: must be at least 1", c.MinSamples)
	}
	return nil
}

// Tokens decides D, the number of concurrent runs, for one device. A dynamic D follows the
// lower of two signals, except where throughput is proven. The first signal is NVML's
// utilization, the share of time in which any kernel ran. One busy kernel saturates it. On its
// own it would hold D at 1 for ever on a busy device and say nothing about the loss. The
// second signal is the slowdown measured at each concurrency. It shows at which concurrency
// another run stops adding throughput, and up to which concurrency it adds throughput. Full
// utilization does not lower D below the latter.
type Tokens struct {
	cfg     TokensConfig
	average float64
	sampled bool
	byUtil  int
	changed time.Duration
	learned []services // in order of first run
	slow    []mean     // slowdown by concurrency over all runs, at index k-1
}

// services is a flow's mean service in seconds at each concurrency.
type services struct {
	flow  string
	means []mean
}

// maxLearned bounds the flows that slowdowns are learned from: the slowdowns are the
// device's, and a few hundred flows suffice to learn them.
const maxLearned = 256

// mean is a running average that forgets: the weight of old observations
// falls once there are many.
type mean struct {
	value float64
	n     int
}

func (m *mean) add(v float64) {
	const window = 50
	m.n++
	m.value += (v - m.value) / float64(min(m.n, window))
}

// NewTokens returns the token count of a device, which starts at cfg.Max.
func NewTokens(cfg TokensConfig) (*Tokens, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Tokens{cfg: cfg, byUtil: cfg.Max, slow: make([]mean, cfg.Max)}, nil
}

// D returns how many runs may be in flight now.
func (t *Tokens) D() int {
	if !t.cfg.Dynamic {
		return t.cfg.Max
	}
	return min(max(t.byUtil, t.proven()), t.best())
}

// Utilization returns the moving average of the samples.
func (t *Tokens) Utilization() float64 { return t.average }

// Sample takes one reading of the device's utilization in 0 to 1. Readings that are
// not numbers are dropped; others are clamped.
func (t *Tokens) Sample(now time.Duration, utilization float64) {
	if math.IsNaN(utilization) {
		return
	}
	u := min(max(utilization, 0), 1)
	if !t.sampled {
		t.average, t.sampled = u, true
	}
	t.average += t.cfg.Smoothing * (u - t.average)
	if t.cfg.Dynamic && now-t.changed >= t.cfg.Hold {
		t.step(now)
	}
}

// step moves D by one towards the threshold. It rises only when a neighbour of
// equal appetite would stay below it (the paper takes a run to use 1/D of the
// device), which keeps it from swinging around the threshold.
func (t *Tokens) step(now time.Duration) {
	next := t.byUtil
	switch {
	case t.average > t.cfg.Threshold && t.byUtil > 1:
		next--
	case t.byUtil < t.cfg.Max && t.average*float64(t.byUtil+1)/float64(t.byUtil) <= t.cfg.Threshold:
		next++
	}
	if next != t.byUtil {
		t.byUtil, t.changed = next, now
	}
}

// Learn takes the duration of a warm run with its memory in place that shared the device with
// concurrency-1 other runs throughout. Leave out runs during which that number changed. Runs
// of one flow at two concurrencies show the slowdown, in whichever order they come.
func (t *Tokens) Learn(flow string, concurrency int, service time.Duration) {
	if !t.cfg.Dynamic || service <= 0 || concurrency < 1 {
		return
	}
	i := slices.IndexFunc(t.learned, func(s services) bool { return s.flow == flow })
	if i < 0 {
		if len(t.learned) >= maxLearned {
			return
		}
		i = len(t.learned)
		t.learned = append(t.learned, services{flow, make([]mean, t.cfg.Max)})
	}
	k := min(concurrency, t.cfg.Max)
	t.learned[i].means[k-1].add(service.Seconds())
	t.compare(k)
}

// compare updates the slowdown at k, or all slowdowns after a run alone. Flows are weighted by
// their runs.
func (t *Tokens) compare(k int) {
	from, to := k, k
	if k == 1 {
		from, to = 2, t.cfg.Max
	}
	for k := from; k <= to; k++ {
		sum, n := 0.0, 0
		for i := range t.learned {
			alone, together := t.learned[i].means[0], t.learned[i].means[k-1]
			if alone.n > 0 && together.n > 0 {
				sum += max(1, together.value/alone.value) * float64(together.n)
				n += together.n
			}
		}
		if n > 0 {
			t.slow[k-1] = mean{sum / float64(n), n}
		}
	}
}

// Forget drops the observations of a removed flow. The slowdowns stay until new ones are
// learned.
func (t *Tokens) Forget(flow string) {
	t.learned = slices.DeleteFunc(t.learned, func(s services) bool { return s.flow == flow })
}

// slowdown returns the learned s(k), and whether enough runs support it.
func (t *Tokens) slowdown(k int) (s float64, ok bool) {
	switch {
	case k <= 1:
		return 1, true
	case k > t.cfg.Max || t.slow[k-1].n < t.cfg.MinSamples:
		return 0, false
	}
	return t.slow[k-1].value, true
}

// worth is the factor of work per second that a further concurrent run must have added to
// count as proven. A smaller gain is within the variation between runs.
const worth = 1.1

// proven returns the largest k up to which every further run at once was seen
// to add throughput.
func (t *Tokens) proven() int {
	top := 1.0
	for k := 2; k <= t.cfg.Max; k++ {
		s, ok := t.slowdown(k)
		if !ok || float64(k)/s < worth*top {
			return k - 1
		}
		top = float64(k) / s
	}
	return t.cfg.Max
}

// best returns the largest k that is not known to do less work per second than a smaller one.
// An untried k counts as good.
func (t *Tokens) best() int {
	best, top := 1, 1.0
	for k := 2; k <= t.cfg.Max; k++ {
		if s, ok := t.slowdown(k); ok {
			through := float64(k) / s
			if through < top {
				return best
			}
			top = through
		}
		best = k
	}
	return best
}
