package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/prettyjson"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// simRunCmd simulates one workload under one policy.
type simRunCmd struct {
	Policy string `default:"mqfq-sticky" help:"Policy: mqfq-sticky, sticky-plus, mqfq, sfq, fcfs, batch, paella, sjf, eevdf, naive."`
	JSON   bool   `name:"json" help:"Print JSON, times in ms."`
	Series bool   `help:"With --json: each function's service in each window."`
	workloadFlags
	sim.Options
}

// Help is the longer text of gpuwhisk sim run --help.
func (simRunCmd) Help() string {
	var b strings.Builder
	b.WriteString(`Prints mean, p50 and p99 latency, starts by kind, the share of service and the gap
between flows, over all and for each function, and the clairvoyant lower bound: the mean
latency that no scheduler can beat on this server. Load counts devices: 1 keeps one device
busy with warm runs one after another.

Policies:

`)
	for _, p := range sim.Policies() {
		fmt.Fprintf(&b, "  %-12s %s\n", p.Name, p.Text)
	}
	b.WriteString("\nWorkloads:\n\n")
	for _, k := range sim.Kinds() {
		fmt.Fprintf(&b, "  %-12s %s\n", k.Name, k.Text)
	}
	b.WriteString(`
docs/simulator.md lists the fields of --json.`)
	return b.String()
}

// Validate checks the flags.
func (c *simRunCmd) Validate(k *kong.Context) error {
	if c.Series && !c.JSON {
		return errors.New("--series: needs --json")
	}
	entries, err := sim.Entries([]string{c.Policy}, c.Options, c.Spec, c.unread())
	return c.check(k, entries, err)
}

// Run simulates and prints.
func (c simRunCmd) Run() error {
	trace, err := c.trace()
	if err != nil {
		return err
	}
	entries, err := sim.Entries([]string{c.Policy}, c.Options, c.Spec, trace)
	if err != nil {
		return err
	}
	w, err := entries[0].Workload(c.Seed)
	if err != nil {
		return err
	}
	p := entries[0].Params
	p.Series = c.Series
	start := time.Now()
	p.Clock = func() time.Duration { return time.Since(start) }
	r, err := sim.Run(w, p)
	if err != nil {
		return err
	}
	if c.JSON {
		return prettyjson.Write(os.Stdout, r)
	}
	return printResult(os.Stdout, r, time.Since(start))
}

// printResult writes a result as text.
func printResult(to io.Writer, r *sim.Result, took time.Duration) error {
	b := bufio.NewWriter(to)
	if r.Warning != "" {
		fmt.Fprintf(b, "note: %s\n", r.Warning)
	}
	fmt.Fprintf(b, "%s under %s: %d activations, load %.2f of %.2f, %.0f s simulated in %v\n",
		r.Workload, r.Policy, r.Arrivals, r.Offered, r.Capacity, r.End, took.Round(time.Millisecond))
	fmt.Fprintf(b, "latency mean %s  p50 %s  p99 %s  (no scheduler can beat a mean of %s; this is %.2f times it)\n",
		sec(r.Latency.Mean), sec(r.Latency.P50), sec(r.Latency.P99), sec(r.LowerBound), r.OverBound)
	fmt.Fprintf(b, "mean of functions %s, variance between them %.1f s², within one %.1f s²\n",
		sec(r.FunctionMean), r.FunctionVariance, r.WithinVariance)
	fmt.Fprintf(b, "starts gpu-warm %d, host-warm %d, cold %d, busy-cold %d  utilization %.0f%%\n",
		r.Starts.GPUWarm, r.Starts.HostWarm, r.Starts.Cold, r.Starts.BusyCold, 100*r.Utilization)
	fmt.Fprintf(b, "service gap per window %.1f s mean, %.1f s largest, bound %.1f s; %.0f ns of decisions per activation\n\n",
		r.GapBacklogged.Mean, r.GapBacklogged.Max, r.GapBound, r.DecisionNano)
	t := sim.Table{Head: strings.Split("function,runs,mean,p50,p99,wait,gpu-warm,host-warm,cold,busy-cold,service", ",")}
	for _, f := range r.Functions {
		if f.Latency.Count == 0 {
			continue
		}
		t.Add(f.Name, f.Latency.Count, sec(f.Latency.Mean), sec(f.Latency.P50), sec(f.Latency.P99), sec(f.WaitMean),
			f.Starts.GPUWarm, f.Starts.HostWarm, f.Starts.Cold, f.Starts.BusyCold, fmt.Sprintf("%.1f s", f.Service))
	}
	if err := t.Text(b); err != nil {
		return err
	}
	return b.Flush()
}

// sec formats milliseconds as seconds.
func sec(ms float64) string { return fmt.Sprintf("%.2f s", ms/1000) }
