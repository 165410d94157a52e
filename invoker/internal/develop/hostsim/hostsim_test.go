package hostsim

import (
	"reflect"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull/slot"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// hosts returns four hosts, and a workload of a hundred functions.
func hosts(t *testing.T, kind string, load float64, duration time.Duration) Config {
	t.Helper()
	p, err := sim.DefaultParams("sticky-plus")
	check.NoError(t, err)
	spec := sim.DefaultSpec()
	spec.Kind, spec.Count, spec.Load, spec.Zipf, spec.Duration = kind, 100, load, 1, duration
	spec.Capacity = 4 * sim.Capacity(p)
	w, err := spec.Build()
	check.NoError(t, err)
	return Config{
		Hosts: 4, Server: p, Workload: w, Rule: slot.DefaultGPU(p.GPUs, p.Tokens.Max),
		Limit: 1000, PauseGrace: 10 * time.Second, Seed: 1,
	}
}

func run(t *testing.T, cfg Config) *Result {
	t.Helper()
	r, err := Run(cfg)
	check.NoError(t, err)
	check.Equal(t, r.Failed, 0)
	check.AtMost(t, r.MostAtScheduler, 45*time.Second) // the scheduler fails activations after a minute
	return r
}

// TestHostsShareTheirLoad: hosts that share their load are not slower than hosts with
// separate parts, and functions with equal demand get equal parts. An activation at the
// scheduler waits only while its host is busy, except for the retries of a creation, 3.1
// s.
func TestHostsShareTheirLoad(t *testing.T) {
	for kind, c := range map[string]struct{ load, most float64 }{"equal": {0.4, 1.2}, "zipf": {0.6, 0.5}} {
		cfg := hosts(t, kind, c.load, 12*time.Minute)
		cfg.Warmup = 4 * time.Minute
		all, err := Alone(cfg)
		check.NoError(t, err)
		r := run(t, cfg)
		alone, _ := MeanOf(all)
		check.AtMost(t, float64(r.Mean), c.most*float64(alone), "%s: that of hosts by themselves is %v", kind, alone)
		check.AtMost(t, r.Idle, 3500*time.Millisecond, "%s", kind)
		if kind == "equal" {
			check.AtLeast(t, r.Fairness(), 0.95)
		}
	}
}

// TestFunctionsStayWhereTheyAreWarm: warmed keys keep functions on hosts where they are
// warm.
func TestFunctionsStayWhereTheyAreWarm(t *testing.T) {
	cfg := hosts(t, "zipf", 0.4, 10*time.Minute)
	warm := run(t, cfg)
	cfg.Random = true
	random := run(t, cfg)
	check.AtLeast(t, warm.Warm, random.Warm+0.1)
	check.AtMost(t, warm.HostsPerFunction, random.HostsPerFunction-1)
}

// TestOverloadWaitsInTheHosts: excess load waits in the queues of hosts, and no
// activation fails at the scheduler.
func TestOverloadWaitsInTheHosts(t *testing.T) {
	cfg := hosts(t, "zipf", 1.5, 5*time.Minute)
	run(t, cfg)
}

func TestSameSeedGivesTheSame(t *testing.T) {
	cfg := hosts(t, "equal", 0.7, 2*time.Minute)
	check.That(t, reflect.DeepEqual(run(t, cfg), run(t, cfg)), "two runs differ")
}
