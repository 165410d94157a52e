package demo

import (
	"bytes"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/load"
)

func compared() ([]Function, []round) {
	functions := []Function{{Name: "cpu"}, {Name: "one", GPU: true, Warm: 10 * time.Millisecond}, {Name: "two", GPU: true, Warm: 100 * time.Millisecond}}
	answered := func(function int, ms time.Duration, start, failure string) load.Call {
		return load.Call{Action: function, Latency: ms * time.Millisecond, Answer: load.Answer{Start: start, Failure: failure, Ran: true}}
	}
	return functions, []round{
		{"fcfs", []load.Call{
			answered(0, 1000, "", ""), answered(1, 400, "cold", ""), answered(1, 800, "host-warm", "x"), answered(2, 600, "busy-cold", ""),
		}, nil, moved{out: 4e6, in: 3e6}},
		{"fair", []load.Call{
			answered(0, 1000, "", ""), answered(1, 100, "cold", ""), answered(1, 200, "gpu-warm", "x"), answered(2, 300, "gpu-warm", ""),
		}, nil, moved{out: 2e6, in: 1e6}},
	}
}

func TestSummaryCountsFromCalls(t *testing.T) {
	functions, rounds := compared()
	c := summarise(functions, rounds[0])
	cpu, one, gpus := c.figures[0], c.figures[1], c.gpus()
	check.Equal(t, cpu.All.Calls, 1)
	check.Equal(t, cpu.All.Mean, 1000)
	check.Equal(t, cpu.started("cold")+cpu.started("host-warm")+cpu.started("gpu-warm"), 0)
	check.Equal(t, cpu.slowdown, 0)
	check.Equal(t, one.All.Calls, 2)
	check.Equal(t, one.Failed, 1)
	check.Equal(t, one.All.Mean, 600)
	check.Equal(t, one.slowdown, 60)
	check.Equal(t, one.started("cold"), 1)
	check.Equal(t, one.started("host-warm"), 1)
	check.Equal(t, gpus.All.Calls, 3)
	check.Equal(t, gpus.All.Mean, 600)
	check.Equal(t, gpus.started("cold"), 2)
	check.Equal(t, gpus.slowdown, 60)
	check.AtMost(t, math.Abs(fairness(c.figures[:3])-66.0*66/(2*(3600+36))), 1e-9)
}

func TestChange(t *testing.T) {
	for _, c := range []struct {
		from, to float64
		want     string
	}{{0, 0, "the same"}, {5, 0, "down to nothing"}, {0, 5, "up from nothing"}, {100, 104, "about the same"}, {104, 100, "about the same"},
		{10, 5, "2.0 times fewer"}, {5, 10, "2.0 times more"}} {
		check.Equal(t, change(c.from, c.to, "fewer", "more"), c.want, "from %g to %g", c.from, c.to)
	}
}

func TestJainsIndex(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{7}, 1}, {[]float64{3, 3, 3}, 1}, {[]float64{0, 4}, 1}, {[]float64{1, 3}, 0.8}} {
		var functions []figures
		for _, slowdown := range c.of {
			functions = append(functions, figures{slowdown: slowdown})
		}
		check.Equal(t, fairness(functions), c.want, "%v", c.of)
	}
}

func TestTablesAreSideBySide(t *testing.T) {
	functions, rounds := compared()
	var out bytes.Buffer
	p := printer{w: &out}
	p.latencies(functions, columns(functions, rounds))
	p.starts(functions, columns(functions, rounds))
	for _, want := range []string{
		`(?m)^one +2 +600 +800 █{9} +150 +200 █{2}$`,
		`(?m)^one +0 +1 +1 +60x +1 +0 +1 +15x$`,
		`(?m)^GPU, all +0 +1 +2 +60x +2 +0 +1 +15x$`,
		`(?m)^moved out/in +4 / 3 MB +2 / 1 MB$`,
		`(?m)^errors +1 +1$`,
	} {
		check.That(t, regexp.MustCompile(want).MatchString(out.String()), "no %s in\n%s", want, &out)
	}
}

// TestClosingSentence: the sentence has the measured numbers, also if the last policy is
// worse.
func TestClosingSentence(t *testing.T) {
	functions, rounds := compared()
	for _, c := range []struct {
		rounds []round
		want   []string
	}{
		{rounds, []string{"3 GPU calls", "fair instead of fcfs", "latency is 3.0 times lower (200 ms, was 600 ms)",
			"is 4.0 times lower (15x, was 60x)", "are 3.0 times fewer (1, were 3)"}},
		{[]round{rounds[1], rounds[0]}, []string{"fcfs instead of fair", "3.0 times higher (600 ms, was 200 ms)", "4.0 times higher", "3.0 times more"}},
		{[]round{rounds[0], rounds[0]}, []string{"latency is the same", "are the same"}},
	} {
		all := columns(functions, c.rounds)
		got := strings.Join(strings.Fields(closing(all[0], all[1])), " ")
		for _, want := range c.want {
			check.Contains(t, got, want)
		}
	}
}

// The closing sentence fits a terminal, however large its numbers are.
func TestClosingSentenceFitsATerminal(t *testing.T) {
	functions, rounds := compared()
	all := columns(functions, rounds)
	for i, n := range []float64{1234567, 12345678} {
		worst := &all[i].figures[3]
		worst.All.Mean, worst.slowdown = n, n
	}
	for line := range strings.Lines(closing(all[0], all[1])) {
		check.AtMost(t, len(line), 80, "%s", line)
	}
}
