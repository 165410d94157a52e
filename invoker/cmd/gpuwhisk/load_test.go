package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/load"
)

func TestLoadNamesTheWrongFlag(t *testing.T) {
	for line, want := range map[string]string{
		"load":                         "at least one action",
		"load a --rate 0":              "--rate 0: want more than 0",
		"load a --rate -1":             "--rate -1: want more than 0",
		"load a --zipf 11":             "--zipf 11: want 0",
		"load a --count 0":             "--count 0: want 1 to",
		"load a -n 2000000":            "--count 2000000: want 1 to",
		"load a --duration 0s":         "--duration 0s: want more than 0",
		"load a --in-flight 0":         "--in-flight 0: want 1 to",
		"load a --wait 0s":             "--wait 0s: want more than 0",
		"load a --speed 0":             "--speed 0: want more than 0",
		"load --trace /absent":         "/absent",
		"load a --trace-format oracle": "--trace-format",
	} {
		wantOutcome(t, line, 2, want)
	}
	wantOutcome(t, "load --help", 0, "REAL system")
}

// TestLoadTakesATrace: the functions of a trace are names of actions, or stand for the
// actions in the arguments.
func TestLoadTakesATrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.csv")
	check.NoError(t, os.WriteFile(file, []byte("arrival_ms,function\n0,x\n100,y\n200,z\n300,x\n"), 0o600))
	for given, want := range map[string]string{
		"": "x@0s y@50ms z@100ms", "a": "a@0s a@50ms a@100ms", "a,b": "a@0s b@50ms a@100ms",
	} {
		c := loadCmd{Trace: file, TraceFormat: "plain", Speed: 2, Count: 3}
		if given != "" {
			c.Actions = strings.Split(given, ",")
		}
		actions, arrivals, _, err := c.arrivals()
		check.NoError(t, err)
		var got []string
		for a := range arrivals {
			got = append(got, actions[a.Action]+"@"+a.At.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", given, got, want)
		}
	}
	records := `{"namespace":"ns","name":"a","start":1000,"end":1001,"duration":1}`
	check.NoError(t, os.WriteFile(file, []byte(records), 0o600))
	c := loadCmd{Trace: file, TraceFormat: "activations", Speed: 1, Count: 3}
	actions, _, _, err := c.arrivals()
	check.NoError(t, err)
	check.EqualSlices(t, actions, []string{"/ns/a"})
	c.TraceFormat = "plain"
	_, _, _, err = c.arrivals()
	check.ErrorContains(t, err, "t.csv:1: bare", "a file that is not a trace")
}

// instant answers at once and has every record.
type instant struct{}

func (instant) Invoke(context.Context, string) load.Answer { return load.Answer{ID: "x", Ran: true} }

func (instant) Start(context.Context, string) string { return "warm" }

// TestLoadReports: an interrupted load prints the results so far and its end. Without a
// terminal, it also prints a progress line every ten seconds.
func TestLoadReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := loadCmd{Actions: []string{"a"}, Rate: 2, Count: 1000, JSON: true}
		o := load.Options{Actions: c.Actions, Arrivals: c.mix().Arrivals(), Duration: time.Minute, InFlight: 5, Wait: time.Minute}
		var out, aside bytes.Buffer
		check.NoError(t, c.load(t.Context(), instant{}, o, load.Report{APIHost: "h", Load: "w"}, &out, &aside))
		var r load.Report
		check.NoError(t, json.Unmarshal(out.Bytes(), &r), "%s", &out)
		check.Equal(t, r.APIHost, "h")
		check.Greater(t, r.Ran, 0)
		check.Equal(t, r.Ran, r.Sent)
		check.Equal(check.Must(t), len(r.Starts), 1)
		check.Equal(t, r.Starts[0].Name, "warm")
		lines := strings.Count(aside.String(), "under way") // one minute
		check.AtLeast(t, lines, 4, "%s", &aside)
		check.AtMost(t, lines, 6, "%s", &aside)
		check.Lacks(t, aside.String(), "\x1b")

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		out.Reset()
		aside.Reset()
		c.JSON, c.Quiet = false, true
		err := c.load(ctx, instant{}, o, load.Report{APIHost: "h", Load: "w"}, &out, &aside)
		check.ErrorIs(t, err, errLoadInterrupted)
		check.Contains(t, out.String(), "interrupted: these are the results")
		check.Contains(t, out.String(), "START")
		check.Equal(t, aside.String(), "", "with --quiet")
		o.Arrivals = func(func(load.Arrival) bool) {}
		err = c.load(t.Context(), instant{}, o, load.Report{}, &out, &aside)
		check.That(t, err != nil, "a load without a call")
		check.That(t, !errors.Is(err, errLoadInterrupted), "a load without a call: %v", err)
	})
}
