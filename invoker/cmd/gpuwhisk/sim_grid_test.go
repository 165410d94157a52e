package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// TestGridPartsJoin writes parts of a grid to files, as --json does, and joins
// them: the text is that of the whole.
func TestGridPartsJoin(t *testing.T) {
	whole := someCells()
	dir := t.TempDir()
	var files []string
	for k, part := range [][]sim.GridCell{{whole[3], whole[0]}, {whole[2], whole[1]}} {
		file := filepath.Join(dir, string(rune('a'+k)))
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := printJSON(f, part); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	all := filepath.Join(dir, "all")
	write(t, all, string(captured(t, simGridCmd{From: files, manyFlags: manyFlags{JSON: true}}.Run)))
	joined := captured(t, simGridCmd{From: files}.Run)
	if got := captured(t, simGridCmd{From: []string{all}}.Run); string(got) != string(joined) || !strings.Contains(string(got), "| hog | own | 4 | 2 | 24 | 0.70 |") {
		t.Errorf("parts give\n%s\nand the whole\n%s", joined, got)
	}
	document := filepath.Join(dir, "doc.md")
	write(t, document, "top\n<!-- grid:begin -->\nold\n<!-- grid:end -->\nend\n")
	table := filepath.Join(dir, "cells.csv")
	if err := (simGridCmd{From: files, Into: document, CSV: table}).Run(); err != nil {
		t.Fatal(err)
	}
	brief := captured(t, simGridCmd{From: files, Brief: true}.Run)
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
	if err := (simGridCmd{From: files, CSV: filepath.Join(dir, "none", "x")}).Run(); err == nil || !strings.Contains(err.Error(), "--csv: ") {
		t.Errorf("a file that cannot be made: %v", err)
	}
	if err := (simGridCmd{From: append(files, files[0])}).Run(); err == nil || !strings.Contains(err.Error(), "twice: zipf, 1 devices") {
		t.Errorf("a part twice: %v", err)
	}
	write(t, all, `[{"policy": "fcfs"}]`)
	if err := (simGridCmd{From: []string{all}}).Run(); err == nil || !strings.Contains(err.Error(), "not what gpuwhisk sim grid --json prints") {
		t.Errorf("another array: %v", err)
	}
	write(t, all, "[]")
	if err := (simGridCmd{From: []string{all}}).Run(); err == nil || !strings.Contains(err.Error(), "no cells") {
		t.Errorf("no cells: %v", err)
	}
}

func someCells() []sim.GridCell {
	var cells []sim.GridCell
	for i := range 4 {
		c := sim.GridCell{
			Workload: []string{"zipf", "hog"}[i/2], Devices: 1 + 3*(i%2), Tokens: 2, Containers: 24, Load: 0.7, Seeds: 1,
			Means: map[string][]float64{"sticky-plus": {float64(i + 1)}}, Bounds: []float64{0.5},
		}
		c.OverBest.Policy, c.OverBest.Median = "sjf", 0.5*float64(i)
		cells = append(cells, c)
	}
	return cells
}

// TestGridRunsItsParts runs two of many parts as a person would, on their own
// and as the first two of fewer, and compares what --from makes of them.
func TestGridRunsItsParts(t *testing.T) {
	dir := t.TempDir()
	cell := func(shard string) string {
		c, err := parseSim(t, "grid", "--shard", shard, "--seeds", "1", "--json")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, strings.ReplaceAll(shard, "/", "-"))
		write(t, file, string(captured(t, c.Grid.Run)))
		return file
	}
	whole := captured(t, simGridCmd{From: []string{cell("1/90")}}.Run)
	parts := captured(t, simGridCmd{From: []string{cell("91/180"), cell("1/180")}}.Run)
	if string(whole) != string(parts) || strings.Count(string(whole), "| zipf | own |") != 2 {
		t.Errorf("1/90 gives\n%s\n1/180 and 91/180 give\n%s", whole, parts)
	}
}
