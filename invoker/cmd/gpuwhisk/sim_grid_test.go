package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// TestGridIsWrittenWhereItIsAskedFor: into a document, into a file of all cells, and on
// standard output.
func TestGridIsWrittenWhereItIsAskedFor(t *testing.T) {
	dir := t.TempDir()
	document, table := filepath.Join(dir, "doc.md"), filepath.Join(dir, "cells.csv")
	write(t, document, "top\n<!-- grid:begin -->\nold\n<!-- grid:end -->\nend\n")
	if err := (simGridCmd{Into: document, CSV: table}).print(someCells()); err != nil {
		t.Fatal(err)
	}
	brief := captured(t, func() error { return simGridCmd{Brief: true}.print(someCells()) })
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if want := "top\n<!-- grid:begin -->\n" + "\n" + string(brief) + "\n<!-- grid:end -->\nend\n"; string(text) != want {
		t.Errorf("the document is\n%s\nwant\n%s", text, want)
	}
	if cells, err := os.ReadFile(table); err != nil {
		t.Error(err)
	} else if got := string(cells); !strings.Contains(got, "\nhog,own,4,2,24,0.70,") {
		t.Errorf("the cells are\n%s", got)
	}
	all := captured(t, func() error { return simGridCmd{}.print(someCells()) })
	if !strings.HasPrefix(string(all), string(brief)) || !strings.Contains(string(all), "| hog | own | 4 | 2 | 24 | 0.70 |") {
		t.Errorf("all of it is\n%s", all)
	}
	if err := (simGridCmd{CSV: filepath.Join(dir, "none", "x")}).print(someCells()); err == nil || !strings.Contains(err.Error(), "--csv: ") {
		t.Errorf("a file that cannot be made: %v", err)
	}
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
