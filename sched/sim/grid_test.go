package sim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestGridComparesPolicies runs a grid of three cells and reads its table.
func TestGridComparesPolicies(t *testing.T) {
	t.Parallel()
	g := GridSize{
		Devices: []int{2}, Tokens: []int{1}, Containers: []float64{0.5}, Loads: []float64{0.7},
		Kinds: []string{"burst"}, Footprints: []int64{9 * gib}, Duration: 2 * time.Minute, First: 3,
	}
	cells, err := Grid(context.Background(), g, 2, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 3 || cells[0].Containers != 12 || cells[1].Footprint != 9*gib || cells[2].Workload != "burst" {
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
			"a best other by its 99th percentile":           c.OverP99.Policy != "" && c.OverP99.N == 2,
			"a best other by its mean over functions":       c.OverFunctions.Policy != "" && c.OverFunctions.N == 2,
			"the first seed":                                c.First == 3,
		} {
			if !ok {
				t.Errorf("%s: not %s in %+v", c.Workload, what, c)
			}
		}
	}
	for _, c := range cells {
		for _, policy := range gridRivals() {
			d := quotients(c.Means[policy], c.Bounds)
			if len(d) != 2 {
				t.Errorf("%s of %s has %d seeds", policy, c.Workload, len(d))
			}
			for _, v := range d {
				if v < 1 {
					t.Errorf("%s of %s is %v times the lower bound", policy, c.Workload, v)
				}
			}
		}
	}
	if want := "| 3 | - | - | 3 |"; !strings.Contains(GridSummary(cells).Markdown(), want) {
		t.Errorf("no %q in\n%s", want, GridSummary(cells).Markdown())
	}
	all := GridCells(cells)
	for _, row := range all.Rows {
		if len(row) != len(all.Head) {
			t.Errorf("%d columns and a row of %d: %v", len(all.Head), len(row), row)
		}
	}
	for _, want := range []string{"| zipf | own | 2 | 1 | 12 | 0.70 |", "| burst | own | 2 | 1 | 12 | 0.70 |", "| zipf | 9GB | 2 | 1 | 12 | 0.70 |"} {
		if !strings.Contains(all.Markdown(), want) {
			t.Errorf("no %q in\n%s", want, all.Markdown())
		}
	}
	// With many devices a few containers each come to the same server: 5 of 48.
	if n := len(FullGrid().Cells()); n != (4*3*4-5)*(5+11+4) {
		t.Errorf("the full grid has %d cells", n)
	}
}

// gridOf makes cells in which sticky-plus's mean latencies, over sjf's, are given
// seed by seed.
func gridOf(overs ...[]float64) (cells []GridCell) {
	for i, over := range overs {
		c := GridCell{Workload: "zipf", Devices: 1, Tokens: 1, Containers: 12 + i, Load: 0.7, Means: map[string][]float64{}}
		for s := range over {
			c.Bounds = append(c.Bounds, 0.5)
			for _, policy := range gridRivals() {
				c.Means[policy] = append(c.Means[policy], 1)
			}
			c.Means[plus][s] = over[s]
		}
		c.OverBest = Over{Policy: "sjf", Spread: SpreadOf(over), Worst: slices.Max(over)}
		cells = append(cells, c)
	}
	return cells
}

// TestGridNamesItsWorstCells lists the worst cell of each workload that misses the goal.
func TestGridNamesItsWorstCells(t *testing.T) {
	cells := gridOf([]float64{1.06, 1.3, 1.4}, []float64{1, 1.25, 1.6}, []float64{1.2, 1.5, 1.6}, []float64{1.06, 1.3, 1.4})
	cells[0].Workload = "burst"
	got := GridWorst(cells)
	if len(got.Rows) != 2 {
		t.Fatalf("the rows are %v", got.Rows)
	}
	for i, containers := range []string{"14", "12"} {
		if got.Rows[i][4] != containers {
			t.Errorf("row %d has %s containers, want %s", i, got.Rows[i][4], containers)
		}
		if n := got.Rows[i][len(got.Head)-1]; n != []string{"2", "1"}[i] {
			t.Errorf("row %d stands for %s cells", i, n)
		}
	}
}

// TestGridSumsUpEachPolicy compares the line of one policy over three cells.
func TestGridSumsUpEachPolicy(t *testing.T) {
	got := GridPolicies(gridOf([]float64{1.06, 1.1, 1.2}, []float64{0.5, 0.6, 1.3}, []float64{1.2, 1.5, 1.6})).Markdown()
	if want := "| sjf | 0.60, 1.10, 1.50 | 1.60 | 3 | 2.00, 2.00, 2.00 |\n"; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}
