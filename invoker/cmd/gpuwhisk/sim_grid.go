package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simGridCmd compares policies over a grid of servers and workloads.
type simGridCmd struct {
	Full bool   `help:"Devices 1 to 8, D 1 to 4, loads 0.3 to 0.95, adversaries, half an hour each: this takes hours."`
	Into string `type:"path" placeholder:"FILE" help:"Write the tables into a Markdown file, between its marks grid:begin and grid:end."`
	manyFlags
}

// Help is the longer text of gpuwhisk sim grid --help.
func (simGridCmd) Help() string {
	return `sticky-plus against every other policy, over numbers of devices, tokens, containers, loads,
bursts and adversaries. Each cell says how its mean latency relates to mqfq-sticky's and to that
of the best other policy in that cell, as median with 10% and 90% quantiles over seeds.`
}

// Run makes the runs and prints the table.
func (c simGridCmd) Run() error {
	ctx, stop := untilSignal()
	defer stop()
	size := sim.QuickGrid()
	if c.Full {
		size = sim.FullGrid()
	}
	report, end := progress("grid")
	cells, err := sim.Grid(ctx, size, c.Seeds, c.Parallel, report)
	end()
	switch {
	case err != nil:
		return err
	case c.JSON:
		return printJSON(os.Stdout, cells)
	case c.Into == "":
		_, err = fmt.Print(sim.GridTable(cells))
		return err
	}
	document, err := os.ReadFile(c.Into)
	if err != nil {
		return fmt.Errorf("--into: %w", err)
	}
	const from, to = "<!-- grid:begin -->\n", "<!-- grid:end -->"
	before, rest, ok := strings.Cut(string(document), from)
	_, after, closed := strings.Cut(rest, to)
	if !ok || !closed {
		return fmt.Errorf("--into %s: the marks grid:begin and grid:end are not there", c.Into)
	}
	text := fmt.Sprintf("%s%sSeeds 1 to %d.\n\n%s%s%s", before, from, c.Seeds, sim.GridTable(cells), to, after)
	return os.WriteFile(c.Into, []byte(text), 0o644)
}
