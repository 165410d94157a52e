package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/prettyjson"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// comparison holds the flags of commands that compare rows.
type comparison struct {
	manyFlags
	workloadFlags
	sim.Options
}

// validate checks the flags. entries makes the rows from the flags.
func (c comparison) validate(k *kong.Context, entries func(trace *sim.Workload) ([]sim.Entry, error)) error {
	if err := c.manyFlags.check(); err != nil {
		return err
	}
	rows, err := entries(c.unread())
	return c.workloadFlags.check(k, rows, err)
}

// compare runs the rows and prints their summaries.
func (c comparison) compare(what string, entries func(trace *sim.Workload) ([]sim.Entry, error)) error {
	trace, err := c.trace()
	if err != nil {
		return err
	}
	rows, err := entries(trace)
	if err != nil {
		return err
	}
	seeds := c.Seeds
	if trace != nil {
		seeds = min(seeds, 1)
	}
	report, end := runsOf(what)
	summaries, err := sim.Compare(interrupted(), rows, c.Seed, seeds, c.Parallel, report)
	end()
	switch {
	case err != nil:
		return err
	case c.JSON:
		return prettyjson.Write(os.Stdout, summaries)
	}
	if err := sim.SummaryTable(summaries).Text(os.Stdout); err != nil {
		return err
	}
	for _, s := range summaries {
		if s.Warning != "" {
			fmt.Printf("%s %s: %s\n", s.Policy, s.Setting, s.Warning)
		}
	}
	return nil
}

// simCompareCmd simulates one workload under every policy.
type simCompareCmd struct {
	Policies []string `help:"Policies to compare, in relation to the first one. All by default."`
	comparison
}

// Help is the longer text of gpuwhisk sim compare --help.
func (simCompareCmd) Help() string {
	return `Every policy except naive gets the same memory management and pool; naive has none. Figures
are medians over seeds with the 10% and 90% quantiles; the ratio is of mean latencies to the
first policy, seed by seed. A trace is the same for every seed, so one is enough for it.`
}

func (c simCompareCmd) entries(trace *sim.Workload) ([]sim.Entry, error) {
	policies := c.Policies
	if len(policies) == 0 {
		policies = sim.PolicyNames()
	}
	return sim.Entries(policies, c.Options, c.Spec, trace)
}

// Validate checks the flags.
func (c *simCompareCmd) Validate(k *kong.Context) error { return c.validate(k, c.entries) }

// Run compares and prints.
func (c simCompareCmd) Run() error { return c.compare("compare", c.entries) }

// simSweepCmd varies one parameter.
type simSweepCmd struct {
	Over     string   `default:"overrun" help:"Parameter: overrun (T), tokens (D), ttl-alpha, ttl, pool, devices, retention, load, weight."`
	Values   string   `help:"Values, comma-separated; the usual ones by default."`
	Policies []string `default:"mqfq-sticky" help:"Policies to sweep."`
	comparison
}

// Help is the longer text of gpuwhisk sim sweep --help.
func (simSweepCmd) Help() string {
	var b strings.Builder
	b.WriteString("Parameters and their usual values:\n\n")
	for _, s := range sim.SweptParameters() {
		fmt.Fprintf(&b, "  %-10s %-40s %s\n", s.Name, s.Text, s.Values)
	}
	return b.String()
}

func (c simSweepCmd) entries(trace *sim.Workload) ([]sim.Entry, error) {
	return sim.Sweep(c.Over, c.Values, c.Policies, c.Options, c.Spec, trace)
}

// Validate checks the flags.
func (c *simSweepCmd) Validate(k *kong.Context) error { return c.validate(k, c.entries) }

// Run sweeps and prints.
func (c simSweepCmd) Run() error { return c.compare("sweep", c.entries) }
