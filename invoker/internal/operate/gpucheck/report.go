package gpucheck

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/prettyjson"
)

// Verdict is the judgement of a step, of a finding or of the whole check.
type Verdict string

// The verdicts, the better before the worse.
const (
	Well    Verdict = "well"    // every goal is met
	Skipped Verdict = "skipped" // the step did not run; Reason says why
	Below   Verdict = "below"   // it works, but misses a goal
	Failed  Verdict = "failed"  // it does not work, or did not finish
)

func (v Verdict) worse(than Verdict) bool {
	order := []Verdict{Well, Skipped, Below, Failed}
	return slices.Index(order, v) > slices.Index(order, than)
}

// Report has the results of a check.
type Report struct {
	Fake    bool      `json:"fakeDriver"` // there was no hardware
	Card    string    `json:"card"`
	Verdict Verdict   `json:"verdict"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Facts   []Fact    `json:"facts"`
	Goals   Goals     `json:"goals"`
	Steps   []Result  `json:"steps"`

	base string // the name of the written files without their ending
}

// Fact describes a part of the machine or the card.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Result has the findings of one step.
type Result struct {
	Name     string    `json:"name"`
	Title    string    `json:"title"`
	Shows    string    `json:"shows"`
	Verdict  Verdict   `json:"verdict"`
	Reason   string    `json:"reason,omitempty"`
	Says     []string  `json:"says,omitempty"` // the measurements in sentences
	Seconds  float64   `json:"seconds"`
	Findings []Finding `json:"findings,omitempty"`
	Tables   []*Table  `json:"tables,omitempty"`
	Remarks  []string  `json:"notes,omitempty"`
}

// Finding is one judged statement.
type Finding struct {
	What    string  `json:"what"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit,omitempty"`
	Goal    string  `json:"goal,omitempty"`
	Verdict Verdict `json:"verdict"`
}

// Text is the finding's value with its unit.
func (f Finding) Text() string { return pick(f.Unit == "share", percent(f.Value), plain(f.Value)) }

// Table has measurements, row by row.
type Table struct {
	Label   string     `json:"-"` // of the answers whose rows it has; empty: it has the rows of phases
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// errSkip means that a step cannot run here.
type errSkip struct{ reason string }

func (e errSkip) Error() string { return e.reason }

// conclude gives a step the worst verdict of its findings and its error.
func (r *Result) conclude(err error) {
	if err == nil && len(r.Findings) == 0 {
		err = errors.New("there are no findings")
	}
	r.Verdict = Well
	if err != nil {
		r.Verdict = pick(errors.As(err, new(errSkip)), Skipped, Failed)
	}
	for _, f := range r.Findings {
		if f.Verdict.worse(r.Verdict) {
			r.Verdict, r.Reason = f.Verdict, fmt.Sprintf("%s: %s, goal %s", f.What, f.Text(), f.Goal)
		}
	}
	if err != nil {
		r.Reason = err.Error()
	}
}

// judge gives the report the worst verdict of its steps. Skipped steps do not count, unless
// all were skipped.
func (r *Report) judge() {
	r.Verdict = Skipped
	for _, s := range r.Steps {
		if s.Verdict != Skipped && (r.Verdict == Skipped || s.Verdict.worse(r.Verdict)) {
			r.Verdict = s.Verdict
		}
	}
}

// ExitCode is 0 if all is well, 1 if a step missed its goal or failed, 2 if no step ran.
func (r *Report) ExitCode() int {
	return map[Verdict]int{Well: 0, Below: 1, Failed: 1, Skipped: 2}[r.Verdict]
}

//go:embed report.md.tmpl
var reportText string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"cell": cell, "percent": percent, "join": strings.Join,
	"anchor": func(title string) string {
		return strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(title))
	},
}).Parse(reportText))

// Markdown is the report for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	if err := reportTemplate.Execute(&b, r); err != nil {
		panic(err) // the template is part of the program
	}
	return b.String()
}

// PrintJSON writes the report as one JSON object.
func (r *Report) PrintJSON(w io.Writer) error { return prettyjson.Write(w, r) }

// Name is the name of the report's files without their ending. The name of a report on the
// fake driver has "fake" in it, and the name of a report on a card never has.
func (r *Report) Name() string {
	parts := strings.FieldsFunc(strings.ToLower(r.Card), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
	card := cmp.Or(strings.ReplaceAll(strings.Join(parts, "-"), "fake", "f-ke"), "gpu")
	return fmt.Sprintf("gpu-check-%s-%s", pick(r.Fake, "fake", card), r.Started.UTC().Format("2006-01-02-1504"))
}

// Write puts the report into a directory, as Markdown and as JSON, and returns the files'
// names. It overwrites no files but the report's own.
func (r *Report) Write(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of results: %w", err)
	}
	for n := 1; r.base == ""; n++ {
		name := filepath.Join(dir, r.Name()+pick(n == 1, "", fmt.Sprintf("-%d", n)))
		if !exists(name+".json") && !exists(name+".md") {
			r.base = name
		}
	}
	var text strings.Builder
	err := r.PrintJSON(&text)
	names := []string{r.base + ".md", r.base + ".json"}
	for i, content := range []string{r.Markdown(), text.String()} {
		err = errors.Join(err, os.WriteFile(names[i], []byte(content), 0o644))
	}
	if err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	return names, nil
}

// cell keeps a text within its cell and on its line.
func cell(s string) string {
	const most = 600
	s = strings.Join(strings.FieldsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f }), " ")
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "..."
	}
	return strings.ReplaceAll(s, "|", "\\|")
}
