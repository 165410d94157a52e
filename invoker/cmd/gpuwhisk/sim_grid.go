package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/prettyjson"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simGridCmd compares policies over a grid of servers and workloads.
type simGridCmd struct {
	Into  string `type:"path" placeholder:"FILE" help:"Write the tables into a Markdown file, between its lines grid:begin and grid:end."`
	CSV   string `name:"csv" type:"path" placeholder:"FILE" help:"Write every cell into a CSV file."`
	Brief bool   `help:"Do not print the table of all cells."`
	Seed  uint64 `default:"1" help:"The first seed."`
	manyFlags
}

// Help is the longer text of gpuwhisk sim grid --help.
func (simGridCmd) Help() string {
	return `sticky-plus against every other policy, over numbers of devices, tokens, containers, loads,
workloads and footprints. Each cell has three ratios of sticky-plus to the best other policy in
that cell: mean latency, 99th percentile, and mean over functions. A ratio is the median over
seeds with its 95% interval, which needs at least 6 seeds.

  gpuwhisk sim grid --seeds 20 --into docs/scheduling-results.md --csv docs/results/scheduling-grid.csv`
}

// Validate checks the flags.
func (c *simGridCmd) Validate() error {
	if c.Into != "" && c.JSON {
		return errors.New("--into: writes Markdown, and --json prints JSON: give one")
	}
	return c.check()
}

func (c simGridCmd) size() sim.GridSize {
	size := sim.DefaultGrid()
	size.First = c.Seed
	return size
}

// The markers in a document between which the grid is written.
const (
	gridBegin = "<!-- grid:begin -->"
	gridEnd   = "<!-- grid:end -->"
)

// Run runs the simulations and prints the tables.
func (c simGridCmd) Run() error {
	report, end := runsOf("grid")
	cells, err := sim.Grid(interrupted(), c.size(), c.Seeds, c.Parallel, report)
	end()
	if err != nil {
		return err
	}
	return c.print(cells)
}

// print writes the tables to the outputs that the flags select.
func (c simGridCmd) print(cells []sim.GridCell) error {
	if err := writeCSV(c.CSV, sim.GridCells(cells)); err != nil {
		return err
	}
	text := gridText(cells)
	switch {
	case c.JSON:
		return prettyjson.Write(os.Stdout, cells)
	case c.Into != "":
		return insert(c.Into, gridBegin, gridEnd, text)
	case !c.Brief:
		text += "\n" + sim.GridCells(cells).Markdown()
	}
	_, err := fmt.Print(text)
	return err
}

// gridText returns the results of a grid: its goals, a line for each policy, and the
// worst cells.
func gridText(cells []sim.GridCell) string {
	last := cells[0].First + uint64(cells[0].Seeds) - 1
	text := fmt.Sprintf("Seeds %d to %d.\n\n%s\n%s\n", cells[0].First, last, sim.GridSummary(cells).Markdown(), sim.GridPolicies(cells).Markdown())
	worst := sim.GridWorst(cells)
	if len(worst.Rows) == 0 {
		return text + "No cell misses one of the first four.\n"
	}
	return text + "Cells that miss one of the first four goals: for each workload the worst cell, and their number.\n\n" + worst.Markdown()
}
