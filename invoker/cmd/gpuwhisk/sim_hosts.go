package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/hostsim"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull/slot"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simHostsCmd simulates several hosts in scheduler mode, or in classic mode behind
// forwarders.
type simHostsCmd struct {
	Policy     string        `default:"sticky-plus" help:"Policy of the hosts."`
	Hosts      int           `default:"4" group:"Hosts" help:"Number of hosts."`
	Forward    bool          `group:"Hosts" help:"Hosts in classic mode that get their activations from forwarders."`
	PauseGrace time.Duration `default:"10s" group:"Hosts" help:"How long a function's idle slot keeps fetching work."`
	Containers int           `default:"1000" group:"Hosts" help:"Containers that the namespace may have; OpenWhisk's default is 30."`
	Random     bool          `group:"Hosts" help:"Also simulate hosts that write no warmed keys into etcd."`
	Seeds      int           `default:"1" group:"Seeds" help:"Number of seeds."`
	workloadFlags
	sim.Options
}

// Help is the longer text of gpuwhisk sim hosts --help.
func (simHostsCmd) Help() string {
	return `Each host runs the code by which an invoker decides in OpenWhisk's scheduler mode; the
scheduler hands out activations and orders containers as the original does. They are
compared with hosts that each serve a fixed part of the functions: equal parts if the
functions have the same demand (alone), or the functions whose random home host it is, as in
classic mode (classic). With --random there are also hosts that write no warmed keys into
etcd, so that functions are placed at random. Load is a share of the capacity of all hosts. Jain's
index is over the device time of functions, as shares of their demand. Idle is the longest
time that an activation was at the scheduler while the host that took it could have started it.

  gpuwhisk sim hosts --workload equal --count 100 --load 0.4

With --forward the hosts are in classic mode, and invokers without a GPU choose among them
by the code of whisk.gpu.forward-to, from pings that are up to 1.5 s old. Each host adds
the same number of functions and the same load. In the ideal each host serves only the
functions that it added, so that all hosts have the same load.

  gpuwhisk sim hosts --forward --hosts 16 --gpu-memory 80GB --pool 128`
}

// Validate checks the flags.
func (c *simHostsCmd) Validate(k *kong.Context) error {
	most := 64
	if c.Forward {
		most = 1000
	}
	if c.Hosts < 1 || c.Hosts > most {
		return fmt.Errorf("--hosts %d: must lie within 1 and %d", c.Hosts, most)
	}
	if c.Count < c.Hosts && !c.Forward {
		return fmt.Errorf("--count %d: must be at least --hosts", c.Count)
	}
	if c.Containers < 1 {
		return fmt.Errorf("--containers %d: must be at least 1", c.Containers)
	}
	if err := sim.CheckSeeds(c.Seeds); err != nil {
		return err
	}
	entries, err := sim.Entries([]string{c.Policy}, c.Options, c.Spec, c.unread())
	return c.check(k, entries, err)
}

// Run simulates and prints.
func (c simHostsCmd) Run() error {
	p, err := c.Apply(c.Policy)
	if err != nil {
		return err
	}
	trace, err := c.trace()
	if err != nil {
		return err
	}
	if c.Forward {
		if trace != nil {
			return errors.New("--trace: --forward makes a workload for each host")
		}
		return c.forward(p)
	}
	t := sim.Table{Head: []string{"seed", "hosts", "mean", "p99", "over alone", "warm", "at scheduler", "longest", "idle", "Jain", "hosts per function", "creations", "failed"}}
	var over [2][]float64
	for range c.Seeds {
		cfg := hostsim.Config{
			Hosts: c.Hosts, Server: p, Rule: slot.DefaultGPU(p.GPUs, p.Tokens.Max), Limit: c.Containers, PauseGrace: c.PauseGrace,
			Seed: c.Seed, Warmup: p.Warmup, Workload: trace,
		}
		if trace == nil {
			spec := c.Spec
			spec.Capacity = float64(c.Hosts) * sim.Capacity(p)
			if cfg.Workload, err = spec.Build(); err != nil {
				return err
			}
		}
		ratios, err := compareHosts(&t, cfg, c.Random)
		if err != nil {
			return err
		}
		for i := range over {
			over[i] = append(over[i], ratios[i])
		}
		c.Seed++
	}
	if err := t.Text(os.Stdout); err != nil {
		return err
	}
	return cmp.Or(summary("shared over alone", over[0]), summary("shared over classic", over[1]))
}

