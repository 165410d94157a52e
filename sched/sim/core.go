package sim

import (
	"errors"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// newLane builds the lane that the invoker would build on such a server, and
// names a bad parameter by its flag. Memory faults in by itself, as on a real
// device; how much of a transfer a run waits for is the link's to say.
func newLane(p Params, c *cost) (*lane.Lane, error) {
	cfg := lane.Config{
		Policy: p.Policy, Sched: p.Sched, Tokens: p.Tokens, Pool: p.Pool, Link: p.Link,
		Context: p.Context, Memory: gib, Headroom: p.Headroom,
		PrefetchActive: p.PrefetchActive, PrefetchNext: p.PrefetchNext, SwapEachRun: p.SwapEachRun,
		Faults: true,
	}
	for i := range p.Devices {
		cfg.Devices = append(cfg.Devices, gpu.Device{Index: i, MemoryBytes: p.Memory, Simulated: true})
	}
	if p.Clock != nil {
		cfg.NewPolicy = func(name string, cfg sched.Config, view sched.View) (sched.Policy, error) {
			policy, err := sched.NewPolicy(name, cfg, view)
			return &timed{policy, p.Clock, c}, err
		}
	}
	l, err := lane.New(cfg)
	if err != nil {
		return nil, errors.New(byFlag.Replace(err.Error()))
	}
	return l, nil
}

// byFlag turns the names of sched's parameters into those of the flags.
var byFlag = strings.NewReplacer(
	"sched config Overrun=", "--overrun ",
	"sched config Gap=", "--gap ",
	"sched config TTLAlpha=", "--ttl-alpha ",
	"sched config TTLMin=", "--ttl-min ",
	"sched config TTLMax=", "--ttl-max ",
	"sched config Smoothing=", "--smoothing ",
	"sched config InitialCharge=", "--initial-charge ",
	"sched config FixedCharge=", "--fixed-charge ",
	"sched config DeficitLimit=", "--deficit-limit ",
	"sched config Slowdown=", "--slowdown ",
	"sched config Patience=", "--patience ",
	"sched config Shortest=", "--shortest=",
)

// cost is what the policy's decisions take, when a clock is given.
type cost struct {
	total     time.Duration
	decisions int
}

// timed is a policy that is measured while the lane calls it.
type timed struct {
	sched.Policy
	clock func() time.Duration
	cost  *cost
}

func (t *timed) Enqueue(now time.Duration, item sched.Item) {
	defer t.add(t.clock())
	t.Policy.Enqueue(now, item)
}

func (t *timed) Next(now time.Duration) (sched.Choice, bool) {
	defer t.add(t.clock())
	return t.Policy.Next(now)
}

func (t *timed) Done(now time.Duration, id uint64, used sched.Usage) {
	defer t.add(t.clock())
	t.Policy.Done(now, id, used)
}

func (t *timed) add(since time.Duration) { t.cost.total += t.clock() - since }
