package hostsim

import (
	"reflect"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// forwarded returns hosts with a GPU of 80 GB, and as many copies of the paper's Zipf
// class.
func forwarded(t *testing.T, hosts int) ForwardConfig {
	t.Helper()
	p, err := sim.DefaultParams("sticky-plus")
	check.NoError(t, err)
	p.GPUMemory, p.Pool.Size = 80<<30, 128
	w, err := Copies(hosts, func(copy int) (*sim.Workload, error) {
		spec := sim.DefaultSpec()
		spec.Duration, spec.Seed, spec.Capacity = 30*time.Minute, uint64(copy+1), sim.Capacity(p)
		return spec.Build()
	})
	check.NoError(t, err)
	return ForwardConfig{Hosts: hosts, Server: p, Workload: w, Seed: 1, Warmup: 10 * time.Minute}
}

// TestForwardingIsNearIdeal: hosts that get their activations from forwarders are nearly
// as fast as hosts that each have an equal part of the load to themselves.
func TestForwardingIsNearIdeal(t *testing.T) {
	for _, hosts := range []int{4, 16} {
		cfg := forwarded(t, hosts)
		r, err := Forward(cfg)
		check.NoError(t, err)
		all, err := Alone(Config{Hosts: hosts, Server: cfg.Server, Workload: cfg.Workload, Warmup: cfg.Warmup})
		check.NoError(t, err)
		ideal, _ := MeanOf(all)
		check.AtMost(t, float64(r.Mean), 1.2*float64(ideal), "%d hosts: the ideal is %v", hosts, ideal)
		check.AtLeast(t, r.Warm, 0.97, "%d hosts", hosts)
	}
}

func TestForwardingIsReproducible(t *testing.T) {
	cfg := forwarded(t, 4)
	cfg.Workload.Horizon, cfg.Workload.Arrivals = 5*time.Minute, cfg.Workload.Arrivals[:800]
	cfg.Warmup = 0
	first, err := Forward(cfg)
	check.NoError(t, err)
	second, err := Forward(cfg)
	check.NoError(t, err)
	check.That(t, reflect.DeepEqual(first, second), "%+v and %+v", first, second)
}
