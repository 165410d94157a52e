package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simGridCmd compares policies over a grid of servers and workloads.
type simGridCmd struct {
	Full  bool     `help:"Devices 1 to 8, D 1 to 4, loads 0.3 to 0.95, adversaries: two hours of processor time."`
	Shard string   `placeholder:"K/N" help:"Only the K-th of N parts of the cells, to run parts one after another or on several machines. Needs --json."`
	From  []string `type:"existingfile" sep:"none" placeholder:"FILE" help:"Run nothing: read what --json has written, each part by a flag of its own."`
	Into  string   `type:"path" placeholder:"FILE" help:"Write the tables into a Markdown file, between its lines grid:begin and grid:end."`
	CSV   string   `name:"csv" type:"path" placeholder:"FILE" help:"Write every cell into a CSV file."`
	Brief bool     `help:"Leave the table of all cells out of what is printed."`
	Seed  uint64   `default:"1" help:"The first seed."`
	Rule  string   `name:"retention" placeholder:"demand" help:"Which idle container is evicted, under all policies alike: lru, flow-lru, protect-lru, demand. Each has its own unless set."`
	manyFlags
}

// Help is the longer text of gpuwhisk sim grid --help.
func (simGridCmd) Help() string {
	return `sticky-plus against every other policy, over numbers of devices, tokens, containers, loads,
workloads, footprints and adversaries. Each cell is how its mean latency, its 99th percentile
and its mean over functions relate to those of the best other policy in that cell: the median
over seeds, and its interval with 95% confidence, which takes 6 seeds at least.

  gpuwhisk sim grid --seeds 20
  gpuwhisk sim grid --full --shard 1/8 --json > part1.json
  gpuwhisk sim grid --from part1.json --from part2.json --into docs/scheduling-results.md \
    --csv docs/results/scheduling-grid.csv`
}

// Validate names what is wrong with the flags.
func (c *simGridCmd) Validate() error {
	if _, _, err := c.part(); err != nil {
		return err
	}
	switch {
	case len(c.From) > 0 && (c.Shard != "" || c.Full):
		return fmt.Errorf("--from: runs nothing, so that --shard and --full have no effect")
	case c.Into != "" && c.JSON:
		return fmt.Errorf("--into: writes Markdown, and --json prints JSON: want one of them")
	}
	return c.check()
}

// part returns which of how many parts of the cells is asked for.
func (c simGridCmd) part() (shard, shards int, err error) {
	if c.Shard == "" {
		return 1, 1, nil
	}
	k, n, ok := strings.Cut(c.Shard, "/")
	shard, badK := strconv.Atoi(k)
	shards, badN := strconv.Atoi(n)
	most := len(c.size().Cells())
	switch {
	case !ok || badK != nil || badN != nil || shard < 1 || shard > shards:
		return 0, 0, fmt.Errorf("--shard %s: must be like 2/8, from 1/8 to 8/8", c.Shard)
	case shards > most:
		return 0, 0, fmt.Errorf("--shard %s: the grid has %d cells, so at most %d parts", c.Shard, most, most)
	case !c.JSON:
		return 0, 0, fmt.Errorf("--shard %s: a part of the grid is for --json, and --from reads it", c.Shard)
	}
	return shard, shards, nil
}

func (c simGridCmd) size() sim.GridSize {
	size := sim.QuickGrid()
	if c.Full {
		size = sim.FullGrid()
	}
	size.First, size.Retention = c.Seed, c.Rule
	return size
}

// The lines of a document between which the grid stands.
const (
	gridBegin = "<!-- grid:begin -->"
	gridEnd   = "<!-- grid:end -->"
)

// Run makes the runs, or reads them, and prints the tables.
func (c simGridCmd) Run() error {
	cells, err := c.cells()
	if err != nil {
		return err
	}
	if c.CSV != "" {
		if err := writeCSV(c.CSV, "--csv", sim.GridCells(cells)); err != nil {
			return err
		}
	}
	text := gridText(cells)
	switch {
	case c.JSON:
		return printJSON(os.Stdout, cells)
	case c.Into != "":
		return insert(c.Into, gridBegin, gridEnd, text)
	case !c.Brief:
		text += "\n" + sim.GridCells(cells).Markdown()
	}
	_, err = fmt.Print(text)
	return err
}

// gridText is what a grid comes to: its goals, a line for each policy, and the
// worst cells.
func gridText(cells []sim.GridCell) string {
	last := cells[0].First + uint64(cells[0].Seeds) - 1
	text := fmt.Sprintf("Seeds %d to %d.\n\n%s\n%s\n", cells[0].First, last, sim.GridSummary(cells).Markdown(), sim.GridPolicies(cells).Markdown())
	worst := sim.GridWorst(cells)
	if len(worst.Rows) == 0 {
		return text + "No cell misses one of the first four.\n"
	}
	return text + "The worst cell of each workload of those that miss one of the first four:\n\n" + worst.Markdown()
}

// cells gives the cells asked for, by running them or from files.
func (c simGridCmd) cells() (cells []sim.GridCell, err error) {
	if len(c.From) > 0 {
		return c.read()
	}
	shard, shards, err := c.part()
	if err != nil {
		return nil, err
	}
	err = c.run("grid", func(ctx context.Context, report sim.Progress) (err error) {
		cells, err = sim.Grid(ctx, c.size(), shard-1, shards, c.Seeds, c.Parallel, report)
		return err
	})
	return cells, err
}

// read joins parts of one grid.
func (c simGridCmd) read() (cells []sim.GridCell, err error) {
	for _, name := range c.From {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("--from: %w", err)
		}
		var part []sim.GridCell
		if err := json.Unmarshal(data, &part); err != nil {
			return nil, fmt.Errorf("--from %s: %w", name, err)
		}
		cells = append(cells, part...)
	}
	if err := sim.JoinGrid(cells); err != nil {
		return nil, fmt.Errorf("--from %s: %w", strings.Join(c.From, ", "), err)
	}
	return cells, nil
}
