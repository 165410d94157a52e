package load

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// width is the longest line that is printed.
const width = 80

// Print writes the report for a person.
func (s Report) Print(w io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(cut(fmt.Sprintf(format, args...), width) + "\n")
	}
	line("%s", s.APIHost)
	line("%s", s.Load)
	if s.Interrupted {
		line("interrupted: this is what there was until then")
	}
	line("")
	line("%d calls in %.1f s: %d ran, %d failed; %.1f successes a second",
		s.All.Calls, s.Seconds, s.Ran, s.Failed, s.Throughput)
	line("latency from the time at which each call was to be sent:")
	s.table(line, "START", s.Starts)
	s.table(line, "ACTION", s.Actions)
	row(line, s.All)
	if len(s.Failures) > 0 {
		line("")
		line("%-68s %11s", "FAILURE", "CALLS")
	}
	for _, f := range s.Failures {
		line("%-68s %11d", cut(f.Kind, 68), f.Count)
		if f.Example != "" {
			line("  first: %s", f.Example)
		}
	}
	if s.Late > 0 {
		line("")
		line("%d calls were sent late, by %s at most; latencies hold that wait.", s.Late, short(s.Latest))
	}
	if s.Unsent > 0 {
		line("%d calls were not sent: --in-flight of others waited for their answers.", s.Unsent)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Report) table(line func(string, ...any), title string, groups []Group) {
	line("")
	line("%-28s %7s %7s %8s %8s %8s %8s", title, "CALLS", "FAILED", "P50", "P95", "P99", "MAX")
	for _, g := range groups {
		row(line, g)
	}
}

func row(line func(string, ...any), g Group) {
	p50, p95, p99, most := "-", "-", "-", "-"
	if len(g.latencies) > 0 {
		p50, p95, p99, most = short(g.P50), short(g.P95), short(g.P99), short(g.Max)
	}
	line("%-28s %7d %7d %8s %8s %8s %8s", middle(g.Name, 28), g.Calls, g.Failed, p50, p95, p99, most)
}

// short writes milliseconds with three digits and a unit.
func short(ms float64) string {
	switch {
	case ms < 9.995:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 99.95:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 9995:
		return fmt.Sprintf("%.2f s", ms/1e3)
	case ms < 99950:
		return fmt.Sprintf("%.1f s", ms/1e3)
	}
	return fmt.Sprintf("%.0f s", ms/1e3)
}

// cut shortens a line at its end.
func cut(text string, to int) string {
	if runes := []rune(text); len(runes) > to {
		return strings.TrimRight(string(runes[:to-3]), " ") + "..."
	}
	return text
}

// middle shortens a name where it tells least.
func middle(name string, to int) string {
	runes := []rune(name)
	if len(runes) <= to {
		return name
	}
	head := (to - 2) / 2
	return string(runes[:head]) + ".." + string(runes[len(runes)-(to-2-head):])
}

// String is the line that is shown while a load runs.
func (p Progress) String() string {
	return fmt.Sprintf("%5s  sent %d  answered %d  under way %d  failed %d  slowest %s",
		p.At.Round(time.Second), p.Sent, p.Answered, p.Sent-p.Answered, p.Failed, short(ms(p.Slowest)))
}
