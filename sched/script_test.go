package sched

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// subject is the scheduler that a script drives.
type subject interface {
	Enqueue(time.Duration, Invocation)
	Cancel(time.Duration, uint64) bool
	Next(time.Duration) (Choice, bool)
	Done(time.Duration, uint64, Usage)
	Undo(time.Duration, uint64)
	Abandon(time.Duration, uint64)
	Revised(time.Duration, FlowID)
	AddDevice(time.Duration, int, int)
	RemoveDevice(time.Duration, int)
	SetTokens(time.Duration, int, int)
	SetWeight(time.Duration, FlowID, float64) error
	SetNamespaceWeight(time.Duration, string, float64) error
	Tick(time.Duration)
	Deadline() (time.Duration, bool)
	State(FlowID) State
	virtual(FlowID) (vt, gvt time.Duration)
}

func (s *Scheduler) virtual(id FlowID) (vt, gvt time.Duration) {
	f := s.flows[id]
	if f == nil {
		return 0, 0
	}
	return time.Duration(f.vt), time.Duration(f.group.level.clock)
}

// answers is a View of set answers; an unset one fits and starts at once.
type answers map[string]Placement

func (a answers) Work(f FlowID) Work { return answersOf{a, f.Function} }

type answersOf struct {
	of       answers
	function string
}

func (a answersOf) Placement(device int) Placement {
	if got, ok := a.of[fmt.Sprintf("%s %d", a.function, device)]; ok {
		return got
	}
	return Placement{Fits: true}
}

func (a answersOf) Outlook() Outlook {
	setup := limit
	for key, p := range a.of {
		if strings.HasPrefix(key, a.function+" ") {
			setup = min(setup, p.Setup)
		}
	}
	if setup == limit {
		setup = 0
	}
	return Outlook{Setup: setup, Servable: true}
}

// script is one subject with the state of a file's commands.
type script struct {
	subject
	policy  string
	cfg     Config
	view    answers
	now     time.Duration
	id      uint64
	flows   map[string]FlowID
	weights map[string]float64
	service map[string]time.Duration // charged since both were first chosen
	largest map[string]time.Duration
	tokens  map[int]int
	most    int
}

func newScript() *script {
	return &script{
		view: answers{}, flows: map[string]FlowID{}, weights: map[string]float64{},
		service: map[string]time.Duration{}, largest: map[string]time.Duration{}, tokens: map[int]int{},
	}
}

// TestScripts runs each file, which shows the choices and why they are made.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/rules", func(t *testing.T, path string) {
		ours := newScript()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "printed" {
				return d.Expected
			}
			defer func() {
				if r := recover(); r != nil {
					t.Fatalf("%s: %s: %v", d.Pos, d.FullCmd(), r)
				}
			}()
			out := runScript(t, ours, d, func(s *script) subject {
				p, err := testPolicy(s.policy).New(s.cfg, s.view)
				if err != nil {
					t.Fatal(err)
				}
				return p
			})
			if ours.subject != nil {
				if err := newChecker().check(ours.subject.(*Scheduler)); err != nil {
					t.Fatalf("%s: %v", d.Pos, err)
				}
			}
			return out
		})
	})
}

func runScript(t *testing.T, s *script, d *datadriven.TestData, build func(*script) subject) string {
	if d.Cmd == "new" {
		s.create(t, d)
		s.subject = build(s)
		return "ok\n"
	}
	command, ok := commands[d.Cmd]
	if !ok {
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
	var out strings.Builder
	command(s, d, &out)
	if out.Len() == 0 {
		return "ok\n"
	}
	return out.String()
}

// options are the settings of a policy that a script can change.
var options = map[string]func(*Config, string){
	"T":          func(c *Config, v string) { c.Overrun = duration(v) },
	"gap":        func(c *Config, v string) { c.Gap = duration(v) },
	"alpha":      func(c *Config, v string) { c.TTLAlpha = real(v) },
	"ttlmin":     func(c *Config, v string) { c.TTLMin = duration(v) },
	"ttlmax":     func(c *Config, v string) { c.TTLMax = duration(v) },
	"keep":       func(c *Config, v string) { c.KeepInactive = duration(v) },
	"initial":    func(c *Config, v string) { c.InitialCharge = duration(v) },
	"fixed":      func(c *Config, v string) { c.FixedCharge = duration(v) },
	"correct":    func(c *Config, v string) { c.Correct = v != "off" },
	"wait":       func(c *Config, v string) { c.Wait = v != "off" },
	"locality":   func(c *Config, v string) { c.Locality = v != "off" },
	"shortest":   func(c *Config, v string) { c.Shortest = v != "off" },
	"setup":      func(c *Config, v string) { c.CountSetup = v != "off" },
	"namespaces": func(c *Config, v string) { c.Namespaces = v != "off" },
}

// create reads policy=NAME and any option as key=value.
func (s *script) create(t *testing.T, d *datadriven.TestData) {
	s.policy = value(d, "policy")
	cfg := testPolicy(s.policy).Defaults()
	for _, a := range d.CmdArgs {
		if a.Key == "policy" {
			continue
		}
		set, ok := options[a.Key]
		if !ok {
			t.Fatalf("%s: unknown option %s", d.Pos, a.Key)
		}
		set(&cfg, value(d, a.Key))
	}
	s.cfg = cfg
	clear(s.tokens)
	s.view = answers{}
	s.flows = map[string]FlowID{}
}

func value(d *datadriven.TestData, key string) string {
	if a, ok := d.Arg(key); ok && len(a.Vals) > 0 {
		return a.Vals[0]
	}
	return ""
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func real(text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return f
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// flow reads "a" or "ns.a"; plain letters live in namespace "-".
func (s *script) flow(name string) FlowID {
	id := FlowID{"-", name}
	if ns, _, ok := strings.Cut(name, "."); ok {
		id.Namespace = ns
	}
	s.flows[name] = id
	return id
}

func (s *script) names() []string { return slices.Sorted(maps.Keys(s.flows)) }
