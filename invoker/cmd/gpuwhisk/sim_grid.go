package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simGridCmd compares policies over a grid of servers and workloads.
type simGridCmd struct {
	Full  bool     `help:"Devices 1 to 8, D 1 to 4, loads 0.3 to 0.95, adversaries: this takes hours."`
	Shard string   `placeholder:"K/N" help:"Only the K-th of N parts of the cells, to run parts one after another or on several machines. Needs --json."`
	From  []string `type:"path" sep:"none" placeholder:"FILE" help:"Run nothing: read what --json has written, each part by a flag of its own."`
	Into  string   `type:"path" placeholder:"FILE" help:"Write the tables into a Markdown file, between its marks grid:begin and grid:end."`
	Brief bool     `help:"Leave the table of all cells out."`
	manyFlags
}

// Help is the longer text of gpuwhisk sim grid --help.
func (simGridCmd) Help() string {
	return `sticky-plus against every other policy, over numbers of devices, tokens, containers, loads,
bursts and adversaries. Each cell says how its mean latency relates to mqfq-sticky's and to that
of the best other policy in that cell: the median over seeds, and the interval that holds it with
95% confidence, which takes 6 seeds at least.

  gpuwhisk sim grid --seeds 20
  gpuwhisk sim grid --full --shard 1/8 --json > part1.json
  gpuwhisk sim grid --from part1.json --from part2.json --into docs/results/grid.md`
}

// Run makes the runs, or reads them, and prints the tables.
func (c simGridCmd) Run() error {
	cells, err := c.cells()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("Seeds 1 to %d.\n\n%s", cells[0].Seeds, sim.GridSummary(cells))
	if !c.Brief {
		text += "\n" + sim.GridTable(cells)
	}
	switch {
	case c.JSON:
		return printJSON(os.Stdout, cells)
	case c.Into == "":
		_, err = fmt.Print(text)
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
	return os.WriteFile(c.Into, []byte(before+from+text+to+after), 0o644)
}

// cells gives the cells asked for, by running them or from files.
func (c simGridCmd) cells() (cells []sim.GridCell, err error) {
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
	if len(c.From) > 0 {
		if len(cells) == 0 {
			return nil, fmt.Errorf("--from: no cells in %s", strings.Join(c.From, ", "))
		}
		sim.SortGrid(cells)
		return cells, nil
	}
	shard, shards := 1, 1
	if c.Shard != "" {
		if _, err := fmt.Sscanf(c.Shard+" ", "%d/%d ", &shard, &shards); err != nil || shard < 1 || shard > shards {
			return nil, fmt.Errorf("--shard %s: must be like 2/8, from 1/8 to 8/8", c.Shard)
		}
		if !c.JSON {
			return nil, fmt.Errorf("--shard %s: a part of the grid is for --json, and --from reads it", c.Shard)
		}
	}
	ctx, stop := untilSignal()
	defer stop()
	size := sim.QuickGrid()
	if c.Full {
		size = sim.FullGrid()
	}
	report, end := progress("grid")
	defer end()
	return sim.Grid(ctx, size, shard-1, shards, c.Seeds, c.Parallel, report)
}
