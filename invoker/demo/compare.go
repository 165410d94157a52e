package demo

import (
	"fmt"
	"strings"
	"time"
)

// side is one policy in the tables.
type side struct {
	policy string
	lines  []line
	gpus   line
	moved  traffic
}

func sides(functions []Function, rounds []round) []side {
	all := make([]side, len(rounds))
	for i, r := range rounds {
		lines, gpus := summarise(functions, r)
		all[i] = side{r.policy, lines, gpus, r.moved}
	}
	return all
}

// Columns of a side in the tables: two of them and the names fit a terminal.
const (
	latencyWidth = 31
	startsWidth  = 32
	barWidth     = 15
)

// latencies shows how long callers waited, with bars on one scale.
func (p printer) latencies(functions []Function, all []side) {
	longest := time.Duration(1)
	for _, s := range all {
		for _, l := range s.lines {
			longest = max(longest, l.mean)
		}
	}
	p.heads(16, latencyWidth, all)
	head := fmt.Sprintf("%-10s %5s", "latency", "calls")
	for range all {
		head += fmt.Sprintf(" %7s %7s %-15s", "mean ms", "p95 ms", "mean")
	}
	p.say("%s", p.paint(bold, strings.TrimRight(head, " ")))
	row := func(name string, of func(side) line) {
		text := fmt.Sprintf("%-10s %5d", name, of(all[0]).runs)
		for _, s := range all {
			l := of(s)
			text += fmt.Sprintf(" %7s %7s %s", ms(l.mean), ms(l.p95), p.paint(green, bar(float64(l.mean)/float64(longest), barWidth, '█', ' ')))
		}
		p.say("%s", strings.TrimRight(text, " "))
	}
	for i, f := range functions {
		row(f.Name, func(s side) line { return s.lines[i] })
	}
	row("GPU, all", func(s side) line { return s.gpus })
	p.say("")
}

// starts shows how the runs of GPU functions began, and how fair it was.
func (p printer) starts(functions []Function, all []side) {
	p.heads(12, startsWidth, all)
	head := fmt.Sprintf("%-12s", "starts")
	for range all {
		head += fmt.Sprintf(" %8s %9s %4s %8s", "gpu-warm", "host-warm", "cold", "slowdown")
	}
	p.say("%s", p.paint(bold, head))
	row := func(name string, of func(side) line) {
		text := fmt.Sprintf("%-12s", name)
		for _, s := range all {
			l := of(s)
			text += fmt.Sprintf(" %8d %9d %4d %7.0fx", l.starts["gpu-warm"], l.starts["host-warm"], l.starts["cold"], l.slowdown)
		}
		p.say("%s", text)
	}
	for i, f := range functions {
		if f.GPU != nil {
			row(f.Name, func(s side) line { return s.lines[i] })
		}
	}
	row("GPU, all", func(s side) line { return s.gpus })
	p.figures("fairness", all, func(s side) string { return fmt.Sprintf("%.2f", fairness(s.lines)) })
	if moved(all) {
		p.figures("moved out/in", all, func(s side) string { return fmt.Sprintf("%.0f / %.0f MB", s.moved.out/1e6, s.moved.in/1e6) })
	}
	p.figures("errors", all, func(s side) string {
		n := 0
		for _, l := range s.lines {
			n += l.errors
		}
		return fmt.Sprint(n)
	})
	p.say("%s\n", p.paint(dim, "gpu-warm: memory on the device; host-warm: moved in first; cold: loaded anew\n"+
		"slowdown: mean latency over a run's own time; for all: the worst function's\n"+
		"fairness: Jain's index of the slowdowns, 1 when all wait alike for their work"))
}

func moved(all []side) bool {
	for _, s := range all {
		if s.moved != (traffic{}) {
			return true
		}
	}
	return false
}

// heads names the policies above their columns.
func (p printer) heads(left, columns int, all []side) {
	text := strings.Repeat(" ", left)
	for _, s := range all {
		text += " ── " + s.policy + " " + strings.Repeat("─", columns-4-len(s.policy))
	}
	p.say("%s", p.paint(cyan, text))
}

// figures is one value of each side, at the right of its columns.
func (p printer) figures(name string, all []side, of func(side) string) {
	text := fmt.Sprintf("%-12s", name)
	for _, s := range all {
		text += fmt.Sprintf(" %*s", startsWidth, of(s))
	}
	p.say("%s", text)
}

// closing is the whole comparison in one sentence, empty where there is
// nothing to compare. Its numbers are those of the tables, whichever way they
// go.
func closing(all []side) string {
	if len(all) < 2 {
		return ""
	}
	from, to := all[0], all[len(all)-1]
	reloads := func(s side) int { return s.gpus.runs - s.gpus.starts["gpu-warm"] }
	return wrap("", fmt.Sprintf("%d GPU calls on the simulated GPU, the same under both: with %s instead of %s, "+
		"the mean latency is %s (%s ms, was %s ms), "+
		"the slowdown of the worst-served function is %s (%.0fx, was %.0fx), and "+
		"starts that have to load or move memory first are %s (%d, were %d).",
		to.gpus.runs, to.policy, from.policy,
		change(float64(from.gpus.mean), float64(to.gpus.mean), "lower", "higher"), ms(to.gpus.mean), ms(from.gpus.mean),
		change(from.gpus.slowdown, to.gpus.slowdown, "lower", "higher"), to.gpus.slowdown, from.gpus.slowdown,
		change(float64(reloads(from)), float64(reloads(to)), "fewer", "more"), reloads(to), reloads(from)))
}

// change says how a value went, and by how much.
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
