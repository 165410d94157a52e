package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simCompareCmd simulates one workload under every policy.
type simCompareCmd struct {
	Policies []string `help:"Policies to compare; the first is what the others are related to. All by default."`
	manyFlags
	workloadFlags
	sim.Options
}

// Help is the longer text of gpuwhisk sim compare --help.
func (simCompareCmd) Help() string {
	return `Every policy gets the same memory management and pool, but naive, which has none. Figures
are medians over seeds with the 10% and 90% quantiles; the ratio is of mean latencies to the
first policy, seed by seed. A trace is the same for every seed, so one is enough for it.`
}

// Validate names what is wrong with the flags.
func (c *simCompareCmd) Validate(k *kong.Context) error {
	if err := c.manyFlags.check(); err != nil {
		return err
	}
	entries, err := c.entries(c.unread())
	return c.workloadFlags.check(k, entries, err)
}

func (c simCompareCmd) entries(fixed *sim.Source) ([]sim.Entry, error) {
	policies := c.Policies
	if len(policies) == 0 {
		policies = sim.PolicyNames()
	}
	return sim.Entries(policies, c.Options, c.Spec, fixed)
}

// Run compares and prints.
func (c simCompareCmd) Run() error {
	fixed, err := c.trace()
	if err != nil {
		return err
	}
	entries, err := c.entries(fixed)
	if err != nil {
		return err
	}
	return compare(entries, c.Seed, c.manyFlags, fixed != nil, "compare")
}

// simSweepCmd varies one parameter.
type simSweepCmd struct {
	Over     string   `default:"overrun" help:"Parameter: overrun (T), tokens (D), ttl-alpha, ttl, pool, devices, retention, load, weight."`
	Values   string   `help:"Values, comma-separated; the usual ones by default."`
	Policies []string `default:"mqfq-sticky" help:"Policies to sweep."`
	manyFlags
	workloadFlags
	sim.Options
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

// Validate names what is wrong with the flags.
func (c *simSweepCmd) Validate(k *kong.Context) error {
	if err := c.manyFlags.check(); err != nil {
		return err
	}
	entries, err := c.entries(c.unread())
	return c.workloadFlags.check(k, entries, err)
}

func (c simSweepCmd) entries(fixed *sim.Source) ([]sim.Entry, error) {
	return sim.Sweep(c.Over, c.Values, c.Policies, c.Options, c.Spec, fixed)
}

// Run sweeps and prints.
func (c simSweepCmd) Run() error {
	fixed, err := c.trace()
	if err != nil {
		return err
	}
	entries, err := c.entries(fixed)
	if err != nil {
		return err
	}
	return compare(entries, c.Seed, c.manyFlags, fixed != nil, "sweep")
}

// compare runs entries and prints their summaries.
func compare(entries []sim.Entry, first uint64, many manyFlags, fixed bool, what string) error {
	seeds := many.Seeds
	if fixed {
		seeds = min(seeds, 1)
	}
	var summaries []sim.Summary
	err := many.run(what, func(ctx context.Context, report sim.Progress) (err error) {
		summaries, err = sim.Compare(ctx, entries, first, seeds, many.Parallel, report)
		return err
	})
	if err != nil {
		return err
	}
	if many.JSON {
		return printJSON(os.Stdout, summaries)
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
