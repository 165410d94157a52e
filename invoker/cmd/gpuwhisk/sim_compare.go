package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simCompareCmd simulates one workload under every policy.
type simCompareCmd struct {
	Policies []string `help:"Policies to compare; the first is what the others are related to. All by default."`
	manyFlags
	workloadFlags
	serverFlags
}

// Help is the longer text of gpuwhisk sim compare --help.
func (simCompareCmd) Help() string {
	return `Every policy gets the same memory management and pool, but naive, which has none. Figures
are medians over seeds with the 10% and 90% quantiles; the ratio is of mean latencies to the
first policy, seed by seed. A trace is the same for every seed, so one is enough for it.`
}

// Validate says what is wrong with the flags.
func (c *simCompareCmd) Validate() error {
	if err := c.manyFlags.check(); err != nil {
		return err
	}
	return c.workloadFlags.check(c.entries(c.nothing()))
}

func (c simCompareCmd) entries(fixed *sim.Source) ([]sim.Entry, error) {
	policies := c.Policies
	if len(policies) == 0 {
		policies = sim.PolicyNames()
	}
	return sim.Entries(policies, c.overrides(), c.spec(), fixed)
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
	serverFlags
}

// Help is the longer text of gpuwhisk sim sweep --help.
func (simSweepCmd) Help() string {
	names, texts, values := sim.Knobs()
	var b strings.Builder
	b.WriteString("Parameters and their usual values:\n\n")
	for i := range names {
		fmt.Fprintf(&b, "  %-10s %-40s %s\n", names[i], texts[i], values[i])
	}
	return b.String()
}

// Validate says what is wrong with the flags.
func (c *simSweepCmd) Validate() error {
	if err := c.manyFlags.check(); err != nil {
		return err
	}
	return c.workloadFlags.check(c.entries(c.nothing()))
}

func (c simSweepCmd) entries(fixed *sim.Source) ([]sim.Entry, error) {
	return sim.Sweep(c.Over, c.Values, c.Policies, c.overrides(), c.spec(), fixed)
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

// compare runs entries and prints their figures.
func compare(entries []sim.Entry, first uint64, many manyFlags, fixed bool, what string) error {
	seeds := many.Seeds
	if fixed {
		seeds = min(seeds, 1)
	}
	ctx, stop := untilSignal()
	defer stop()
	report, end := progress(what)
	figures, err := sim.Compare(ctx, entries, first, seeds, many.Parallel, report)
	end()
	if err != nil {
		return err
	}
	if many.JSON {
		return printJSON(os.Stdout, figures)
	}
	return printFigures(os.Stdout, figures)
}

func printFigures(to io.Writer, figures []sim.Figure) error {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\t\tmean s [q10 q90]\tratio [q10 q90]\tp99 s\tlower bound s\tover it\tcold\thost-warm\tgap s\tof bound\tleft\t")
	for _, f := range figures {
		left := ""
		if f.Unfinished > 0 {
			left = fmt.Sprint(f.Unfinished)
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f [%.2f %.2f]\t%.2f [%.2f %.2f]\t%.1f\t%.2f\t%.2f\t%.1f%%\t%.1f%%\t%.1f\t%.2f\t%s\t\n",
			f.Policy, f.Setting, f.Mean.Median, f.Mean.Q10, f.Mean.Q90, f.Ratio.Median, f.Ratio.Q10, f.Ratio.Q90,
			f.P99.Median, f.LowerBound.Median, f.OverBound.Median, 100*f.ColdShare.Median, 100*f.HostShare.Median,
			f.Gap.Median, f.GapOfBound, left)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range figures {
		if f.Note != "" {
			fmt.Fprintf(to, "%s %s: %s\n", f.Policy, f.Setting, f.Note)
		}
	}
	return nil
}
