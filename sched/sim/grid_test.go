package sim

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestGridComparesPolicies runs a grid of two cells and reads its table.
func TestGridComparesPolicies(t *testing.T) {
	t.Parallel()
	g := GridSize{
		Devices: []int{2}, Tokens: []int{1}, Containers: []float64{0.5}, Loads: []float64{0.7},
		Kinds: []string{"burst"}, Duration: 2 * time.Minute,
	}
	cells, err := Grid(context.Background(), g, 0, 1, 2, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 2 || cells[0].Containers != 12 || cells[1].Workload != "burst" {
		t.Fatalf("cells %+v", cells)
	}
	for _, c := range cells {
		for what, ok := range map[string]bool{
			"a best other":                                  c.OverBest.Policy != "" && c.OverBest.Policy != plus,
			"mqfq-sticky over two seeds":                    c.OverSticky.Policy == mqfq && c.OverSticky.N == 2,
			"the best at least as close as mqfq-sticky":     c.OverBest.Median >= c.OverSticky.Median,
			"the best at least as close as the greedy ones": c.OverBest.Median >= c.OverGreedy.Median,
			"a worst seed beyond the quantile":              c.OverBounded.Worst >= c.OverBounded.Q90,
			"a gap within the bound":                        c.GapOfBound <= 1,
		} {
			if !ok {
				t.Errorf("%s: not %s in %+v", c.Workload, what, c)
			}
		}
	}
	for _, c := range cells {
		for _, policy := range gridRivals() {
			if d := c.distance(policy); d.N != 2 || d.Q10 < 1 {
				t.Errorf("%s of %s is %+v times the lower bound", policy, c.Workload, d)
			}
		}
	}
	table := GridSummary(cells).Markdown() + GridTable(cells).Markdown()
	for _, want := range []string{"| 2 | - | - | 2 |", "| zipf | 2 | 1 | 12 | 0.70 |", "| burst | 2 | 1 | 12 | 0.70 |"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if d := GridDistances(cells); len(d.Rows) != 2 || len(d.Rows[0]) != len(d.Head) {
		t.Errorf("distances:\n%s", d.Markdown())
	}
	for shard, want := range cells {
		part, err := Grid(context.Background(), g, shard, 2, 2, 0, nil)
		if err != nil || len(part) != 1 || part[0].Workload != want.Workload || part[0].OverBest.Median != want.OverBest.Median {
			t.Errorf("shard %d: %+v, want %+v, %v", shard, part, want, err)
		}
	}
	// With many devices a few containers each come to the same server: 5 of 48.
	if n := len(FullGrid().Cells()); n != (4*3*4-5)*(5+6) {
		t.Errorf("the full grid has %d cells", n)
	}
}
