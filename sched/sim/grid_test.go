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
		Devices: []int{2}, Tokens: []int{1}, Places: []float64{0.5}, Loads: []float64{0.7},
		Kinds: []string{"burst"}, Duration: 2 * time.Minute,
	}
	cells, err := Grid(context.Background(), g, 0, 1, 2, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 2 || cells[0].Places != 12 || cells[1].Workload != "burst" {
		t.Fatalf("cells %+v", cells)
	}
	for _, c := range cells {
		if c.OverBest.Policy == "" || c.OverBest.Policy == plus || c.OverSticky.Policy != mqfq || c.OverSticky.N != 2 ||
			c.OverBest.Median < c.OverSticky.Median || c.OverBest.Median < c.OverGreedy.Median || c.OverBounded.Worst < c.OverBounded.Q90 || c.GapOfBound > 1 {
			t.Errorf("cell %+v", c)
		}
	}
	for _, c := range cells {
		for _, policy := range gridRivals() {
			if d := c.distance(policy); d.N != 2 || d.Q10 < 1 {
				t.Errorf("%s of %s is %+v times the lower bound", policy, c.Workload, d)
			}
		}
	}
	table := GridSummary(cells) + GridTable(cells)
	for _, want := range []string{"| 2 | - | - | 2 |", "| zipf | 2 | 1 | 12 | 0.70 |", "| burst | 2 | 1 | 12 | 0.70 |"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if n := strings.Count(GridDistances(cells), "\n"); n != 2+2 {
		t.Errorf("%d lines of distances:\n%s", n, GridDistances(cells))
	}
	for shard, want := range cells {
		part, err := Grid(context.Background(), g, shard, 2, 2, 0, nil)
		if err != nil || len(part) != 1 || part[0].Workload != want.Workload || part[0].OverBest.Median != want.OverBest.Median {
			t.Errorf("shard %d: %+v, want %+v, %v", shard, part, want, err)
		}
	}
	// With many devices a few places each come to the same server: 5 of 48.
	if n := len(FullGrid().Cells()); n != (4*3*4-5)*(5+6) {
		t.Errorf("the full grid has %d cells", n)
	}
}
