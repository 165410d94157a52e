package main

import (
	"fmt"
	"io"
	"os"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simClaimsCmd reproduces the paper's results.
type simClaimsCmd struct {
	Only     []string `help:"Only the claims whose names begin so."`
	Markdown bool     `help:"Print the table as docs/scheduling.md holds it."`
	manyFlags
}

// Help is the longer text of gpuwhisk sim claims --help.
func (simClaimsCmd) Help() string {
	return `For each result of the paper that a simulation can speak to: what the paper says, what
comes out here as median with 10% and 90% quantiles over seeds, a verdict (reproduced, same
direction, not) and a line about why. Results of ours beyond the paper follow.`
}

// Run makes the runs and prints the table.
func (c simClaimsCmd) Run() error {
	ctx, stop := untilSignal()
	defer stop()
	report, end := progress("claims")
	found, err := sim.Claims(ctx, c.Only, c.Seeds, c.Parallel, report)
	end()
	if err != nil {
		return err
	}
	switch {
	case c.JSON:
		return printJSON(os.Stdout, found)
	case c.Markdown:
		return sim.WriteMarkdown(os.Stdout, found)
	}
	return printClaims(os.Stdout, found)
}

func printClaims(to io.Writer, found []sim.Finding) error {
	section := ""
	for _, f := range found {
		if f.Section != section {
			section = f.Section
			if _, err := fmt.Fprintf(to, "\n%s\n", section); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(to, "  %-18s %s\n  %-18s paper %s; here %s: %s\n  %-18s %s\n",
			f.Name, f.Claim, "", f.Paper, f.Ours(), f.Verdict, "", f.Why); err != nil {
			return err
		}
	}
	return nil
}

// simFiguresCmd draws.
type simFiguresCmd struct {
	Out  string   `default:"docs/figures" type:"path" help:"Folder to write the SVG files into."`
	Only []string `help:"Only the figures whose names begin so."`
	manyFlags
}

// Run makes the runs and writes the files.
func (c simFiguresCmd) Run() error {
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	ctx, stop := untilSignal()
	defer stop()
	report, end := progress("figures")
	names, err := sim.Figures(ctx, c.Out, c.Only, c.Seeds, c.Parallel, wallClock(), report)
	end()
	if err != nil {
		return err
	}
	for _, n := range names {
		fmt.Println(n)
	}
	return nil
}
