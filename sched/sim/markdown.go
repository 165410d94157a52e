package sim

import (
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes findings as tables, one for each section, and those of
// the grid as a matrix.
func WriteMarkdown(to io.Writer, found []Finding) error {
	var b strings.Builder
	var grid []Finding
	section := ""
	for _, f := range found {
		if strings.HasPrefix(f.Name, gridPrefix) {
			grid = append(grid, f)
			continue
		}
		if f.Section != section {
			section = f.Section
			fmt.Fprintf(&b, "\n### %s\n\n| claim | paper | here, median [q10, q90] | 95%% interval of the median | verdict | why |\n|---|---|---|---|---|---|\n", section)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", f.Claim, f.Paper, f.Ours(), f.Between(), f.Verdict, f.Why)
	}
	if len(grid) > 0 {
		writeGrid(&b, grid)
	}
	_, err := io.WriteString(to, strings.TrimPrefix(b.String(), "\n"))
	return err
}

// writeGrid writes the medians of the grid: a row for each pool and D, a
// column for each load.
func writeGrid(b *strings.Builder, grid []Finding) {
	median := make(map[string]float64, len(grid))
	counts := make(map[Verdict]int)
	worst := 0.0
	for _, f := range grid {
		median[f.Name] = f.Value.Median
		worst = max(worst, f.Value.Median)
		counts[f.Verdict]++
	}
	fmt.Fprintf(b, "\nMedian ratios of mean latency over the grid, goal <= %s: met in %d cells, missed in %d, unclear in %d; the largest is %s.\n\n| pool | D |",
		number(gridGoal), counts[Met], counts[Missed], counts[Unclear], number(worst))
	for _, l := range gridLoads() {
		fmt.Fprintf(b, " load %.2f |", l)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(gridLoads())) + "\n")
	for _, p := range gridPools() {
		for _, d := range gridTokens() {
			fmt.Fprintf(b, "| %d | %d |", p, d)
			for _, l := range gridLoads() {
				if v, ok := median[gridName(p, l, d)]; ok {
					fmt.Fprintf(b, " %s |", number(v))
				} else {
					b.WriteString(" |")
				}
			}
			b.WriteString("\n")
		}
	}
}

// The marks in a document between which the findings stand.
const (
	beginMark = "<!-- claims: written by gpuwhisk sim claims --into -->"
	endMark   = "<!-- end of claims -->"
)

// Insert returns a document with the text between its marks replaced.
func Insert(document, text string) (string, error) {
	before, rest, ok := strings.Cut(document, beginMark)
	if !ok {
		return "", fmt.Errorf("no line %q", beginMark)
	}
	_, after, ok := strings.Cut(rest, endMark)
	if !ok {
		return "", fmt.Errorf("no line %q", endMark)
	}
	return before + beginMark + "\n\n" + strings.TrimSpace(text) + "\n\n" + endMark + after, nil
}
