package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/prettyjson"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simClaimsCmd reproduces the paper's results.
type simClaimsCmd struct {
	Only []string `help:"Only the claims whose names begin with this."`
	Into string   `type:"path" placeholder:"FILE" help:"Write the tables into a Markdown file, between the marker lines of docs/scheduling-results.md."`
	CSV  string   `name:"csv" type:"path" placeholder:"FILE" help:"Write all figures, with the 95% interval of each median, into a CSV file."`
	manyFlags
}

// Help is the longer text of gpuwhisk sim claims --help.
func (simClaimsCmd) Help() string {
	return `Prints a row for each result of the paper that a simulation can check: the paper's figure,
the figure of this simulator (median, 10% and 90% quantiles over seeds, 95% interval of the
median), a verdict (reproduced, same direction, not) and the reason. The whole interval must
support a verdict; otherwise the claim is unclear. With fewer than 6 seeds all claims are
unclear, except claims about every run. Results beyond the paper follow.`
}

// Validate checks the flags.
func (c *simClaimsCmd) Validate() error {
	if c.Into != "" && c.JSON {
		return errors.New("--into: writes Markdown, and --json prints JSON: give one")
	}
	return errors.Join(c.check(), sim.CheckClaims(c.Only))
}

// The markers in a document between which the results are written.
const (
	claimsBegin = "<!-- claims: written by gpuwhisk sim claims --into -->"
	claimsEnd   = "<!-- end of claims -->"
)

// Run runs the simulations and prints the table.
func (c simClaimsCmd) Run() error {
	report, end := runsOf("claims")
	found, err := sim.Claims(interrupted(), c.Only, c.Seeds, c.Parallel, report)
	end()
	if err != nil {
		return err
	}
	if err := writeCSV(c.CSV, sim.ClaimsTable(found)); err != nil {
		return err
	}
	switch {
	case c.JSON:
		return prettyjson.Write(os.Stdout, found)
	case c.Into != "":
		return insert(c.Into, claimsBegin, claimsEnd, fmt.Sprintf("Seeds 1 to %d.\n\n%s", c.Seeds, sim.ClaimsMarkdown(found)))
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
		if _, err := fmt.Fprintf(to, "  %-18s %s\n  %-18s paper %s; here %s (median within %s): %s\n  %-18s %s\n",
			f.Name, f.Claim, "", f.Paper, f.Ours(), f.Between(), f.Verdict, "", f.Why); err != nil {
			return err
		}
	}
	return nil
}
