package sim

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestGridComparesPolicies runs a grid of three cells and reads its table.
func TestGridComparesPolicies(t *testing.T) {
	t.Parallel()
	g := GridSize{
		Devices: []int{2}, Tokens: []int{1}, Containers: []float64{0.5}, Loads: []float64{0.7},
		Kinds: []string{"burst"}, Footprints: []int64{9 * gib}, Duration: 2 * time.Minute, First: 3,
	}
	cells, err := Grid(context.Background(), g, 2, 0, nil)
	check.NoError(t, err)
	check.Equal(check.Must(t), len(cells), 3)
	check.Equal(t, cells[0].Containers, 12)
	check.Equal(t, cells[1].Footprint, 9*gib)
	check.Equal(t, cells[2].Workload, "burst")
	for _, c := range cells {
		check.That(t, c.OverBest.Policy != "", "%s", c.Workload)
		check.That(t, c.OverBest.Policy != plus, "%s: the best other", c.Workload)
		check.Equal(t, c.OverSticky.Policy, mqfq, "%s", c.Workload)
		check.Equal(t, c.OverSticky.N, 2, "%s", c.Workload)
		check.AtLeast(t, c.OverBest.Median, c.OverSticky.Median, "%s: the best is as close as mqfq-sticky", c.Workload)
		check.AtLeast(t, c.OverBest.Median, c.OverGreedy.Median, "%s: the best is as close as the greedy ones", c.Workload)
		check.AtLeast(t, c.OverBounded.Worst, c.OverBounded.Q90, "%s", c.Workload)
		check.AtMost(t, c.GapOfBound, 1, "%s", c.Workload)
		check.That(t, c.OverP99.Policy != "", "%s", c.Workload)
		check.Equal(t, c.OverP99.N, 2, "%s", c.Workload)
		check.That(t, c.OverFunctions.Policy != "", "%s", c.Workload)
		check.Equal(t, c.OverFunctions.N, 2, "%s", c.Workload)
		check.Equal(t, c.First, 3, "%s", c.Workload)
		for _, policy := range gridRivals() {
			d := quotients(c.Means[policy], c.Bounds)
			check.Equal(t, len(d), 2, "%s of %s", policy, c.Workload)
			for _, v := range d {
				check.AtLeast(t, v, 1, "%s of %s, over the lower bound", policy, c.Workload)
			}
		}
	}
	check.Contains(t, GridSummary(cells).Markdown(), "| 3 | - | - | 3 |")
	all := GridCells(cells)
	for _, row := range all.Rows {
		check.Equal(t, len(row), len(all.Head), "%v", row)
	}
	for _, want := range []string{"| zipf | own | 2 | 1 | 12 | 0.70 |", "| burst | own | 2 | 1 | 12 | 0.70 |", "| zipf | 9GB | 2 | 1 | 12 | 0.70 |"} {
		check.Contains(t, all.Markdown(), want)
	}
	// With many devices a few containers each come to the same server: 5 of 48.
	many := GridSize{
		Devices: []int{1, 2, 4, 8}, Tokens: []int{1, 2, 4}, Containers: []float64{0.5, 2.0 / 3, 1, 2},
		Loads: []float64{0.3, 0.7}, Kinds: []string{"tiny", "liar", "onoff"}, Footprints: []int64{gib},
	}
	check.Equal(t, len(many.Cells()), (4*3*4-5)*(2+1+3))
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
	check.Equal(check.Must(t), len(got.Rows), 2, "%v", got.Rows)
	last := len(got.Head) - 1
	for i, want := range []struct{ containers, cells string }{{"14", "2"}, {"12", "1"}} {
		check.Equal(t, got.Rows[i][4], want.containers, "row %d, its containers", i)
		check.Equal(t, got.Rows[i][last], want.cells, "row %d, the cells it stands for", i)
	}
}

// TestGridSumsUpEachPolicy compares the line of one policy over three cells.
func TestGridSumsUpEachPolicy(t *testing.T) {
	got := GridPolicies(gridOf([]float64{1.06, 1.1, 1.2}, []float64{0.5, 0.6, 1.3}, []float64{1.2, 1.5, 1.6})).Markdown()
	check.Contains(t, got, "| sjf | 0.60, 1.10, 1.50 | 1.60 | 3 | 2.00, 2.00, 2.00 |\n")
}
