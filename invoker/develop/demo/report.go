package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/load"
)

// row is what became of one function, or of all GPU functions, under one policy.
type row struct {
	runs      int
	errors    int
	starts    map[string]int
	latencies []time.Duration // as callers saw them, sorted
	mean      time.Duration
	// slowdown is the mean latency over what a run alone takes; 0: unknown.
	slowdown float64
}

// column is one policy in the tables.
type column struct {
	policy string
	rows   []row // one for each function
	gpus   row   // all GPU functions
	moved  traffic
}

func summarise(functions []Function, r round) column {
	c := column{policy: r.policy, rows: make([]row, len(functions)), moved: r.moved}
	for _, one := range r.calls {
		c.rows[one.Action].add(one)
		if functions[one.Action].GPU != nil {
			c.gpus.add(one)
		}
	}
	for i, f := range functions {
		c.rows[i].settle()
		if f.Warm > 0 {
			c.rows[i].slowdown = float64(c.rows[i].mean) / float64(f.Warm)
			c.gpus.slowdown = max(c.gpus.slowdown, c.rows[i].slowdown)
		}
	}
	c.gpus.settle()
	return c
}

// add counts a call. A start counts as cold whether a container was made for it
// because there was none or because all were busy.
func (r *row) add(c load.Call) {
	r.runs++
	r.latencies = append(r.latencies, c.Latency)
	if c.Failure != "" {
		r.errors++
	}
	if c.Start != "" {
		if r.starts == nil {
			r.starts = map[string]int{}
		}
		r.starts[strings.TrimPrefix(c.Start, "busy-")]++
	}
}

func (r *row) settle() {
	slices.Sort(r.latencies)
	var sum time.Duration
	for _, t := range r.latencies {
		sum += t
	}
	r.mean = sum / time.Duration(max(len(r.latencies), 1))
}

// reloads are the starts that had to load or move memory first.
func (r row) reloads() int { return r.runs - r.starts["gpu-warm"] }

// fairness is Jain's index of the GPU functions' slowdowns, whether each waits
// in proportion to its own work: 1 when all are alike, 1/n when one waits for
// all, 0 without values. Functions that were not called do not count.
func fairness(rows []row) float64 {
	n, sum, squares := 0.0, 0.0, 0.0
	for _, r := range rows {
		if r.slowdown > 0 {
			n++
			sum += r.slowdown
			squares += r.slowdown * r.slowdown
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
	if text := closing(all); text != "" {
		p.line("%s\n", p.paint(bold, text))
	}
	return nil
}

// line is one of a table: its name, and its text for each policy.
type line struct {
	name string
	text func(column) string
}

// table prints lines with a column of some width for each policy. Two of them and the
// names fit a terminal.
func (p printer) table(name, head string, width int, all []column, lines []line) {
	policies, heads := strings.Repeat(" ", utf8.RuneCountInString(name)), name
	for _, c := range all {
		policies += " ── " + c.policy + " " + strings.Repeat("─", width-4-len(c.policy))
		heads += fmt.Sprintf(" %-*s", width, head)
	}
	p.line("%s", p.paint(cyan, policies))
	p.line("%s", p.paint(bold, strings.TrimRight(heads, " ")))
	for _, l := range lines {
		text := fmt.Sprintf("%-*s", len(name), l.name)
		for _, c := range all {
			text += fmt.Sprintf(" %*s", width, l.text(c))
		}
		p.line("%s", strings.TrimRight(text, " "))
	}
}

// latencies shows how long callers waited, with bars on one scale.
func (p printer) latencies(functions []Function, all []column) {
	longest := time.Duration(1)
	for _, c := range all {
		for _, r := range c.rows {
			longest = max(longest, r.mean)
		}
	}
	var lines []line
	add := func(name string, of func(column) row) {
		lines = append(lines, line{fmt.Sprintf("%-10s %5d", name, of(all[0]).runs), func(c column) string {
			r := of(c)
			return fmt.Sprintf("%7s %7s %s", ms(r.mean), ms(load.Percentile(r.latencies, 95)),
				p.paint(green, bar(float64(r.mean)/float64(longest), 15, '█', ' ')))
		}})
	}
	for i, f := range functions {
		add(f.Name, func(c column) row { return c.rows[i] })
	}
	add("GPU, all", func(c column) row { return c.gpus })
	p.table("latency    calls", "mean ms  p95 ms mean", 31, all, lines)
	p.line("")
}

// starts shows how the runs of GPU functions began, and how fair it was.
func (p printer) starts(functions []Function, all []column) {
	counts := func(of func(column) row) func(column) string {
		return func(c column) string {
			r := of(c)
			return fmt.Sprintf("%8d %9d %4d %7.0fx", r.starts["gpu-warm"], r.starts["host-warm"], r.starts["cold"], r.slowdown)
		}
	}
	var lines []line
	for i, f := range functions {
		if f.GPU != nil {
			lines = append(lines, line{f.Name, counts(func(c column) row { return c.rows[i] })})
		}
	}
	lines = append(lines,
		line{"GPU, all", counts(func(c column) row { return c.gpus })},
		line{"fairness", func(c column) string { return fmt.Sprintf("%.2f", fairness(c.rows)) }})
	if slices.ContainsFunc(all, func(c column) bool { return c.moved != (traffic{}) }) {
		lines = append(lines, line{"moved out/in", func(c column) string { return fmt.Sprintf("%.0f / %.0f MB", c.moved.out/1e6, c.moved.in/1e6) }})
	}
	lines = append(lines, line{"errors", func(c column) string {
		n := 0
		for _, r := range c.rows {
			n += r.errors
		}
		return fmt.Sprint(n)
	}})
	p.table("starts      ", "gpu-warm host-warm cold slowdown", 32, all, lines)
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

// closing is the whole comparison in one sentence, empty where there is
// nothing to compare. Its numbers are those of the tables, whichever way they
// go.
func closing(all []column) string {
	if len(all) < 2 {
		return ""
	}
	first, last := all[0], all[len(all)-1]
	from, to := first.gpus, last.gpus
	return wrap("", fmt.Sprintf("%d GPU calls on the simulated GPU, the same under both: with %s instead of %s, "+
		"the mean latency is %s (%s ms, was %s ms), "+
		"the slowdown of the worst-served function is %s (%.0fx, was %.0fx), and "+
		"starts that have to load or move memory first are %s (%d, were %d).",
		to.runs, last.policy, first.policy,
		change(float64(from.mean), float64(to.mean), "lower", "higher"), ms(to.mean), ms(from.mean),
		change(from.slowdown, to.slowdown, "lower", "higher"), to.slowdown, from.slowdown,
		change(float64(from.reloads()), float64(to.reloads()), "fewer", "more"), to.reloads(), from.reloads()))
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

// ms is a time in milliseconds, with a digit behind the point where it is short.
func ms(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%d", d.Milliseconds())
}
