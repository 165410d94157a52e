package gpucheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Verdict is what came of a step, of a finding or of the whole.
type Verdict string

// The verdicts, the better before the worse.
const (
	// Well: every goal is met.
	Well Verdict = "well"
	// Skipped: there was nothing to try it with; Reason is why.
	Skipped Verdict = "skipped"
	// Below: it works, and misses a goal.
	Below Verdict = "below"
	// Failed: it does not work, or could not be finished.
	Failed Verdict = "failed"
)

func (v Verdict) rank() int { return slices.Index([]Verdict{Well, Skipped, Below, Failed}, v) }

// Finding is one judged statement.
type Finding struct {
	What    string  `json:"what"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit,omitempty"`
	Goal    string  `json:"goal,omitempty"`
	Verdict Verdict `json:"verdict"`
}

// Table is what was measured, row by row.
type Table struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
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

// Report is the whole of a check.
type Report struct {
	// Fake is true when no hardware stood behind it.
	Fake bool `json:"fakeDriver"`
	// Driver names the driver.
	Driver  string    `json:"driver"`
	Verdict Verdict   `json:"verdict"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Machine Machine   `json:"machine"`
	Card    Card      `json:"card"`
	Goals   Goals     `json:"goals"`
	Steps   []Result  `json:"steps"`
}

// errSkip means that a step had nothing to work with.
type errSkip struct{ reason string }

func (e errSkip) Error() string { return e.reason }

// skip ends the step as one that had nothing to work with.
func skip(format string, args ...any) { check(errSkip{fmt.Sprintf(format, args...)}) }

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

func (r *Result) add(what string, value float64, unit, goal string, met bool, otherwise Verdict) {
	if met {
		otherwise = Well
	}
	r.Findings = append(r.Findings, Finding{what, value, unit, goal, otherwise})
}

func (r *Result) remark(format string, args ...any) {
	r.Remarks = append(r.Remarks, fmt.Sprintf(format, args...))
}

func (r *Result) table(title string, columns ...string) *Table {
	t := &Table{Title: title, Columns: columns}
	r.Tables = append(r.Tables, t)
	return t
}

func (t *Table) row(values ...any) {
	cells := make([]string, len(values))
	for i, v := range values {
		cells[i] = fmt.Sprint(v)
	}
	t.Rows = append(t.Rows, cells)
}

// conclude sums a step up: the worst of its findings, or its error.
func (r *Result) conclude(err error) {
	r.Verdict = Well
	var s errSkip
	switch {
	case errors.As(err, &s):
		r.Verdict, r.Reason = Skipped, s.reason
	case errors.Is(err, context.DeadlineExceeded):
		r.Verdict, r.Reason = Failed, "out of time: "+err.Error()
	case err != nil:
		r.Verdict, r.Reason = Failed, err.Error()
	case len(r.Findings) == 0:
		r.Verdict, r.Reason = Failed, "nothing was found out"
	}
	for _, f := range r.Findings {
		if f.Verdict.rank() > r.Verdict.rank() {
			r.Verdict = f.Verdict
			if err == nil {
				r.Reason = fmt.Sprintf("%s: %s, goal %s", f.What, f.Text(), f.Goal)
			}
		}
	}
}

// judge sums the whole up. What was skipped does not count, unless nothing
// else is there.
func (r *Report) judge() {
	r.Verdict = Skipped
	for _, s := range r.Steps {
		if s.Verdict != Skipped && (r.Verdict == Skipped || s.Verdict.rank() > r.Verdict.rank()) {
			r.Verdict = s.Verdict
		}
	}
}

// ExitCode is 0 when all is well, 1 when something missed its goal or failed,
// 2 when nothing could be tried.
func (r *Report) ExitCode() int {
	switch r.Verdict {
	case Well:
		return 0
	case Skipped:
		return 2
	}
	return 1
}
