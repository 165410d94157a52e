package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simClaimsCmd reproduces the paper's results.
type simClaimsCmd struct {
	Only []string `help:"Only the claims whose names begin so."`
	Into string   `type:"path" placeholder:"FILE" help:"Write the tables into a Markdown file, between the marks that docs/scheduling.md has."`
	manyFlags
}

// Help is the longer text of gpuwhisk sim claims --help.
func (simClaimsCmd) Help() string {
	return `For each result of the paper that a simulation can speak to: what the paper says, what
comes out here as median with 10% and 90% quantiles over seeds, the 95% interval of that median,
a verdict (reproduced, same direction, not) and a line about why. A verdict needs the whole
interval on its side and is unclear otherwise, so always with fewer than 6 seeds, unless it
is one about every run. Results of ours beyond the paper follow.`
}

// Validate says what is wrong with the flags.
func (c *simClaimsCmd) Validate() error {
	return errors.Join(c.check(), sim.CheckClaims(c.Only))
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
	case c.Into != "":
		return writeInto(c.Into, found, c.Seeds)
	}
	return printClaims(os.Stdout, found)
}

// writeInto replaces the tables of a document.
func writeInto(file string, found []sim.Finding, seeds int) error {
	document, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--into: %w", err)
	}
	var tables strings.Builder
	fmt.Fprintf(&tables, "Seeds 1 to %d.\n\n", seeds)
	if err := sim.WriteMarkdown(&tables, found); err != nil {
		return err
	}
	text, err := sim.Insert(string(document), tables.String())
	if err != nil {
		return fmt.Errorf("--into %s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o644)
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
		if _, err := fmt.Fprintf(to, "  %-18s %s\n  %-18s paper %s; here %s (median within %s): %s\n  %-18s %s\n",
			f.Name, f.Claim, "", f.Paper, f.Ours(), f.Between(), f.Verdict, "", f.Why); err != nil {
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

// Validate says what is wrong with the flags.
func (c *simFiguresCmd) Validate() error {
	return errors.Join(c.check(), sim.CheckFigures(c.Only))
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
