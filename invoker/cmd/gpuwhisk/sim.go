package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simCmd groups the simulator's commands.
type simCmd struct {
	Run     simRunCmd     `cmd:"" help:"Simulate one workload under one policy."`
	Compare simCompareCmd `cmd:"" help:"Simulate one workload under every policy, over several seeds."`
	Hosts   simHostsCmd   `cmd:"" help:"Simulate several hosts under OpenWhisk's scheduler."`
	Grid    simGridCmd    `cmd:"" help:"Compare sticky-plus with every policy over a grid of servers and workloads."`
	Sweep   simSweepCmd   `cmd:"" help:"Vary one parameter: T, D, TTL, pool, load, weight and others."`
	Claims  simClaimsCmd  `cmd:"" help:"Reproduce the paper's results, claim by claim, with a verdict on each."`
	Runs    simRunsCmd    `cmd:"" help:"Make the runs that a file lists and write their results as CSV."`
	Replay  simReplayCmd  `cmd:"" help:"Replay the recorded events of an invoker's GPU scheduler and compare the orders."`
}

// Help is the longer text of gpuwhisk sim --help.
func (simCmd) Help() string {
	return `The simulator runs the scheduling and memory code of the invoker itself on simulated
devices. It needs no GPU, and the same seed always gives the same numbers.

  gpuwhisk sim run --policy mqfq-sticky
  gpuwhisk sim run --trace t.csv --functions f.csv --policy fcfs --pool 4 --tokens 1 --json
  gpuwhisk sim compare --workload azure --seeds 20
  gpuwhisk sim sweep --over overrun --policies mqfq-sticky,sticky-plus
  gpuwhisk sim claims --seeds 20
  gpuwhisk sim replay scheduler.log

docs/simulator.md explains the model and its parameters.`
}

// workloadFlags select the workload.
type workloadFlags struct {
	sim.Spec
	sim.Trace
}

// check returns an error for invalid flags before anything runs. A flag without effect
// is an error: arrivals are either read from a file or generated. entries are the
// entries made from the flags, and err the error of making them. check does not read the
// trace.
func (f workloadFlags) check(k *kong.Context, entries []sim.Entry, err error) error {
	for _, path := range k.Path {
		switch given := path.Flag; {
		case given == nil || given.Group == nil:
		case given.Group.Key == "Trace" && f.File == "":
			return fmt.Errorf("--%s: needs --trace", given.Name)
		case given.Group.Key == "Workload" && f.File != "":
			return fmt.Errorf("--%s: applies to generated workloads, and --trace reads a recorded one", given.Name)
		}
	}
	if f.File != "" && f.Functions == "" && f.Format == "plain" {
		return errors.New("--functions: a plain trace needs it for the functions' costs")
	}
	if err != nil || f.File != "" {
		return err
	}
	return sim.Check(entries, f.Seed)
}

// unread returns a placeholder for a trace that is not read yet, nil if no trace is
// given.
func (f workloadFlags) unread() *sim.Workload {
	if f.File == "" {
		return nil
	}
	return &sim.Workload{}
}

// trace reads the trace, if one is given.
func (f workloadFlags) trace() (*sim.Workload, error) {
	if f.File == "" {
		return nil, nil
	}
	return f.Read(f.Seed)
}

// manyFlags are the flags of commands with many runs.
type manyFlags struct {
	Seeds    int  `default:"20" help:"Seeds per figure, over which medians and 10% and 90% quantiles are taken."`
	Parallel int  `default:"0" help:"Runs at a time; 0: one per processor."`
	JSON     bool `name:"json" help:"Print JSON."`
}

// check returns an error for invalid flags.
func (f manyFlags) check() error {
	if f.Parallel < 0 || f.Parallel > mostParallel {
		return fmt.Errorf("--parallel %d: must lie within 0 and %d", f.Parallel, mostParallel)
	}
	return sim.CheckSeeds(f.Seeds)
}

// runsOf returns a function that shows the number of finished runs in one line, if
// stderr is a terminal, and a function that clears the line.
func runsOf(what string) (report sim.Progress, end func()) {
	line := newProgressLine(os.Stderr, !term.IsTerminal(int(os.Stderr.Fd())))
	return func(done, total int) { line.show(fmt.Sprintf("%s: %d of %d runs", what, done, total), 0) }, line.end
}

// insert replaces the text between two marker lines of a file.
func insert(file, begin, end, text string) error {
	document, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--into: %w", err)
	}
	changed, err := sim.Insert(string(document), begin, end, text)
	if err != nil {
		return fmt.Errorf("--into %s: %w", file, err)
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}

// writeCSV writes a table to the file of --csv, if the flag is set.
func writeCSV(file string, t sim.Table) error {
	if file == "" {
		return nil
	}
	var text bytes.Buffer
	err := t.CSV(&text)
	if err == nil {
		err = os.WriteFile(file, text.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("--csv: %w", err)
	}
	return nil
}

// mostParallel exceeds the number of processors of any machine.
const mostParallel = 1024
