package sim

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// TestFiguresAreDrawnTheSameTwice runs and draws some of them.
func TestFiguresAreDrawnTheSameTwice(t *testing.T) {
	t.Parallel()
	names := []string{"fairness-mqfq-sticky", "gap", "functions", "utilization", "gpus"}
	if raced {
		names = names[:2]
	}
	var folders [2]string
	for i := range folders {
		folders[i] = t.TempDir()
		if _, err := Figures(context.Background(), folders[i], names, 1, 0, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range names {
		a, err := os.ReadFile(filepath.Join(folders[0], n+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(folders[1], n+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		if err := wellFormed(a); err != nil {
			t.Errorf("%s is no SVG: %v", n, err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s was drawn differently the second time", n)
		}
	}
}

// TestPoliciesHaveColoursOfTheirOwn: one each in all figures, and no curve that
// stands for none has it.
func TestPoliciesHaveColoursOfTheirOwn(t *testing.T) {
	taken := map[string]string{boundTint: "a bound"}
	for _, c := range others {
		taken[c] = "no policy"
	}
	for _, name := range sched.PolicyNames() {
		c, ok := tints[name]
		if !ok {
			t.Errorf("%s has no colour", name)
		}
		if of := taken[c]; of != "" {
			t.Errorf("%s has the colour of %s", name, of)
		}
		taken[c] = name
		for _, curve := range []string{name, name + ", T=10"} {
			if tint(curve, 3) != c {
				t.Errorf("curve %q does not have the colour of %s", curve, name)
			}
		}
	}
	if len(tints) != len(sched.PolicyNames()) {
		t.Errorf("%d colours for %d policies", len(tints), len(sched.PolicyNames()))
	}
}

func TestCostIsMeasured(t *testing.T) {
	tick := time.Duration(0)
	if us := decisionCost(mqfq, 10, func() time.Duration { tick += time.Second; return tick }); us != 500 {
		t.Errorf("%v us: want a second over 2,000 activations", us)
	}
}

// TestEveryFigureCanBeDrawn draws each from made-up results.
func TestEveryFigureCanBeDrawn(t *testing.T) {
	tick := time.Duration(0)
	all := figures(func() time.Duration { tick += time.Second; return tick })
	if len(all) < 14 {
		t.Errorf("%d figures", len(all))
	}
	made := &Result{
		Latency: Latency{Count: 1, Mean: 3000}, LowerBound: 500, GapBacklogged: Gap{Mean: 1, Max: 1}, GapBound: 2, ColdShare: 0.1,
		Functions: make([]FunctionResult, 4), Series: [][]float64{{1, 2, 3, 4}, {1, 2, 3, 4}}, Busy: []float64{0.5, 0.5},
	}
	for i := range made.Functions {
		made.Functions[i].Latency = Latency{Count: 1, Mean: 1000, Std: 1}
	}
	for _, f := range all {
		if f.name == "cost" {
			continue // it measures
		}
		results := make(map[string][]*Result)
		for _, c := range f.curves {
			for _, run := range c.runs {
				if _, err := parse(run); err != nil {
					t.Errorf("%s: %v", f.name, err)
				}
				results[run] = []*Result{made}
			}
		}
		file := filepath.Join(t.TempDir(), f.name)
		if err := draw(f, results, file); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := wellFormed(text); err != nil {
			t.Errorf("%s: %v in\n%s", f.name, err, text)
		}
		check.Lacks(t, string(text), "NaN", "%s", f.name)
		check.Lacks(t, string(text), "Inf", "%s", f.name)
	}
}

// TestDotsLieBesideEachOther: curves may share their values of x, and none hides another.
func TestDotsLieBesideEachOther(t *testing.T) {
	x := []float64{1, 2}
	dotted := func(name string) curve {
		return curve{name, dots, nil, func([][]*Result) ([]float64, []Spread) { return x, make([]Spread, len(x)) }}
	}
	file := filepath.Join(t.TempDir(), "dots.svg")
	if err := draw(figure{curves: []curve{dotted("a"), dotted("b"), dotted("c")}, ticks: x}, nil, file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`<circle cx="([0-9.]+)"`).FindAllStringSubmatch(string(text), -1) {
		seen[m[1]] = true
	}
	if len(seen) != 3*len(x)+1 { // the legend's are one below the other
		t.Errorf("dots at %v", seen)
	}
	if x[0] != 1 {
		t.Errorf("the curves' own values became %v", x)
	}
}

// wellFormed reads a picture to its end as XML.
func wellFormed(text []byte) error {
	d := xml.NewDecoder(bytes.NewReader(text))
	for n := 0; ; n++ {
		switch _, err := d.Token(); {
		case errors.Is(err, io.EOF) && n > 20:
			return nil
		case err != nil:
			return err
		}
	}
}

func TestTicksAreRound(t *testing.T) {
	for want, a := range map[string]axis{
		"[0 2 4 6 8 10]":                    {low: 0, high: 10},
		"[0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9]": {low: 0.2, high: 0.95},
		"[0 0.1 0.2 0.3 0.4 0.5]":           {low: 0, high: 0.55},
		"[1 2 5 10 20 50 100]":              {low: 1, high: 100, log: true},
		"[0.1 1 10 100 1000]":               {low: 0.05, high: 2000, log: true},
	} {
		got := a.ticks()
		for i, v := range got {
			got[i] = math.Round(v*1e6) / 1e6
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%v to %v: %v, want %s", a.low, a.high, got, want)
		}
	}
}
