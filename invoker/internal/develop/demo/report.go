package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/load"
)

// printer writes for a person. On a terminal the main results are bold and the progress
// has one line; otherwise it writes plain text.
type printer struct {
	w        io.Writer
	terminal bool
}

func (p printer) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

func (p printer) bold(s string) string {
	if !p.terminal {
		return s
	}
	return "\x1b[1m" + s + "\x1b[0m"
}

// introduce describes the demo before it starts.
func (p printer) introduce(o Options) {
	p.line("%s", p.bold("GPU Whisk: the same calls under "+strings.Join(o.Policies, ", then under ")))
	if o.Machine.Driver {
		p.line("The GPU is simulated: the real shim moves memory on a fake driver, and runs\n"+
			"take the MQFQ-Sticky paper's times / %d with its memory / %d.", timeScale, driverScale)
	} else {
		p.line("The GPU is simulated: functions only sleep, for the MQFQ-Sticky paper's\n"+
			"times / %d, and no memory moves (the shim is not built here).", timeScale)
	}
	p.line("Actions: %s", strings.Join(names(o.Functions), ", "))
	p.line("Takes about %s.\n", (time.Duration(len(o.Policies)) * (o.Load + o.Load/3 + 2*time.Second)).Round(5*time.Second))
}

func names(functions []Function) (all []string) {
	for _, f := range functions {
		all = append(all, f.Name)
	}
	return all
}

// started prints where an installation is, as soon as it is ready.
func (p printer) started(s *standalone.Standalone, policy string, took time.Duration) {
	i := s.Info()
	p.line("%-11s OpenWhisk in one process at %s, ready in %.1f s", policy, i.APIHost, took.Seconds())
	p.line("  actions run as: %s\n  (%s)", i.Runtime, i.Why)
	if c := s.Console(); c != "" {
		p.line("  console: %s", c)
	}
}

const clearLine = "\r\x1b[K"

// progress shows how the calls are going, on a terminal in one line.
func (p printer) progress(g load.Progress) {
	if p.terminal {
		fmt.Fprintf(p.w, "%s  %s", clearLine, g)
	}
}

// answered replaces the progress when all calls are.
func (p printer) answered(r *load.Result) {
	if p.terminal {
		fmt.Fprint(p.w, clearLine)
	}
	p.line("  %d calls, the last was answered after %.1f s", len(r.Calls), r.Took.Seconds())
}

// figures holds the results of one function, or of all GPU functions, under one policy.
type figures struct {
	load.Report
	// slowdown is the mean latency divided by the time of a run alone; for all functions
	// it is the worst slowdown. 0 means unknown.
	slowdown float64
}

// started returns the number of runs with a start kind. "cold" includes runs for which a
// container was created because all others were busy.
func (f figures) started(kind string) (n int) {
	for _, g := range f.Starts {
		if strings.TrimPrefix(g.Name, "busy-") == kind {
			n += g.Calls
		}
	}
	return n
}

// reloads are the runs that had to load or move memory first.
func (f figures) reloads() int { return f.All.Calls - f.started("gpu-warm") }

// column is one policy in the tables: the figures of each function, followed by the
// figures of all GPU functions.
type column struct {
	policy  string
	moved   moved
	figures []figures
}

func (c column) gpus() figures { return c.figures[len(c.figures)-1] }

func summarise(functions []Function, r round) column {
	c, gpus := column{policy: r.policy, moved: r.moved}, figures{}
	of := func(chosen func(load.Call) bool) load.Report {
		calls := slices.DeleteFunc(slices.Clone(r.calls), func(c load.Call) bool { return !chosen(c) })
		return load.Summarise(&load.Result{Calls: calls}, names(functions))
	}
	for i, f := range functions {
		one := figures{Report: of(func(c load.Call) bool { return c.Action == i })}
		if f.Warm > 0 {
			one.slowdown = one.All.Mean / (1000 * f.Warm.Seconds())
			gpus.slowdown = max(gpus.slowdown, one.slowdown)
		}
		c.figures = append(c.figures, one)
	}
	gpus.Report = of(func(c load.Call) bool { return functions[c.Action].GPU != nil })
	c.figures = append(c.figures, gpus)
	return c
}

func columns(functions []Function, rounds []round) (all []column) {
	for _, r := range rounds {
		all = append(all, summarise(functions, r))
	}
	return all
}

// fairness is Jain's index of the functions' slowdowns, whether each waits
// in proportion to its own work: 1 when all are alike, 1/n when one waits for
// all, 0 without values. Functions that were not called do not count.
func fairness(functions []figures) float64 {
	n, sum, squares := 0.0, 0.0, 0.0
	for _, f := range functions {
		if f.slowdown > 0 {
			n, sum, squares = n+1, sum+f.slowdown, squares+f.slowdown*f.slowdown
		}
	}
	if n == 0 {
		return 0
	}
	return sum * sum / (n * squares)
}

// report shows everything side by side, and the main figures last.
func (p printer) report(functions []Function, rounds []round) error {
	all := columns(functions, rounds)
	p.latencies(functions, all)
	p.starts(functions, all)
	if err := p.record(rounds[len(rounds)-1].records); err != nil {
		return err
	}
	if len(all) > 1 {
		p.line("%s\n", p.bold(closing(all[0], all[len(all)-1])))
	}
	return nil
}

