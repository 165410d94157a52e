package demo

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/load"
)

// played runs a short demo on a machine and returns its output.
func played(t *testing.T, m Machine, memory activation.Size, policies, pick []string, extra ...string) string {
	t.Helper()
	functions := Catalogue(m)
	// Starting the interpreters takes longest, so only the picked functions are used.
	functions = slices.DeleteFunc(functions, func(f Function) bool { return !slices.Contains(pick, f.Name) })
	temp, err := os.MkdirTemp("", "demo") // for sockets: t.TempDir has the test's name in it
	check.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	t.Setenv("TMPDIR", temp)
	var out bytes.Buffer
	r := &harness.Local{}
	err = Run(t.Context(), Options{
		Standalone: standalone.Options{
			Runtime: "process", GPUs: 1, GPUMemory: memory, Extra: append(m.Settings(), extra...), Invoker: r.Start, Admin: r.Addr, Version: "test",
		},
		Machine: m, Functions: functions, Policies: policies,
		Load: time.Second, Seed: 7, Out: &out,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	check.Lacks(t, out.String(), "\x1b", "a pipe")
	leftBehind(t, temp)
	for line := range strings.Lines(out.String()) {
		check.AtMost(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, "%s", line)
	}
	return out.String()
}

// leftBehind fails if there is something left in a directory.
func leftBehind(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	check.NoError(t, err)
	check.Equal(t, len(left), 0, "%v", left)
}

// pauser ends the demo when a text has been printed.
type pauser struct {
	text string
	end  context.CancelFunc
	out  bytes.Buffer
}

func (p *pauser) Write(b []byte) (int, error) {
	if strings.Contains(string(b), p.text) {
		p.end()
	}
	return p.out.Write(b)
}

// endedAt runs a demo of one function until it has printed a text.
func endedAt(t *testing.T, text string, o Options) (out string, err error) {
	t.Helper()
	functions := Catalogue(Here())
	if len(functions) == 0 {
		peertest.Missing(t, "neither python3 nor node")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	r, p := &harness.Local{}, &pauser{text: text, end: end}
	o.Standalone = standalone.Options{Runtime: "process", GPUs: 1, GPUMemory: activation.GB, Invoker: r.Start, Admin: r.Addr, Version: "test"}
	o.Functions, o.Seed, o.Out = functions[:1], 7, p
	err = Run(ctx, o)
	check.That(t, ctx.Err() != nil, "ended before %q: %v\n%s", text, err, &p.out)
	leftBehind(t, temp)
	return p.out.String(), err
}

// TestKept: with Keep the console can be seen after the report, and the demo then
// ends without an error.
func TestKept(t *testing.T) {
	out, err := endedAt(t, "Kept. The console is at http://127.0.0.1:", Options{Policies: []string{"fcfs"}, Keep: true, Load: time.Second})
	check.NoError(t, err, "%s", out)
	check.Lacks(t, out, "instead of", "one policy is compared with another")
}

// A demo that is ended half way returns ErrInterrupted alone and leaves nothing
// behind.
func TestInterrupted(t *testing.T) {
	_, err := endedAt(t, "ready in", Options{Policies: []string{"fcfs", "mqfq"}, Load: time.Hour})
	check.ErrorIs(check.Must(t), err, ErrInterrupted)
	check.Equal(t, err.Error(), ErrInterrupted.Error())
}

func TestTheWholeDemoInShort(t *testing.T) {
	m := Here()
	if !m.Python && !m.Node {
		peertest.Missing(t, "neither python3 nor node is on the PATH")
	}
	out := played(t, m, m.DeviceMemory(), []string{"fcfs", config.Default().GPU.Policy}, []string{"hello", "roberta", "isoneural"})
	for _, want := range []string{"simulated", "isoneural", `"gpuTime"`, "with sticky-plus instead of fcfs"} {
		check.Contains(t, strings.Join(strings.Fields(out), " "), want)
	}
	check.Equal(t, strings.Count(out, ": each once"), 2, "%s", out)
	check.Lacks(t, out, "moved out", "memory that is not there")
}

// Two functions whose memory does not fit the device together swap when they
// are served alternately. In arrival order they are; a fair scheduler may serve
// all calls of one and then all of the other, where a slow machine lets them
// queue up.
func TestTheWholeDemoUnderTheShim(t *testing.T) {
	m := Here()
	library, driver := shim(t, m)
	program, err := os.ReadFile(filepath.Join(filepath.Dir(library), "gpufunc"))
	check.NoError(t, err)
	m.Driver, m.Program = true, base64.StdEncoding.EncodeToString(program)
	out := played(t, m, 34*activation.MB, []string{"fcfs"}, []string{"roberta", "isoneural", "ffmpeg"},
		"CONFIG_whisk_gpu_shim_library="+library, "CONFIG_whisk_gpu_fakeDriver="+driver, "CONFIG_whisk_gpu_tokens=1")
	check.Contains(t, out, ": each once")
	check.Contains(t, out, "real shim moves memory on a fake driver")
	check.That(t, regexp.MustCompile(`(?m)^errors +0$`).MatchString(out), "%s", out)
	check.That(t, regexp.MustCompile(`(?m)^moved out/in +\d+ / [1-9]\d* MB$`).MatchString(out), "nothing came back from the host:\n%s", out)
}

// shim gives the shim's library and the fake driver's directory.
func shim(t *testing.T, m Machine) (library, driver string) {
	t.Helper()
	dir := shimtest.Dir(t)
	if !m.Python {
		peertest.Missing(t, "python3 is not on the PATH")
	}
	return filepath.Join(dir, "libgpuwhisk.so"), filepath.Join(dir, "fake12")
}

func TestWithoutInterpreters(t *testing.T) {
	check.ErrorContains(t, Run(t.Context(), Options{}), "python3", "what to install")
}

func TestCatalogueFollowsTheMachine(t *testing.T) {
	for _, c := range []struct {
		python, node bool
		kinds        string
	}{
		{true, true, "nodejs:20 python:3 python:3-gpu"},
		{true, false, "python:3 python:3-gpu"},
		{false, true, "nodejs:20"},
		{false, false, ""},
	} {
		var kinds []string
		gpus := 0
		for _, f := range Catalogue(Machine{Python: c.python, Node: c.node}) {
			kinds = append(kinds, f.Kind)
			if f.GPU != nil {
				gpus++
			}
		}
		slices.Sort(kinds)
		check.Equal(t, strings.Join(slices.Compact(kinds), " "), c.kinds, "python %t, node %t", c.python, c.node)
		if c.kinds != "" {
			check.Equal(t, gpus, 6, "python %t, node %t", c.python, c.node)
		}
	}
}

func TestFunctionsSleepTheScaledTimes(t *testing.T) {
	f := measured{"imagenet", 2253, 11286, 4096, 3}.on(Machine{Python: true})
	check.That(t, strings.HasPrefix(f.Code, `WARM, LOAD, NAME = 0.11265, 0.45165, "imagenet"`), "%s", f.Code)
}

func TestArrivalsAreDrawnFromTheSeed(t *testing.T) {
	functions := []Function{{Rate: 50}, {Rate: 5}}
	a := arrivals(functions, 20*time.Second, 1)
	check.EqualSlices(t, arrivals(functions, 20*time.Second, 1), a)
	check.That(t, !slices.Equal(a, arrivals(functions, 20*time.Second, 2)), "another seed drew the same arrivals")
	check.That(t, slices.IsSortedFunc(a, func(x, y load.Arrival) int { return int(x.At - y.At) }))
	check.AtLeast(t, len(a), 900, "in 20 s at 55/s")
	check.AtMost(t, len(a), 1300, "in 20 s at 55/s")
}

func TestCallsAcksAndRecordsAreCompared(t *testing.T) {
	calls := []load.Call{{Answer: load.Answer{ID: "a"}}, {Answer: load.Answer{ID: "b"}}}
	for _, c := range []struct {
		name          string
		calls         []load.Call
		acks, records string
		want          string
	}{
		{"all agree", calls, "ab", "ab", ""},
		{"an ack is missing", calls, "a", "ab", "activation b: 1 calls, 0 acks, 1 records"},
		{"an ack is doubled", calls, "abb", "ab", "activation b: 1 calls, 2 acks, 1 records"},
		{"an ack of no call", calls, "abc", "ab", "activation c: 0 calls, 1 acks, 0 records"},
		{"a record is missing", calls, "ab", "a", "activation b: 1 calls, 1 acks, 0 records"},
		{"a record of no call", calls, "ab", "abc", "activation c: 0 calls, 0 acks, 1 records"},
		{"a call was refused", append(calls, load.Call{}), "ab", "ab", "a call was refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var records []*activation.Record
			for _, id := range strings.Split(c.records, "") {
				records = append(records, &activation.Record{ActivationID: activation.ID(id)})
			}
			var out bytes.Buffer
			err := printer{w: &out}.check(c.calls, strings.Split(c.acks, ""), records)
			if c.want == "" {
				check.NoError(t, err)
			} else {
				check.ErrorIs(t, err, errMismatch)
			}
			check.Contains(t, out.String(), c.want)
		})
	}
}
