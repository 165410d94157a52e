package demo

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

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
	p.line("Actions: %s\nGPU functions: %s", names(o.Functions, false), names(o.Functions, true))
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
	i := s.Info()
	p.line("%-11s OpenWhisk in one process at %s, ready in %.1f s", policy, i.APIHost, took.Seconds())
	p.line("  actions run as: %s\n  (%s)", i.Runtime, i.Why)
	if c := s.Console(); c != "" {
		p.line("  console: %s", c)
	}
}

// progress shows how the calls are going, on a terminal in one line.
func (p printer) progress(g load.Progress) {
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K  %s", g)
	}
}

// answered replaces the progress when all calls are.
func (p printer) answered(r *load.Result) {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.line("  %d calls, the last was answered after %.1f s", len(r.Calls), r.Took.Seconds())
}
