package gpucheck

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"go.yaml.in/yaml/v3"
)

// step is one part of the check. steps.yaml has the steps and explains their fields.
type step struct {
	Name, Title, Shows string
	Budget             time.Duration
	Plan               string // empty: the step's name
	Block              block
	Rounds, Moves      int // rounds of a measurement, 0: those of the settings; rounds of moves
	Holders            []holder
}

// block is the size of a block of device memory.
type block struct {
	Most, Percent, Count, Above, Fake int64
	Setting                           string
	Containers                        bool
}

// holder is a program that holds a block of device memory.
type holder struct {
	Name, Module string   // the module is its framework's; empty: worker.c
	Env          []string // beside the check's
	Stays        string   // why the block stays on the card; empty: the whole block must move
	VMM          bool     // the block must be back before a kernel runs, so no kernel faults it in
	Graphs       int      // graphs of the block that are replayed across a move
	Speed, Left  bool     // judged: the speed of moves, and the memory that is free after a move
}

// plan is a step for this card: programs, scripts for them, and judgements of what their
// answers have measured.
type plan struct {
	Memory   struct{ Blocks, Bytes int64 }
	Programs map[string]guest
	Tables   []*Table
	Trials   []trial
	Remarks  []string

	Skip, Silent string
}

type guest struct {
	Name         string   // in errors
	Command, Env []string // an empty command is worker.c
	Shim         bool
	Silent       bool // its shim need not connect
}

type trial struct {
	Name    string // begins errors
	Ends    []string
	Figures []figure
	Phases  []struct {
		Label, Script string
		Times         int
		Row           []string
	}
	Says, Remarks []sentence
}

type sentence struct{ When, Text string }

//go:embed steps.yaml
var stepsText string

var stepsTemplate = template.Must(template.New("steps.yaml").Option("missingkey=error").Funcs(template.FuncMap{
	"list": func(of ...string) []string { return of },
	"size": func(v any) string { return size(int64(number(v))) },
	"div":  func(a, b any) int64 { return int64(number(a)) / int64(number(b)) },
	"mod":  func(a, b any) int64 { return int64(number(a)) % int64(number(b)) },
	"add": func(of ...any) (sum int64) {
		for _, v := range of {
			sum += int64(number(v))
		}
		return sum
	},
	"mul": func(a, b any) int64 { return int64(number(a) * number(b)) },
}).Parse(stepsText))

// number is a number of any type.
func number(v any) float64 {
	n, _ := strconv.ParseFloat(fmt.Sprint(v), 64)
	return n
}

// render executes a template of steps.yaml with facts and reads its text.
func render(name string, facts map[string]any, out any) error {
	var text strings.Builder
	err := stepsTemplate.ExecuteTemplate(&text, name, facts)
	if err == nil {
		decoder := yaml.NewDecoder(strings.NewReader(text.String()))
		decoder.KnownFields(true)
		err = decoder.Decode(out)
	}
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return nil
}

var steps = func() (all []step) {
	if err := render("steps", nil, &all); err != nil {
		panic(err) // the table is part of the program
	}
	return all
}()

// Names are the steps' names, in order.
func Names() (out []string) {
	for _, s := range steps {
		out = append(out, s.Name)
	}
	return out
}

// Help is a line for each step.
func Help() string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "  %-11s %s (%v)\n", s.Name, s.Shows, s.Budget)
	}
	return b.String()
}

// chosen returns the steps to run, and the sum of their budgets.
func (s Settings) chosen() (of []step, budget time.Duration, err error) {
	for _, name := range slices.Concat(s.Only, s.Skip) {
		if !slices.Contains(Names(), name) {
			return nil, 0, fmt.Errorf("step %s: known are %v: %w", name, Names(), ErrCannotRun)
		}
	}
	for _, st := range steps {
		if (len(s.Only) == 0 || slices.Contains(s.Only, st.Name)) && !slices.Contains(s.Skip, st.Name) {
			of, budget = append(of, st), budget+st.Budget
		}
	}
	if len(of) == 0 {
		return nil, 0, fmt.Errorf("no step is left to run: %w", ErrCannotRun)
	}
	return of, budget, nil
}
