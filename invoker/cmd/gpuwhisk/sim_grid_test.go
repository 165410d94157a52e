package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// TestGridIsWrittenWhereItIsAskedFor: the grid is written to a document, to a CSV file
// of all cells, and to standard output.
func TestGridIsWrittenWhereItIsAskedFor(t *testing.T) {
	dir := t.TempDir()
	document, table := filepath.Join(dir, "doc.md"), filepath.Join(dir, "cells.csv")
	write(t, document, "top\n<!-- grid:begin -->\nold\n<!-- grid:end -->\nend\n")
	check.NoError(t, (simGridCmd{Into: document, CSV: table}).print(someCells()))
	brief := captured(t, func() error { return simGridCmd{Brief: true}.print(someCells()) })
	text, err := os.ReadFile(document)
	check.NoError(t, err)
	check.Equal(t, string(text), "top\n<!-- grid:begin -->\n\n"+string(brief)+"\n<!-- grid:end -->\nend\n")
	cells, err := os.ReadFile(table)
	check.NoError(t, err)
	check.Contains(t, string(cells), "\nhog,own,4,2,24,0.70,")
	all := captured(t, func() error { return simGridCmd{}.print(someCells()) })
	check.That(t, bytes.HasPrefix(all, brief), "all of it is\n%s", all)
	check.Contains(t, string(all), "| hog | own | 4 | 2 | 24 | 0.70 |")
	err = simGridCmd{CSV: filepath.Join(dir, "none", "x")}.print(someCells())
	check.ErrorContains(t, err, "--csv: ", "a file that cannot be made")
}

func someCells() []sim.GridCell {
	var cells []sim.GridCell
	for i := range 4 {
		c := sim.GridCell{
			Workload: []string{"zipf", "hog"}[i/2], Devices: 1 + 3*(i%2), Tokens: 2, Containers: 24, Load: 0.7, Seeds: 1,
			Means: map[string][]float64{}, Bounds: []float64{0.5},
		}
		for _, policy := range []string{"sticky-plus", "mqfq-sticky", "mqfq", "batch", "sjf", "eevdf", "paella", "fcfs"} {
			c.Means[policy] = []float64{float64(i + 1)}
		}
		c.OverBest.Policy, c.OverBest.Median = "sjf", 0.5*float64(i)
		cells = append(cells, c)
	}
	return cells
}
