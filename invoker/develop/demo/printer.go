package demo

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/load"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
)

// printer writes for a person: with colours and a line of progress on a terminal,
// plain text elsewhere.
type printer struct {
	w        io.Writer
	terminal bool
	colour   bool
}

// terminalWidth is that of a terminal as it comes; no line is longer.
const terminalWidth = 80

const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
	cyan  = "36"
)

func (p printer) paint(code, s string) string {
	if !p.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p printer) line(format string, args ...any) {
	fmt.Fprintf(p.w, format+"\n", args...)
}

// introduce describes what is going to be seen, before anything is started.
func (p printer) introduce(o Options) {
	p.line("%s", p.paint(bold, "GPU Whisk: the same calls under "+strings.Join(o.Policies, ", then under ")))
	p.line("%s", o.Machine.description())
	p.line("%s", wrap("", fmt.Sprintf("Actions: %s; GPU functions: %s.", names(o.Functions, false), names(o.Functions, true))))
	p.line("Takes about %s.\n", (time.Duration(len(o.Policies)) * (o.Load + o.Load/3 + 2*time.Second)).Round(5*time.Second))
}

func names(functions []Function, gpu bool) string {
	var all []string
	for _, f := range functions {
		if gpu == (f.GPU != nil) {
			all = append(all, f.Name)
		}
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// started prints where an installation is, as soon as it is ready.
func (p printer) started(s *standalone.Standalone, policy string, took time.Duration) {
	p.line("%-11s OpenWhisk in one process at %s, ready in %.1f s", policy, s.Info().APIHost, took.Seconds())
	p.line("%s", wrap("  ", fmt.Sprintf("actions run as: %s (%s)", s.Info().Runtime, s.Info().Why)))
	if c := s.Console(); c != "" {
		p.line("  console: %s", c)
	}
}

// wrap sets a text in lines of a terminal's width that begin with an indent.
func wrap(indent, text string) string {
	lines, line := "", indent
	for _, word := range strings.Fields(text) {
		switch {
		case line == indent:
			line += word
		case len(line)+1+len(word) > terminalWidth:
			lines, line = lines+line+"\n", indent+word
		default:
			line += " " + word
		}
	}
	return lines + line
}

// bar fills a part of some cells.
func bar(part float64, cells int, full, empty rune) string {
	n := int(part*float64(cells) + 0.5)
	return strings.Repeat(string(full), n) + strings.Repeat(string(empty), cells-n)
}

// check prints whether the calls, the acks and the records agree.
func (p printer) check(calls []load.Call, acks map[string]int, records map[string]*activation.Record) error {
	n := 0
	for _, of := range acks {
		n += of
	}
	counts := fmt.Sprintf("%d calls, %d acks in Kafka, %d records in the database", len(calls), n, len(records))
	found := differences(calls, acks, records)
	if len(found) == 0 {
		p.line("  %s %s: each once\n", p.paint(green, "ok"), counts)
		return nil
	}
	p.line("%s %s", p.paint(red, "MISMATCH"), counts)
	for _, text := range found[:min(len(found), 10)] {
		p.line("  %s", text)
	}
	return ErrMismatch
}

// progress shows how the calls are going, on a terminal in one line.
func (p printer) progress(policy string, duration time.Duration, g load.Progress) {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K"+p.progressText(policy, duration, g))
	}
}

func (p printer) progressText(policy string, duration time.Duration, g load.Progress) string {
	part := min(g.At.Seconds()/duration.Seconds(), 1)
	return fmt.Sprintf("%-11s %s %5.1f s  %d called, %d answered, %d open", policy,
		p.paint(cyan, bar(part, 16, '█', '░')), g.At.Seconds(), g.Sent, g.Answered, g.Sent-g.Answered)
}

// progressEnd leaves the last state on a line of its own.
func (p printer) progressEnd(policy string, duration time.Duration, r *load.Result) {
	n := len(r.Calls)
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.line("%s", p.progressText(policy, duration, load.Progress{At: r.Took, Sent: n, Answered: n}))
}
