package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simRunsCmd makes the runs that a file lists.
type simRunsCmd struct {
	File     string `arg:"" type:"existingfile" help:"File with one run a line, such as: azure fcfs tokens=1"`
	CSV      string `name:"csv" type:"path" placeholder:"FILE" help:"Write the table into this file; without it to standard output."`
	Seeds    int    `default:"20" help:"Seeds of each run, from 1 on."`
	Parallel int    `default:"0" help:"Runs at a time; 0: one per processor."`

	text string
}

// Help is the longer text of gpuwhisk sim runs --help.
func (simRunsCmd) Help() string {
	return `Each line of the file is a workload, a policy, and flags of gpuwhisk sim run without their
dashes. Each run has a row for each seed, and further rows for its functions. docs/figures/draw.py
plots these results.`
}

// Validate checks the flags and the file.
func (c *simRunsCmd) Validate() error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	c.text = string(text)
	if err := sim.CheckRuns(c.text); err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	return errors.Join(manyFlags{Seeds: c.Seeds, Parallel: c.Parallel}.check())
}

// Run runs the simulations and writes the table.
func (c simRunsCmd) Run() error {
	report, end := runsOf("runs")
	t, err := sim.RunsTable(interrupted(), c.text, c.Seeds, c.Parallel, report)
	end()
	switch {
	case err != nil:
		return err
	case c.CSV == "":
		return t.CSV(os.Stdout)
	}
	return writeCSV(c.CSV, t)
}
