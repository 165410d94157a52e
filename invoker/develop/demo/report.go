package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/load"
)

// figures are what became of one function, or of all GPU functions, under one policy.
type figures struct {
	load.Report
	// slowdown is the mean latency over what a run alone takes, of all functions the
	// worst's; 0: unknown.
	slowdown float64
}

// started counts the runs that began so. One is cold whether a container was made for
// it because there was none or because all were busy.
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

// column is one policy in the tables.
type column struct {
	policy    string
	functions []figures
	gpus      figures // all GPU functions
	use       deviceUse
}

func summarise(functions []Function, r round) column {
	var names []string
	for _, f := range functions {
		names = append(names, f.Name)
	}
	of := func(chosen func(action int) bool) figures {
		calls := slices.DeleteFunc(slices.Clone(r.calls), func(c load.Call) bool { return !chosen(c.Action) })
		return figures{Report: load.Summarise(&load.Result{Calls: calls}, names)}
	}
	c := column{policy: r.policy, use: r.use, gpus: of(func(action int) bool { return functions[action].GPU != nil })}
	for i, f := range functions {
		one := of(func(action int) bool { return action == i })
		if f.Warm > 0 {
			one.slowdown = one.All.Mean / (1000 * f.Warm.Seconds())
			c.gpus.slowdown = max(c.gpus.slowdown, one.slowdown)
		}
		c.functions = append(c.functions, one)
	}
	return c
}

// fairness is Jain's index of the GPU functions' slowdowns, whether each waits
// in proportion to its own work: 1 when all are alike, 1/n when one waits for
// all, 0 without values. Functions that were not called do not count.
func fairness(functions []figures) float64 {
	n, sum, squares := 0.0, 0.0, 0.0
	for _, f := range functions {
		if f.slowdown > 0 {
			n++
			sum += f.slowdown
			squares += f.slowdown * f.slowdown
		}
	}
	if n == 0 {
		return 0
	}
	return sum * sum / (n * squares)
}

// report shows everything side by side, and the main figures last.
func (p printer) report(functions []Function, rounds []round) error {
	var all []column
	for _, r := range rounds {
		all = append(all, summarise(functions, r))
	}
	p.latencies(functions, all)
	p.starts(functions, all)
	if err := p.record(rounds[len(rounds)-1].records); err != nil {
		return err
	}
	if len(all) > 1 {
		p.line("%s\n", p.paint(bold, closing(all[0], all[len(all)-1])))
	}
	return nil
}

// row is one of a table: its name, and its text for each policy.
type row struct {
	name string
	text func(column) string
}

// table prints rows with a column of some width for each policy. Two of them and the
// names fit a terminal.
func (p printer) table(name, head string, width int, all []column, rows []row) {
	policies, heads := strings.Repeat(" ", utf8.RuneCountInString(name)), name
	for _, c := range all {
		policies += " ── " + c.policy + " " + strings.Repeat("─", width-4-len(c.policy))
		heads += fmt.Sprintf(" %-*s", width, head)
	}
	p.line("%s", p.paint(cyan, policies))
	p.line("%s", p.paint(bold, strings.TrimRight(heads, " ")))
	for _, r := range rows {
		text := fmt.Sprintf("%-*s", len(name), r.name)
		for _, c := range all {
			text += fmt.Sprintf(" %*s", width, r.text(c))
		}
		p.line("%s", strings.TrimRight(text, " "))
	}
}

// latencies shows how long callers waited, with bars on one scale.
func (p printer) latencies(functions []Function, all []column) {
	longest := 0.001
	for _, c := range all {
		for _, f := range c.functions {
			longest = max(longest, f.All.Mean)
		}
	}
	cell := func(g load.Group) string {
		bar := strings.Repeat("█", int(g.Mean/longest*15+0.5))
		return fmt.Sprintf("%7s %7s %s", ms(g.Mean), ms(g.P95), p.paint(green, fmt.Sprintf("%-15s", bar)))
	}
	var rows []row
	for i, f := range functions {
		rows = append(rows, row{fmt.Sprintf("%-10s %5d", f.Name, all[0].functions[i].All.Calls), func(c column) string { return cell(c.functions[i].All) }})
	}
	rows = append(rows, row{fmt.Sprintf("%-10s %5d", "GPU, all", all[0].gpus.All.Calls), func(c column) string { return cell(c.gpus.All) }})
	p.table("latency    calls", "mean ms  p95 ms mean", 31, all, rows)
	p.line("")
}

// starts shows how the runs of GPU functions began, and how fair it was.
func (p printer) starts(functions []Function, all []column) {
	cell := func(f figures) string {
		return fmt.Sprintf("%8d %9d %4d %7.0fx", f.started("gpu-warm"), f.started("host-warm"), f.started("cold"), f.slowdown)
	}
	var rows []row
	for i, f := range functions {
		if f.GPU != nil {
			rows = append(rows, row{f.Name, func(c column) string { return cell(c.functions[i]) }})
		}
	}
	rows = append(rows,
		row{"GPU, all", func(c column) string { return cell(c.gpus) }},
		row{"fairness", func(c column) string { return fmt.Sprintf("%.2f", fairness(c.functions)) }})
	if slices.ContainsFunc(all, func(c column) bool { return c.use.in+c.use.out > 0 }) {
		rows = append(rows, row{"moved out/in", func(c column) string { return fmt.Sprintf("%.0f / %.0f MB", c.use.out/1e6, c.use.in/1e6) }})
	}
	rows = append(rows, row{"errors", func(c column) string {
		n := 0
		for _, f := range c.functions {
			n += f.Failed
		}
		return fmt.Sprint(n)
	}})
	p.table("starts      ", "gpu-warm host-warm cold slowdown", 32, all, rows)
	p.line("%s\n", p.paint(dim, "gpu-warm: memory on the device; host-warm: moved in first; cold: loaded anew\n"+
		"slowdown: mean latency over a run's own time; for all: the worst function's\n"+
		"fairness: Jain's index of the slowdowns, 1 when all wait alike for their work"))
}

// record shows the annotation of a GPU run in its activation's record: of the
// run that waited longest for the device.
func (p printer) record(records map[string]*activation.Record) error {
	best, longest := "", int64(-1)
	for id, r := range records {
		run, ok := r.Annotations.GPURun()
		if ok && (run.QueueTime > longest || run.QueueTime == longest && id < best) {
			best, longest = id, run.QueueTime
		}
	}
	if best == "" {
		return nil
	}
	raw, _ := records[best].Annotations.Get("gpu")
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, raw, "", "  "); err != nil {
		return fmt.Errorf("read gpu annotation of %s: %w", best, err)
	}
	p.line("wsk activation get %s (%s), annotation gpu:\n%s\n", best, records[best].Name, pretty.String())
	return nil
}

// closing is the whole comparison in one sentence. Its numbers are those of the
// tables, whichever way they go.
func closing(first, last column) string {
	from, to := first.gpus, last.gpus
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