// table prints the heading of a table and returns a function that prints a row, with a
// column for each policy. The names and two columns fit a terminal.
func (p printer) table(name, head string, width int, all []column) (row func(name string, text func(column) string)) {
	row = func(name string, text func(column) string) {
		for _, c := range all {
			name += fmt.Sprintf(" %-*s", width, text(c))
		}
		p.line("%s", strings.TrimRight(name, " "))
	}
	row(strings.Repeat(" ", utf8.RuneCountInString(name)), func(c column) string {
		return "── " + c.policy + " " + strings.Repeat("─", width-4-len(c.policy))
	})
	row(name, func(column) string { return head })
	return row
}

// latencies shows how long callers waited, with bars on one scale.
func (p printer) latencies(functions []Function, all []column) {
	longest := 0.001
	for _, c := range all {
		for _, f := range c.figures {
			longest = max(longest, f.All.Mean)
		}
	}
	row := p.table("latency    calls", "mean ms  p95 ms mean", 31, all)
	for i, name := range append(names(functions), "GPU, all") {
		row(fmt.Sprintf("%-10s %5d", name, all[0].figures[i].All.Calls), func(c column) string {
			g := c.figures[i].All
			return fmt.Sprintf("%7s %7s %s", ms(g.Mean), ms(g.P95), strings.Repeat("█", int(g.Mean/longest*15+0.5)))
		})
	}
	p.line("")
}

// starts shows how the runs of GPU functions began, and how fair it was.
func (p printer) starts(functions []Function, all []column) {
	row := p.table("starts      ", "gpu-warm host-warm cold slowdown", 32, all)
	show := func(name string, text func(column) string) {
		row(fmt.Sprintf("%-12s", name), func(c column) string { return fmt.Sprintf("%32s", text(c)) })
	}
	for i, name := range append(names(functions), "GPU, all") {
		if i == len(functions) || functions[i].GPU != nil {
			show(name, func(c column) string {
				f := c.figures[i]
				return fmt.Sprintf("%8d %9d %4d %7.0fx", f.started("gpu-warm"), f.started("host-warm"), f.started("cold"), f.slowdown)
			})
		}
	}
	show("fairness", func(c column) string { return fmt.Sprintf("%.2f", fairness(c.figures[:len(functions)])) })
	if slices.ContainsFunc(all, func(c column) bool { return c.moved.in+c.moved.out > 0 }) {
		show("moved out/in", func(c column) string { return fmt.Sprintf("%.0f / %.0f MB", c.moved.out/1e6, c.moved.in/1e6) })
	}
	show("errors", func(c column) string {
		n := 0
		for _, f := range c.figures[:len(functions)] {
			n += f.Failed
		}
		return fmt.Sprint(n)
	})
	p.line("gpu-warm: memory on the device; host-warm: moved in first; cold: loaded anew\n" +
		"slowdown: mean latency over a run's own time; for all: the worst function's\n" +
		"fairness: Jain's index of the slowdowns, 1 when all wait alike for their work\n")
}

// record shows the annotation of a GPU run in its activation's record: of the
// run that waited longest for the device.
func (p printer) record(records []*activation.Record) error {
	longest, waited := (*activation.Record)(nil), int64(-1)
	for _, r := range records {
		if run, ok := r.Annotations.GPURun(); ok && run.QueueTime > waited {
			longest, waited = r, run.QueueTime
		}
	}
	if longest == nil {
		return nil
	}
	gpu, _ := longest.Annotations.Get("gpu")
	text, err := json.MarshalIndent(gpu, "", "  ")
	if err != nil {
		return fmt.Errorf("read gpu annotation of %s: %w", longest.ActivationID, err)
	}
	p.line("wsk activation get %s (%s), annotation gpu:\n%s\n", longest.ActivationID, longest.Name, text)
	return nil
}

// closing returns the comparison in one sentence. Its numbers are the same as in the
// tables, also if the last policy is worse.
func closing(first, last column) string {
	from, to := first.gpus(), last.gpus()
	return fmt.Sprintf("%d GPU calls on the simulated GPU, the same under both:\n"+
		"with %s instead of %s, the mean latency is\n%s (%s ms, was %s ms),\n"+
		"the slowdown of the worst-served function is\n%s (%.0fx, was %.0fx),\n"+
		"and starts that have to load or move memory first\nare %s (%d, were %d).",
		to.All.Calls, last.policy, first.policy,
		change(from.All.Mean, to.All.Mean, "lower", "higher"), ms(to.All.Mean), ms(from.All.Mean),
		change(from.slowdown, to.slowdown, "lower", "higher"), to.slowdown, from.slowdown,
		change(float64(from.reloads()), float64(to.reloads()), "fewer", "more"), to.reloads(), from.reloads())
}

// change describes how a value went, and by how much.
func change(from, to float64, less, more string) string {
	switch {
	case from == to:
		return "the same"
	case to == 0:
		return "down to nothing"
	case from == 0:
		return "up from nothing"
	case to < from/1.05:
		return fmt.Sprintf("%.1f times %s", from/to, less)
	case to > from*1.05:
		return fmt.Sprintf("%.1f times %s", to/from, more)
	}
	return "about the same"
}

// ms writes milliseconds, with a digit behind the point where they are few.
func ms(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
