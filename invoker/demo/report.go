package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone"
)

// printer writes for a person: with colours and a moving line on a terminal,
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

func (p printer) say(format string, args ...any) {
	fmt.Fprintf(p.w, format+"\n", args...)
}

// introduce says what is going to be seen, before anything is started.
func (p printer) introduce(o Options) {
	p.say("%s", p.paint(bold, "GPU Whisk: the same calls under "+strings.Join(o.Policies, ", then under ")))
	p.say("%s", o.Machine.how())
	p.say("%s", wrap("", fmt.Sprintf("Actions: %s; GPU functions: %s.", names(o.Functions, false), names(o.Functions, true))))
	p.say("Takes about %s.\n", (time.Duration(len(o.Policies)) * (o.Load + o.Load/3 + 2*time.Second)).Round(5*time.Second))
}

// started says where an installation is, as soon as it is ready.
func (p printer) started(s *standalone.Standalone, policy string, took time.Duration) {
	p.say("%-11s OpenWhisk in one process at %s, ready in %.1f s", policy, s.Info().APIHost, took.Seconds())
	p.say("%s", wrap("  ", fmt.Sprintf("actions run as: %s (%s)", s.Info().Runtime, s.Info().Why)))
	if c := s.Console(); c != "" {
		p.say("  console: %s", c)
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

func names(functions []Function, gpu bool) string {
	var all []string
	for _, f := range functions {
		if gpu == (f.GPU != nil) {
			all = append(all, f.Name)
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// report shows everything side by side, and says what matters last.
func (p printer) report(o Options, rounds []round) error {
	all := sides(o.Functions, rounds)
	p.latencies(o.Functions, all)
	p.starts(o.Functions, all)
	if err := p.record(rounds[len(rounds)-1].records); err != nil {
		return err
	}
	if text := closing(all); text != "" {
		p.say("%s\n", p.paint(bold, text))
	}
	return nil
}

// record shows what the record of a GPU function's activation says of its run,
// of the one that waited longest for the device.
func (p printer) record(records map[string]*activation.Record) error {
	id := pick(records)
	if id == "" {
		return nil
	}
	raw, _ := records[id].Annotations.Get("gpu")
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, raw, "", "  "); err != nil {
		return fmt.Errorf("read gpu annotation of %s: %w", id, err)
	}
	p.say("wsk activation get %s (%s), annotation gpu:\n%s\n", id, records[id].Name, pretty.String())
	return nil
}

func pick(records map[string]*activation.Record) string {
	best, longest := "", int64(-1)
	for id, r := range records {
		raw, ok := r.Annotations.Get("gpu")
		if !ok {
			continue
		}
		g, err := decodeGPU(raw)
		if err == nil && (g.QueueTime > longest || g.QueueTime == longest && id < best) {
			best, longest = id, g.QueueTime
		}
	}
	return best
}

// check tells whether the three accounts agree.
func (p printer) check(calls []call, a *account) error {
	v := judge(calls, a)
	counts := fmt.Sprintf("%d calls, %d acks in Kafka, %d records in the database", v.Invocations, v.Acks, v.Records)
	if v.ok() {
		p.say("  %s %s: each once\n", p.paint(green, "ok"), counts)
		return nil
	}
	p.say("%s %s", p.paint(red, "MISMATCH"), counts)
	p.say("refused %d; acks: missing %d, doubled %d, of no call %d;\nrecords: missing %d, of no call %d",
		v.Refused, v.Unacknowledged, v.Doubled, v.Alien, v.Unrecorded, v.Unasked)
	return ErrMismatch
}
