package gpucheck

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestNameDistinguishesFakeFromReal(t *testing.T) {
	at := time.Date(2026, 11, 21, 14, 5, 0, 0, time.UTC)
	for _, c := range []struct {
		card string
		fake bool
		want string
	}{
		{"NVIDIA H200", false, "gpu-check-nvidia-h200-2026-11-21-1405"},
		{"Fake GPU 0", true, "gpu-check-fake-2026-11-21-1405"},
		{"NVIDIA H200", true, "gpu-check-fake-2026-11-21-1405"},
		{"Fake GPU 0", false, "gpu-check-f-ke-gpu-0-2026-11-21-1405"},
		{"../../etc", false, "gpu-check-etc-2026-11-21-1405"},
		{"", false, "gpu-check-gpu-2026-11-21-1405"},
	} {
		r := Report{Fake: c.fake, Started: at, Card: c.card}
		check.Equal(t, r.Name(), c.want, "name of %q, fake %v", c.card, c.fake)
	}
}

func TestReportIsWrittenTwiceOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	r := &Report{Fake: true, Verdict: Below, Card: "Fake GPU 0", Facts: []Fact{{"driver", "a|b"}}, Steps: []Result{{
		Name: "swap", Title: "A swap", Verdict: Below,
		Findings: []Finding{{"a | b", 0.5, "share", "at least 90%", Below}},
		Tables:   []*Table{{Title: "T", Columns: []string{"x", "y"}, Rows: [][]string{{"1|2", "3\n4"}}}, {Title: "Empty"}},
		Remarks:  []string{"a\nnote"},
	}}}
	for range 2 { // the second beside the first
		one := *r
		for range 2 { // the second time over the first
			if _, err := one.Write(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := os.ReadDir(dir)
	check.NoError(t, err)
	check.Equal(check.Must(t), len(files), 4)
	for _, f := range files {
		check.Contains(t, f.Name(), "fake")
	}
	text := r.Markdown()
	for _, want := range []string{"FAKE DRIVER", "| driver | a\\|b |", "a \\| b", "1\\|2", "3 4", "50%", "below (fake driver)", "T (fake driver)", "Empty (fake driver): none"} {
		if !strings.Contains(text, want) {
			t.Errorf("Markdown lacks %q:\n%s", want, text)
		}
	}
	var out strings.Builder
	check.NoError(t, r.PrintJSON(&out))
	var back Report
	check.NoError(t, json.Unmarshal([]byte(out.String()), &back))
	check.That(t, back.Fake)
	check.Equal(t, back.Steps[0].Tables[0].Rows[0][0], "1|2")
}

func TestRealReportHasNoWordOfFake(t *testing.T) {
	r := &Report{Card: "NVIDIA H200", Steps: []Result{{Title: "A", Verdict: Well}}}
	check.Lacks(t, strings.ToLower(r.Markdown()), "fake")
}

func TestVerdicts(t *testing.T) {
	well, below, failed := Finding{Verdict: Well}, Finding{Verdict: Below}, Finding{Verdict: Failed}
	for _, c := range []struct {
		name     string
		findings []Finding
		err      error
		want     Verdict
	}{
		{"all met", []Finding{well, well}, nil, Well},
		{"one missed", []Finding{well, below}, nil, Below},
		{"one wrong", []Finding{failed, below, well}, nil, Failed},
		{"an error", []Finding{well}, errors.New("broken"), Failed},
		{"an error and a miss", []Finding{below}, errors.New("broken"), Failed},
		{"skipped", nil, errSkip{"no PyTorch"}, Skipped},
		{"skipped after a miss", []Finding{below}, errSkip{"no more"}, Below},
		{"nothing seen", nil, nil, Failed},
	} {
		r := Result{Findings: c.findings}
		r.conclude(c.err)
		check.Equal(t, r.Verdict, c.want, "%s", c.name)
	}
}

func TestVerdictOfAll(t *testing.T) {
	for _, c := range []struct {
		steps []Verdict
		want  Verdict
		exit  int
	}{
		{[]Verdict{Well, Well}, Well, 0},
		{[]Verdict{Well, Skipped}, Well, 0},
		{[]Verdict{Skipped, Well}, Well, 0},
		{[]Verdict{Well, Below, Well}, Below, 1},
		{[]Verdict{Below, Failed}, Failed, 1},
		{[]Verdict{Skipped, Below}, Below, 1},
		{[]Verdict{Skipped, Skipped}, Skipped, 2},
		{nil, Skipped, 2},
	} {
		var r Report
		for _, v := range c.steps {
			r.Steps = append(r.Steps, Result{Verdict: v})
		}
		r.judge()
		check.Equal(t, r.Verdict, c.want, "%v", c.steps)
		check.Equal(t, r.ExitCode(), c.exit, "%v", c.steps)
	}
}

func TestStatistics(t *testing.T) {
	check.Equal(t, median([]float64{3, 1, 2}), 2, "median of three")
	check.Equal(t, median([]float64{4, 1, 2, 3}), 2.5, "median of four")
	check.Equal(t, median(nil), 0, "median of none")
	xs := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.9: 5, 1: 5} {
		check.Equal(t, quantile(q, xs), want, "quantile %g", q)
	}
	check.Equal(t, share(4, 2), 2, "a share")
	check.Equal(t, share(1, 0), 0, "a share of nothing")
	check.Equal(t, values["ratio"]([]float64{1, 4, 9}, []float64{2, 2, 3}), 2, "median of ratios")
	check.Equal(t, values["gain"]([]float64{1, 2}, []float64{5, 3}), 1, "least gain")
	check.Equal(t, values["longer"]([]float64{3, 3, 9}, []float64{2, 1, 2}), 0.5, "longer by the medians")
	for _, kind := range []string{"low", "high"} {
		check.Equal(t, values[kind]([]float64{3, 3, 3}, []float64{2, 2}), 0.5, "%s end of the interval of equal times", kind)
	}
	low, high := values["low"]([]float64{3, 4, 5, 6}, []float64{4}), values["high"]([]float64{3, 4, 5, 6}, []float64{4})
	check.That(t, -0.25 <= low && low < 0.125 && 0.125 < high && high <= 0.5, "interval %g to %g", low, high)
}
