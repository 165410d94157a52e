package demo

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// recorded is the record of a run of a GPU function, or without a start of a
// CPU action.
func recorded(t *testing.T, start string) *activation.Record {
	t.Helper()
	annotations := ""
	if start != "" {
		annotations = fmt.Sprintf(`{"key":"gpu","value":{"start":"%s","queueTime":10,"gpuTime":60}}`, start)
	}
	r, err := activation.DecodeRecord(fmt.Appendf(nil, `{"namespace":"guest","name":"f","subject":"guest","activationId":"%s","start":1,"end":2,`+
		`"response":{"statusCode":0},"logs":[],"version":"0.0.1","publish":false,"annotations":[%s]}`, strings.Repeat("a", 32), annotations))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func compared(t *testing.T) ([]Function, []round) {
	t.Helper()
	functions := []Function{{Name: "cpu"}, {Name: "one", GPU: true, Warm: 10 * time.Millisecond}, {Name: "two", GPU: true, Warm: 100 * time.Millisecond}}
	calls := func(times ...time.Duration) []call {
		return []call{
			{function: 0, id: "a", latency: time.Second},
			{function: 1, id: "b", latency: times[0] * time.Millisecond},
			{function: 1, id: "c", latency: times[1] * time.Millisecond, err: errors.New("x")},
			{function: 2, id: "d", latency: times[2] * time.Millisecond},
		}
	}
	records := func(starts ...string) map[string]*activation.Record {
		return map[string]*activation.Record{
			"a": recorded(t, ""), "b": recorded(t, starts[0]), "c": recorded(t, starts[1]), "d": recorded(t, starts[2]),
		}
	}
	return functions, []round{
		{"fcfs", calls(400, 800, 600), records("cold", "host-warm", "busy-cold"), traffic{out: 4e6, in: 3e6}},
		{"fair", calls(100, 200, 300), records("cold", "gpu-warm", "gpu-warm"), traffic{out: 2e6, in: 1e6}},
	}
}

func TestSummaryCountsFromCallsAndRecords(t *testing.T) {
	functions, rounds := compared(t)
	lines, gpus := summarise(functions, rounds[0])
	if l := lines[0]; l.runs != 1 || l.mean != time.Second || len(l.starts) != 0 || l.slowdown != 0 {
		t.Errorf("CPU action: %+v", l)
	}
	if l := lines[1]; l.runs != 2 || l.errors != 1 || l.mean != 600*time.Millisecond || l.p95 != 800*time.Millisecond ||
		l.starts["cold"] != 1 || l.starts["host-warm"] != 1 || l.slowdown != 60 {
		t.Errorf("GPU function: %+v", l)
	}
	if gpus.runs != 3 || gpus.mean != 600*time.Millisecond || gpus.starts["cold"] != 2 || gpus.slowdown != 60 {
		t.Errorf("all GPU functions: %+v", gpus)
	}
	if got, want := fairness(lines), 66.0*66/(2*(3600+36)); math.Abs(got-want) > 1e-9 {
		t.Errorf("fairness %g, want %g", got, want)
	}
}

func TestChange(t *testing.T) {
	for _, c := range []struct {
		from, to float64
		want     string
	}{{0, 0, "the same"}, {5, 0, "down to nothing"}, {0, 5, "up from nothing"}, {100, 104, "about the same"}, {104, 100, "about the same"},
		{10, 5, "2.0 times fewer"}, {5, 10, "2.0 times more"}} {
		if got := change(c.from, c.to, "fewer", "more"); got != c.want {
			t.Errorf("from %g to %g: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

func TestJainsIndex(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{7}, 1}, {[]float64{3, 3, 3}, 1}, {[]float64{5, 0, 0, 0}, 0.25}} {
		if got := jain(c.of); got != c.want {
			t.Errorf("%v: %g, want %g", c.of, got, c.want)
		}
	}
}

func TestTablesAreSideBySide(t *testing.T) {
	functions, rounds := compared(t)
	var out bytes.Buffer
	p := printer{w: &out}
	p.latencies(functions, sides(functions, rounds))
	p.starts(functions, sides(functions, rounds))
	for _, want := range []string{
		`(?m)^one +2 +600 +800 █{9} +150 +200 █{2}$`,
		`(?m)^one +0 +1 +1 +60x +1 +0 +1 +15x$`,
		`(?m)^GPU, all +0 +1 +2 +60x +2 +0 +1 +15x$`,
		`(?m)^moved out/in +4 / 3 MB +2 / 1 MB$`,
		`(?m)^errors +1 +1$`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %s in\n%s", want, &out)
		}
	}
}

// The closing sentence says what was measured, whichever way it went.
func TestClosingSentence(t *testing.T) {
	functions, rounds := compared(t)
	for _, c := range []struct {
		rounds []round
		want   []string
	}{
		{rounds[:1], nil},
		{rounds, []string{"3 GPU calls", "fair instead of fcfs", "latency is 3.0 times lower (200 ms, was 600 ms)",
			"is 4.0 times lower (15x, was 60x)", "are 3.0 times fewer (1, were 3)"}},
		{[]round{rounds[1], rounds[0]}, []string{"fcfs instead of fair", "3.0 times higher (600 ms, was 200 ms)", "4.0 times higher", "3.0 times more"}},
		{[]round{rounds[0], rounds[0]}, []string{"latency is the same", "are the same"}},
	} {
		got := strings.Join(strings.Fields(closing(sides(functions, c.rounds))), " ")
		if (got == "") != (c.want == nil) {
			t.Errorf("got %q, want %q", got, c.want)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
	}
}
