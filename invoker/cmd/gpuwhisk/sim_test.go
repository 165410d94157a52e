package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// parseSim parses a command line of gpuwhisk sim.
func parseSim(t *testing.T, args ...string) (*simCmd, error) {
	t.Helper()
	var c struct {
		Sim simCmd `cmd:""`
	}
	k, err := kong.New(&c, kong.Exit(func(int) { t.Fatal("exit") }))
	check.NoError(t, err)
	_, err = k.Parse(append([]string{"sim"}, args...))
	return &c.Sim, err
}

// TestPublishedDefaultsAreTrue sets every server and policy flag to the default that its
// help states. The result must not change.
func TestPublishedDefaultsAreTrue(t *testing.T) {
	args := []string{"run"}
	flags := reflect.TypeFor[sim.Options]()
	for i := range flags.NumField() {
		f := flags.Field(i)
		value := f.Tag.Get("placeholder")
		if value == "" || value == "off" || strings.Contains(value, "/") {
			continue // words in place of a value
		}
		name := f.Tag.Get("name")
		if name == "" {
			name = dashed(f.Name)
		}
		args = append(args, "--"+name+"="+value)
	}
	c, err := parseSim(t, args...)
	check.NoError(t, err)
	got, err := c.Run.Options.Apply("mqfq-sticky")
	check.NoError(t, err)
	want, err := sim.DefaultParams("mqfq-sticky")
	check.NoError(t, err)
	got.NewPolicy, want.NewPolicy = nil, nil // functions cannot be compared, and no flag sets this one
	check.DeepEqual(t, got, want, "with %v", args)
	check.Equal(t, c.Run.Spec, sim.DefaultSpec())
}

// dashed converts a field's name to a flag's name, as kong does.
func dashed(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

func TestSimRunPrintsWhatItMeasured(t *testing.T) {
	dir := t.TempDir()
	trace, table := filepath.Join(dir, "t.csv"), filepath.Join(dir, "f.csv")
	write(t, trace, "arrival_ms,function\n0,a\n10,b\n9000,a\n")
	write(t, table, "function,warm_ms,cold_ms,memory_mb\na,100,300,512\nb,200,400,512\n")
	out := captured(t, func() error {
		c, err := parseSim(t, "run", "--trace", trace, "--functions", table, "--policy", "fcfs", "--pool", "4", "--tokens", "1", "--json")
		if err != nil {
			return err
		}
		return c.Run.Run()
	})
	var r sim.Result
	check.NoError(t, json.Unmarshal(out, &r), "%s", out)
	check.Equal(t, r.Starts, sim.Starts{Cold: 2, GPUWarm: 1})
	check.Equal(t, r.Policy, "fcfs")
	check.Equal(t, r.Completed, 3)
	check.Equal(t, len(r.Functions), 2)
	check.Greater(t, r.DecisionNano, 0)
	// a: 1.5 s start and 300 ms run, then 0.1 ms until its memory is reported; b, after a: 1.5 s
	// start and 400 ms run; the last a is warm.
	check.AtMost(t, math.Abs(r.Latency.P99-(1800+0.1+1900-10)), 0.01, "p99 is %v", r.Latency.P99)
}

func TestSimTextNamesTheLowerBound(t *testing.T) {
	out := captured(t, func() error {
		c, err := parseSim(t, "run", "--duration", "2m", "--load", "0.3")
		if err != nil {
			return err
		}
		return c.Run.Run()
	})
	for _, want := range []string{"no scheduler can beat a mean of", "gpu-warm", "imagenet-0"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func TestSimCompareAndSweep(t *testing.T) {
	for _, args := range [][]string{
		{"compare", "--seeds", "2", "--duration", "2m", "--json"},
		{"sweep", "--over", "pool", "--values", "4,8", "--seeds", "2", "--duration", "2m", "--json"},
	} {
		out := captured(t, func() error {
			c, err := parseSim(t, args...)
			if err != nil {
				return err
			}
			if args[0] == "compare" {
				return c.Compare.Run()
			}
			return c.Sweep.Run()
		})
		var figures []sim.Summary
		check.NoError(t, json.Unmarshal(out, &figures), "%v: %s", args, out)
		check.AtLeast(check.Must(t), len(figures), 2, "%v", args)
		check.Equal(t, figures[0].Mean.N, 2, "%v", args)
	}
}

func TestSimErrorsNameFileAndLineOrFlag(t *testing.T) {
	dir := t.TempDir()
	bad, table := filepath.Join(dir, "bad.csv"), filepath.Join(dir, "f.csv")
	write(t, bad, "arrival_ms,function\n0,a\nNaN,a\n")
	write(t, table, "function,warm_ms,cold_ms,memory_mb\na,100,300,512\n")
	for want, args := range map[string][]string{
		"bad.csv:3":                   {"run", "--trace", bad, "--functions", table},
		"--trace: stat":               {"run", "--trace", filepath.Join(dir, "absent.csv")},
		"--functions":                 {"run", "--trace", bad},
		"--load":                      {"run", "--load", "NaN"},
		"--overrun":                   {"run", "--overrun", "25h"},
		"--tokens":                    {"run", "--tokens", "0"},
		"--ttl-alpha":                 {"run", "--ttl-alpha", "NaN"},
		"--ttl-max":                   {"run", "--ttl-min", "20m"},
		"--series":                    {"run", "--series"},
		"--load: applies":             {"run", "--trace", bad, "--functions", table, "--load", "0.5"},
		"--duration":                  {"run", "--trace", bad, "--functions", table, "--duration", "1m"},
		"--cold-extra: needs --trace": {"run", "--cold-extra", "1s"},
	} {
		c, err := parseSim(t, args...)
		if err == nil {
			err = c.Run.Run()
		}
		check.ErrorContains(t, err, want, "%v", args)
	}
	if _, err := parseSim(t, "run", "--workload", "tide"); err == nil {
		t.Error("an unknown workload was accepted")
	}
}

func TestSimClaimsWritesIntoADocument(t *testing.T) {
	file := filepath.Join(t.TempDir(), "doc.md")
	write(t, file, "top\n<!-- claims: written by gpuwhisk sim claims --into -->\n<!-- end of claims -->\nend\n")
	table := filepath.Join(t.TempDir(), "claims.csv")
	c, err := parseSim(t, "claims", "--only", "copies", "--seeds", "6", "--into", file, "--csv", table)
	check.NoError(t, err)
	check.NoError(t, c.Claims.Run())
	text, err := os.ReadFile(file)
	check.NoError(t, err)
	check.Contains(t, string(text), "| 2 reproduced |")
	check.That(t, strings.HasSuffix(string(text), "end\n"), "%s", text)
	figures, err := os.ReadFile(table)
	check.NoError(t, err)
	check.Contains(t, string(figures), ",copies-mqfq,")
}

func write(t *testing.T, file, text string) {
	t.Helper()
	check.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// captured returns the standard output of f.
func captured(t *testing.T, f func() error) []byte {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	check.NoError(t, err)
	defer file.Close()
	stdout := os.Stdout
	os.Stdout = file
	defer func() { os.Stdout = stdout }()
	check.NoError(t, f())
	out, err := os.ReadFile(file.Name())
	check.NoError(t, err)
	return out
}
