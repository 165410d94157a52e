package hostsim

import (
	"reflect"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/pull/slot"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// hosts are four hosts, and a workload of a hundred functions.
func hosts(t *testing.T, kind string, load float64, duration time.Duration) Config {
	t.Helper()
	p, err := sim.DefaultParams("sticky-plus")
	if err != nil {
		t.Fatal(err)
	}
	spec := sim.DefaultSpec()
	spec.Kind, spec.Count, spec.Load, spec.Zipf, spec.Duration = kind, 100, load, 1, duration
	spec.Capacity = 4 * sim.Capacity(p)
	w, err := spec.Build()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Hosts: 4, Server: p, Workload: w, Rule: slot.DefaultGPU(p.GPUs, p.Tokens.Max),
		Limit: 1000, PauseGrace: 10 * time.Second, Seed: 1,
	}
}

func run(t *testing.T, cfg Config) *Result {
	t.Helper()
	r, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed > 0 {
		t.Errorf("the scheduler failed %d activations", r.Failed)
	}
	// A scheduler fails what it has had for a minute.
	if r.MostAtScheduler > 45*time.Second {
		t.Errorf("an activation was at the scheduler for %v", r.MostAtScheduler)
	}
	return r
}

// Hosts that share their load are not slower than such that have a part of it each,
// functions with equal demand get equal parts, and what waits at the scheduler waits
// for work that its host has: only the retries of a creation, 3.1 s, come on top.
func TestHostsShareTheirLoad(t *testing.T) {
	for kind, c := range map[string]struct{ load, most float64 }{"equal": {0.4, 1.2}, "zipf": {0.6, 0.5}} {
		cfg := hosts(t, kind, c.load, 12*time.Minute)
		cfg.Warmup = 4 * time.Minute
		all, err := Alone(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r, alone := run(t, cfg), time.Duration(0)
		if alone, _ = MeanOf(all); float64(r.Mean) > c.most*float64(alone) {
			t.Errorf("%s: mean %v, of hosts by themselves %v", kind, r.Mean, alone)
		}
		if r.Idle > 3500*time.Millisecond {
			t.Errorf("%s: an activation was at the scheduler for %v while its host was idle", kind, r.Idle)
		}
		if f := r.Fairness(); kind == "equal" && f < 0.95 {
			t.Errorf("%s: Jain's index is %.3f", kind, f)
		}
	}
}

// Warmed keys keep functions where they are warm.
func TestFunctionsStayWhereTheyAreWarm(t *testing.T) {
	cfg := hosts(t, "zipf", 0.4, 10*time.Minute)
	warm := run(t, cfg)
	cfg.Random = true
	random := run(t, cfg)
	if warm.Warm < random.Warm+0.1 || warm.HostsPerFunction > random.HostsPerFunction-1 {
		t.Errorf("warm starts %.3f on %.2f hosts for each function, at random %.3f on %.2f",
			warm.Warm, warm.HostsPerFunction, random.Warm, random.HostsPerFunction)
	}
}

// More than all hosts can serve waits in their queues, and none fails at the scheduler.
func TestOverloadWaitsInTheHosts(t *testing.T) {
	cfg := hosts(t, "zipf", 1.5, 5*time.Minute)
	run(t, cfg)
}

func TestSameSeedGivesTheSame(t *testing.T) {
	cfg := hosts(t, "equal", 0.7, 2*time.Minute)
	if a, b := run(t, cfg), run(t, cfg); !reflect.DeepEqual(a, b) {
		t.Error("two runs differ")
	}
}
