package sim

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestGridComparesPolicies runs a grid of two cells and reads its table.
func TestGridComparesPolicies(t *testing.T) {
	g := GridSize{
		Devices: []int{2}, Tokens: []int{1}, Places: []float64{0.5}, Loads: []float64{0.7},
		Kinds: []string{"burst"}, Duration: 2 * time.Minute,
	}
	cells, err := Grid(context.Background(), g, 2, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 2 || cells[0].Places != 12 || cells[1].Workload != "burst" {
		t.Fatalf("cells %+v", cells)
	}
	for _, c := range cells {
		if c.Best == "" || c.Best == plus || c.OverSticky.N != 2 || c.OverBest.Median < c.OverSticky.Median || c.GapOfBound > 1 {
			t.Errorf("cell %+v", c)
		}
	}
	table := GridTable(cells)
	for _, want := range []string{" of 2 |", "| zipf | 2 | 1 | 12 | 0.70 |", "| burst | 2 | 1 | 12 | 0.70 |"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if n := len(FullGrid().cells()); n != 4*3*4*(5+6) {
		t.Errorf("the full grid has %d cells", n)
	}
}
