package gpucheck

import (
	"cmp"
	"context"
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

// Verdict is what came of a step, of a finding or of the whole.
type Verdict string

// The verdicts, the better before the worse.
const (
	Well    Verdict = "well"    // every goal is met
	Skipped Verdict = "skipped" // there was nothing to try it with; Reason is why
	Below   Verdict = "below"   // it works, and misses a goal
	Failed  Verdict = "failed"  // it does not work, or could not be finished
)

func (v Verdict) worse(than Verdict) bool {
	order := []Verdict{Well, Skipped, Below, Failed}
	return slices.Index(order, v) > slices.Index(order, than)
}

// Report is the whole of a check.
type Report struct {
	Fake    bool      `json:"fakeDriver"` // no hardware stood behind it
	Driver  string    `json:"driver"`     // its name
	Verdict Verdict   `json:"verdict"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Machine Machine   `json:"machine"`
	Card    Card      `json:"card"`
	Goals   Goals     `json:"goals"`
	Steps   []Result  `json:"steps"`
}

// Machine is where it ran.
type Machine struct {
	OS        string `json:"os"`
	Kernel    string `json:"kernel"`
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	Memory    int64  `json:"memoryBytes"`
}

// Card is what it ran on.
type Card struct {
	Name       string `json:"name"`
	Capability string `json:"capability"`
	Processors int    `json:"multiprocessors"`
	Memory     int64  `json:"memoryBytes"`
	Free       int64  `json:"freeBytes"`
	Managed    bool   `json:"managedMemory"`
	Concurrent bool   `json:"concurrentManagedAccess"`
	Driver     string `json:"driver"`
	CUDA       string `json:"cuda"`
	MIG        string `json:"mig"`
	MPS        bool   `json:"mps"`
	Mode       string `json:"computeMode"`
	NVML       string `json:"nvml"`
}

// Result is what one step found.
type Result struct {
	Name     string    `json:"name"`
	Title    string    `json:"title"`
	Shows    string    `json:"shows"`
	Verdict  Verdict   `json:"verdict"`
	Reason   string    `json:"reason,omitempty"`
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
func (f Finding) Text() string {
	if f.Unit == "share" {
		return percent(f.Value)
	}
	return fmt.Sprintf("%g", f.Value)
}

// Table is what was measured, row by row.
type Table struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

func (t *Table) row(values ...any) {
	cells := make([]string, len(values))
	for i, v := range values {
		cells[i] = fmt.Sprint(v)
	}
	t.Rows = append(t.Rows, cells)
}

func (r *Result) table(title string, columns ...string) *Table {
	t := &Table{Title: title, Columns: columns}
	r.Tables = append(r.Tables, t)
	return t
}

func (r *Result) remark(format string, args ...any) {
	r.Remarks = append(r.Remarks, fmt.Sprintf(format, args...))
}

// judge adds a finding: well, or below its goal.
func (r *Result) judge(what string, value float64, unit, goal string, met bool) {
	r.add(what, value, unit, goal, met, Below)
}

// must adds a finding that is no matter of degree.
func (r *Result) must(what string, value float64, goal string, met bool) {
	r.add(what, value, "", goal, met, Failed)
}

// none adds a finding of what must not be there at all.
func (r *Result) none(what string, count int64) { r.must(what, float64(count), "0", count == 0) }

// all adds a finding of what must be so in every case.
func (r *Result) all(what string, count, of int) {
	r.must(what, float64(count), fmt.Sprint(of), count == of)
}

func (r *Result) add(what string, value float64, unit, goal string, met bool, otherwise Verdict) {
	if met {
		otherwise = Well
	}
	r.Findings = append(r.Findings, Finding{what, value, unit, goal, otherwise})
}

// errSkip means that a step had nothing to work with.
type errSkip struct{ reason string }

func (e errSkip) Error() string { return e.reason }

// skip ends the step as one that had nothing to work with.
func skip(format string, args ...any) { require(errSkip{fmt.Sprintf(format, args...)}) }

// conclude sums a step up: the worst of its findings, or its error.
func (r *Result) conclude(err error) {
	if err == nil && len(r.Findings) == 0 {
		err = errors.New("nothing was found out")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("out of time: %w", err)
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

// judge sums the whole up. What was skipped does not count, unless nothing
// else is there.
func (r *Report) judge() {
	r.Verdict = Skipped
	for _, s := range r.Steps {
		if s.Verdict != Skipped && (r.Verdict == Skipped || s.Verdict.worse(r.Verdict)) {
			r.Verdict = s.Verdict
		}
	}
}

// ExitCode is 0 when all is well, 1 when something missed its goal or failed,
// 2 when nothing could be tried.
func (r *Report) ExitCode() int {
	return map[Verdict]int{Well: 0, Below: 1, Failed: 1, Skipped: 2}[r.Verdict]
}

//go:embed report.md.tmpl
var reportText string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"cell": cell, "size": size, "percent": percent, "known": orUnknown, "because": because, "join": strings.Join,
	"onOff":  func(on bool) string { return pick(on, "on", "off") },
	"anchor": func(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") },
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
func (r *Report) PrintJSON(w io.Writer) error {
	return prettyjson.Write(w, r)
}

// Name is the name of the report's files, without their ending. A report on the
// fake driver has "fake" in it, one on a card never.
func (r *Report) Name() string {
	card := "fake"
	if !r.Fake {
		parts := strings.FieldsFunc(strings.ToLower(r.Card.Name), func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < '0' || c > '9')
		})
		card = strings.ReplaceAll(strings.Join(parts, "-"), "fake", "f-ke")
	}
	return fmt.Sprintf("gpu-check-%s-%s", cmp.Or(card, "gpu"), r.Started.UTC().Format("2006-01-02-1504"))
}

// Write puts the report into a directory, as Markdown and as JSON, and returns the
// files' names. Files that are there are kept.
func (r *Report) Write(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of results: %w", err)
	}
	base := filepath.Join(dir, r.Name())
	for n := 2; exists(base+".json") || exists(base+".md"); n++ {
		base = fmt.Sprintf("%s-%d", filepath.Join(dir, r.Name()), n)
	}
	var text strings.Builder
	if err := r.PrintJSON(&text); err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	names := []string{base + ".md", base + ".json"}
	for i, content := range []string{r.Markdown(), text.String()} {
		if err := os.WriteFile(names[i], []byte(content), 0o644); err != nil {
			return nil, fmt.Errorf("write report: %w", err)
		}
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

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// pick is one of two values for a fact.
func pick[T any](is bool, yes, no T) T {
	if is {
		return yes
	}
	return no
}
