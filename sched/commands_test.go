package sched

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
)

// commands are those of a script. The time is set by "at".
var commands = map[string]func(*script, *datadriven.TestData, *strings.Builder){
	"at": func(s *script, d *datadriven.TestData, _ *strings.Builder) { s.now = duration(d.CmdArgs[0].Key) },

	// device 0 D=2 | device 0 gone
	"device": func(s *script, d *datadriven.TestData, _ *strings.Builder) {
		k := number(d.CmdArgs[0].Key)
		_, known := s.tokens[k]
		switch {
		case d.HasArg("gone"):
			s.RemoveDevice(s.now, k)
			delete(s.tokens, k)
		case known:
			s.tokens[k] = number(value(d, "D"))
			s.SetTokens(s.now, k, s.tokens[k])
		default:
			s.tokens[k] = number(value(d, "D"))
			s.AddDevice(s.now, k, s.tokens[k])
		}
		sum := 0
		for _, n := range s.tokens {
			sum += n
		}
		s.most = max(s.most, sum)
	},

	// enqueue a [n=3] [cost=1s]
	"enqueue": func(s *script, d *datadriven.TestData, out *strings.Builder) {
		name, n, cost := d.CmdArgs[0].Key, 1, time.Duration(0)
		if v := value(d, "n"); v != "" {
			n = number(v)
		}
		if v := value(d, "cost"); v != "" {
			cost = duration(v)
		}
		for range n {
			s.id++
			s.Enqueue(s.now, Invocation{ID: s.id, Flow: s.flow(name), Cost: cost})
			fmt.Fprintf(out, "%d ", s.id)
		}
		fmt.Fprintf(out, "are of %s\n", name)
	},

	// next [n=3]: up to n choices, all there are by default
	"next": func(s *script, d *datadriven.TestData, out *strings.Builder) {
		n := 100
		if v := value(d, "n"); v != "" {
			n = number(v)
		}
		for ; n > 0; n-- {
			c, ok := s.Next(s.now)
			if !ok {
				out.WriteString("none\n")
				return
			}
			s.service[c.Flow.Function] += c.Charged
			s.largest[c.Flow.Function] = max(s.largest[c.Flow.Function], c.Charged)
			fmt.Fprintf(out, "%d of %s on %d, %s, charged %s, %s\n",
				c.Invocation, c.Flow.Function, c.Device, c.Placement.Start, c.Charged, c.Rule)
		}
	},

	// drain n=10: choose one and finish it at once after 1 s of service
	"drain": func(s *script, d *datadriven.TestData, out *strings.Builder) {
		for k := range number(value(d, "n")) {
			if k > 0 {
				out.WriteString(" ")
			}
			c, ok := s.Next(s.now)
			if !ok {
				out.WriteString("none\n")
				return
			}
			s.service[c.Flow.Function] += c.Charged
			s.largest[c.Flow.Function] = max(s.largest[c.Flow.Function], c.Charged)
			s.Done(s.now, c.Invocation, Usage{Service: time.Second})
			out.WriteString(c.Flow.Function)
		}
		out.WriteString("\n")
	},

	// done 3 [used=1s] [setup=1s]
	"done": func(s *script, d *datadriven.TestData, _ *strings.Builder) {
		u := Usage{Service: time.Second}
		if v := value(d, "used"); v != "" {
			u.Service = duration(v)
		}
		if v := value(d, "setup"); v != "" {
			u.Setup = duration(v)
		}
		s.Done(s.now, uint64(number(d.CmdArgs[0].Key)), u)
	},
	"undo": func(s *script, d *datadriven.TestData, _ *strings.Builder) {
		s.Undo(s.now, uint64(number(d.CmdArgs[0].Key)))
	},
	"abandon": func(s *script, d *datadriven.TestData, _ *strings.Builder) {
		s.Abandon(s.now, uint64(number(d.CmdArgs[0].Key)))
	},
	"cancel": func(s *script, d *datadriven.TestData, out *strings.Builder) {
		fmt.Fprintf(out, "cancelled: %t\n", s.Cancel(s.now, uint64(number(d.CmdArgs[0].Key))))
	},

	// facts a device=0 start=cold setup=2s [full] [displaces]
	"facts": func(s *script, d *datadriven.TestData, _ *strings.Builder) {
		f := Placement{Fits: !d.HasArg("full"), Displaces: d.HasArg("displaces")}
		if !f.Fits {
			f.Lacks = LacksMemory
		}
		for k := GPUWarm; k <= BusyCold; k++ {
			if k.String() == value(d, "start") {
				f.Start = k
			}
		}
		if v := value(d, "setup"); v != "" {
			f.Setup = duration(v)
		}
		name := d.CmdArgs[0].Key
		s.view[fmt.Sprintf("%s %s", name, value(d, "device"))] = f
	},

	// weight a 2 | weight namespace=x 2
	"weight": func(s *script, d *datadriven.TestData, out *strings.Builder) {
		w, _ := strconv.ParseFloat(d.CmdArgs[1].Key, 64)
		var err error
		if ns := value(d, "namespace"); ns != "" {
			err = s.SetNamespaceWeight(s.now, ns, w)
		} else {
			name := d.CmdArgs[0].Key
			err = s.SetWeight(s.now, s.flow(name), w)
			s.weights[name] = w
		}
		if err != nil {
			fmt.Fprintln(out, err)
		}
	},

	"tick": func(s *script, _ *datadriven.TestData, _ *strings.Builder) { s.Tick(s.now) },
	"deadline": func(s *script, _ *datadriven.TestData, out *strings.Builder) {
		if at, ok := s.Deadline(); ok {
			fmt.Fprintln(out, at)
			return
		}
		fmt.Fprintln(out, "never")
	},

	// flows: each one's state, virtual time and lead
	"flows": func(s *script, _ *datadriven.TestData, out *strings.Builder) {
		for _, name := range s.names() {
			state := s.State(s.flows[name])
			vt, gvt := s.virtual(s.flows[name])
			fmt.Fprintf(out, "%s %s vt=%s lead=%s\n", name, state, vt, vt-gvt)
		}
	},

	// gap a b: how far the service of two flows lies apart, and the bound
	"gap": func(s *script, d *datadriven.TestData, out *strings.Builder) {
		a, b := d.CmdArgs[0].Key, d.CmdArgs[1].Key
		gap := (s.service[a] - s.service[b]).Abs()
		bound := GapBound(s.cfg.Overrun, s.most, s.largest[a], 1, s.largest[b], 1)
		fmt.Fprintf(out, "gap %s, bound %s, holds %t\n", gap, bound, gap <= bound)
	},

	"explain": func(s *script, d *datadriven.TestData, out *strings.Builder) {
		if p, ok := s.subject.(*Scheduler); ok {
			id := s.flow(d.CmdArgs[0].Key)
			r := p.Explainer(s.now)(id)
			fmt.Fprintf(out, "%s %s: %s", id, r.State, r)
			if r.Rule == RuleThrottle {
				fmt.Fprintf(out, ", leads by %s, behind %s", r.Lead, r.Behind)
			}
			fmt.Fprintln(out)
		}
	},

	"forgotten": func(s *script, _ *datadriven.TestData, out *strings.Builder) {
		known := func(f FlowID) bool {
			if p, ok := s.subject.(*Scheduler); ok {
				return p.flows[f] != nil
			}
			return true
		}
		var gone []string
		for _, name := range s.names() {
			if !known(s.flows[name]) {
				gone = append(gone, name)
			}
		}
		slices.Sort(gone)
		fmt.Fprintln(out, strings.Join(gone, " "))
	},
}