// summary prints the distribution of a ratio over all seeds.
func summary(what string, over []float64) error {
	slices.Sort(over)
	n := len(over)
	text := fmt.Sprintf("%s: median %.2f", what, (over[(n-1)/2]+over[n/2])/2)
	if in := sim.IntervalOf(over); in != nil {
		text += fmt.Sprintf(" (95%% interval %.2f to %.2f)", in.Low, in.High)
	}
	_, err := fmt.Printf("%s, least %.2f, largest %.2f\n", text, over[0], over[n-1])
	return err
}

// compareHosts adds the lines of one workload. It returns two ratios of mean latencies:
// hosts that share the functions to hosts alone, and to hosts in classic mode.
func compareHosts(t *sim.Table, cfg hostsim.Config, random bool) (over [2]float64, err error) {
	var mean [2]time.Duration
	for i, simulate := range []func(hostsim.Config) ([]*sim.Result, error){hostsim.Alone, hostsim.Classic} {
		all, err := simulate(cfg)
		if err != nil {
			return over, err
		}
		var warm float64
		mean[i], warm = hostsim.MeanOf(all)
		t.Add(cfg.Seed, [...]string{"alone", "classic"}[i], seconds(mean[i]), "", ratio(mean[i], mean[0]), fmt.Sprintf("%.3f", warm), "", "", "", "", "1.00", "", "")
	}
	line := func(name string) (*hostsim.Result, error) {
		r, err := hostsim.Run(cfg)
		if err != nil {
			return nil, fmt.Errorf("%s, seed %d: %w", name, cfg.Seed, err)
		}
		t.Add(cfg.Seed, name, seconds(r.Mean), seconds(r.P99), ratio(r.Mean, mean[0]), fmt.Sprintf("%.3f", r.Warm),
			seconds(r.AtScheduler), seconds(r.MostAtScheduler), seconds(r.Idle), fmt.Sprintf("%.3f", r.Fairness()), fmt.Sprintf("%.2f", r.HostsPerFunction), r.Creations, r.Failed)
		return r, nil
	}
	shared, err := line("shared")
	if err != nil {
		return over, err
	}
	for i := range over {
		over[i] = float64(shared.Mean) / float64(mean[i])
	}
	if random {
		cfg.Random = true
		_, err = line("random")
	}
	return over, err
}

func ratio(a, b time.Duration) string { return fmt.Sprintf("%.2f", float64(a)/float64(b)) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// forward simulates hosts of classic mode behind forwarders, and prints.
func (c simHostsCmd) forward(p sim.Params) error {
	t := sim.Table{Head: []string{"seed", "hosts", "mean", "p99", "over ideal", "warm", "hosts per function"}}
	var over []float64
	for range c.Seeds {
		w, err := hostsim.Copies(c.Hosts, func(copy int) (*sim.Workload, error) {
			spec := c.Spec
			spec.Capacity = sim.Capacity(p)
			spec.Seed += uint64(copy) * 1000
			return spec.Build()
		})
		if err != nil {
			return err
		}
		all, err := hostsim.Alone(hostsim.Config{Hosts: c.Hosts, Server: p, Workload: w, Warmup: p.Warmup})
		if err != nil {
			return err
		}
		ideal, warm := hostsim.MeanOf(all)
		t.Add(c.Seed, "ideal", seconds(ideal), "", "1.00", fmt.Sprintf("%.3f", warm), "1.00")
		r, err := hostsim.Forward(hostsim.ForwardConfig{Hosts: c.Hosts, Server: p, Workload: w, Seed: c.Seed, Warmup: p.Warmup})
		if err != nil {
			return fmt.Errorf("seed %d: %w", c.Seed, err)
		}
		t.Add(c.Seed, "forwarded", seconds(r.Mean), seconds(r.P99), ratio(r.Mean, ideal), fmt.Sprintf("%.3f", r.Warm), fmt.Sprintf("%.2f", r.HostsPerFunction))
		over = append(over, float64(r.Mean)/float64(ideal))
		c.Seed++
	}
	if err := t.Text(os.Stdout); err != nil {
		return err
	}
	return summary("forwarded over ideal", over)
}
