package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone"
)

// real starts the invoker of this project as the command does, and keeps the
// address of its admin door.
type real struct{ admin atomic.Value }

func (r *real) start(ctx context.Context, environ, args []string) (func() error, error) {
	cfg, err := config.Load(config.Input{Environ: environ, Args: args})
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- assembly.Run(ctx, assembly.Options{
			Config: cfg, Log: slog.New(slog.DiscardHandler), Self: os.Args[0], Host: "127.0.0.1",
			Listening: func(addr string) { r.admin.Store(addr) },
		})
	}()
	return func() error { return <-ended }, nil
}

// played runs a short demo on a machine and returns what it printed.
func played(t *testing.T, m Machine, memory activation.Size, pick []string, extra ...string) string {
	t.Helper()
	functions, err := Catalogue(m)
	if err != nil {
		t.Fatal(err)
	}
	// Not all of them: starting their interpreters takes longer than the rest.
	functions = slices.DeleteFunc(functions, func(f Function) bool { return !slices.Contains(pick, f.Name) })
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var out bytes.Buffer
	r := &real{}
	err = Run(t.Context(), Options{
		Standalone: standalone.Options{
			Runtime: "process", GPUs: 1, GPUMemory: memory, Extra: append(m.Settings(), extra...), Invoker: r.start, Version: "test",
		},
		Machine: m, Functions: functions, Admin: func() string { return r.admin.Load().(string) },
		Load: time.Second, Seed: 7, Out: &out,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("a pipe got terminal codes")
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return out.String()
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

// TestKept: who asks for it can look at the console after the report, and ends
// the demo without being told that it was interrupted.
func TestKept(t *testing.T) {
	functions, err := Catalogue(Here())
	if err != nil || len(functions) == 0 {
		missing(t, "neither python3 nor node")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, end := context.WithCancel(t.Context())
	r, out := &real{}, &pauser{text: "kept: the console is at http://127.0.0.1:", end: end}
	admin := func() string { addr, _ := r.admin.Load().(string); return addr }
	err = Run(ctx, Options{
		Standalone: standalone.Options{Runtime: "process", GPUs: 1, GPUMemory: activation.GB, Invoker: r.start, Admin: admin, Version: "test"},
		Functions:  functions[:1], Admin: admin, Keep: true, Load: time.Second, Seed: 7, Out: out,
	})
	if err != nil || ctx.Err() == nil {
		t.Errorf("%v; ended by the one who looked: %t\n%s", err, ctx.Err() != nil, &out.out)
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Who ends the demo half way is told so, in no words of Go's, and finds nothing
// left behind.
func TestInterrupted(t *testing.T) {
	functions, err := Catalogue(Here())
	if err != nil {
		missing(t, err.Error())
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, end := context.WithCancel(t.Context())
	r, out := &real{}, &pauser{text: "deployed", end: end}
	err = Run(ctx, Options{
		Standalone: standalone.Options{Runtime: "process", GPUs: 1, GPUMemory: activation.GB, Invoker: r.start, Version: "test"},
		Functions:  functions[:1], Load: time.Hour, Seed: 7, Out: out,
	})
	if !errors.Is(err, ErrInterrupted) || err.Error() != ErrInterrupted.Error() {
		t.Errorf("got %v, want %v", err, ErrInterrupted)
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("GPUWHISK_REQUIRE_PEERS") == "1" {
		t.Fatal(what)
	}
	t.Skip(what)
}

func TestTheWholeDemoInShort(t *testing.T) {
	m := Here()
	if !m.Python && !m.Node {
		missing(t, "neither python3 nor node is on the PATH")
	}
	out := played(t, m, m.DeviceMemory(), []string{"hello", "roberta", "isoneural"})
	for _, want := range []string{"simulated", "isoneural", `"gpuTime"`, "ok ", "each one once"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "MB out") {
		t.Errorf("memory moved that is not there:\n%s", out)
	}
}

// Two functions whose memory does not fit the device together swap when they
// are served by turns. In arrival order they are; a fair scheduler may serve
// all calls of one and then all of the other, where a slow machine lets them
// queue up.
func TestTheWholeDemoUnderTheShim(t *testing.T) {
	m := Here()
	library, err := filepath.Abs("../../build/shim/libgpuwhisk.so")
	if err != nil {
		t.Fatal(err)
	}
	driver := filepath.Join(filepath.Dir(library), "fake12")
	if err := errors.Join(devices.CheckLibrary(library), devices.CheckDriver(driver)); err != nil {
		missing(t, fmt.Sprintf("make shim-fake: %v", err))
	}
	if !m.Python {
		missing(t, "python3 is not on the PATH")
	}
	m.Driver, m.Program = true, filepath.Join(filepath.Dir(library), "gpufunc")
	out := played(t, m, 34*activation.MB, []string{"roberta", "isoneural", "ffmpeg"},
		"CONFIG_whisk_gpu_shim_library="+library, "CONFIG_whisk_gpu_fakeDriver="+driver, "CONFIG_whisk_gpu_policy=fcfs", "CONFIG_whisk_gpu_tokens=1")
	if !strings.Contains(out, "each one once") || !strings.Contains(out, "real shim on the fake driver") {
		t.Errorf("output:\n%s", out)
	}
	row := regexp.MustCompile(`(?m)^(\w+) +\d+ +(\d+)  (?: +\d+){4} +\S+ +\S+ +\S+ +(\d+) +(\d+)`)
	moved := 0
	for _, cells := range row.FindAllStringSubmatch(out, -1) {
		if cells[2] != "0" {
			t.Errorf("%s: %s errors\n%s", cells[1], cells[2], out)
		}
		in, _ := strconv.Atoi(cells[4])
		moved += in
	}
	if moved == 0 {
		t.Errorf("nothing came back from the host:\n%s", out)
	}
}

func TestWithoutInterpreters(t *testing.T) {
	if err := Run(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "python3") {
		t.Errorf("got %v, want what to install", err)
	}
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
		functions, err := Catalogue(Machine{Python: c.python, Node: c.node})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range functions {
			kinds = append(kinds, f.Kind)
			if f.GPU != nil {
				gpus++
			}
		}
		slices.Sort(kinds)
		if got := strings.Join(slices.Compact(kinds), " "); got != c.kinds {
			t.Errorf("python %t, node %t: %q, want %q", c.python, c.node, got, c.kinds)
		}
		if c.kinds != "" && gpus != 6 {
			t.Errorf("%d GPU functions, want the six", gpus)
		}
	}
}

func TestFunctionsSleepTheScaledTimes(t *testing.T) {
	f := timed{"imagenet", 2253, 11286, 4096, 3}.function(true)
	for _, want := range []string{"time.sleep(0.45165)  # loading", "    time.sleep(0.11265)"} {
		if !strings.Contains(f.Code, want) {
			t.Errorf("code lacks %q:\n%s", want, f.Code)
		}
	}
}

func TestArrivalsAreDrawnFromTheSeed(t *testing.T) {
	functions := []Function{{Rate: 50}, {Rate: 5}}
	a, b := arrivals(functions, 20*time.Second, 1), arrivals(functions, 20*time.Second, 1)
	if !slices.Equal(a, b) {
		t.Error("the same seed drew other arrivals")
	}
	if slices.Equal(a, arrivals(functions, 20*time.Second, 2)) {
		t.Error("another seed drew the same arrivals")
	}
	if !slices.IsSortedFunc(a, func(x, y arrival) int { return int(x.at - y.at) }) {
		t.Error("arrivals are not in order")
	}
	if n := len(a); n < 900 || n > 1300 {
		t.Errorf("%d arrivals in 20 s at 55/s", n)
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, c := range []struct {
		of   []time.Duration
		p    float64
		want time.Duration
	}{
		{hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 1, 100}, {hundred[:1], 0.5, 1}, {hundred[:2], 0.99, 2}, {nil, 0.5, 0},
	} {
		if got := percentile(c.of, c.p); got != c.want {
			t.Errorf("p%g of %d values: %d, want %d", 100*c.p, len(c.of), got, c.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	records := func(ids ...string) map[string]*activation.Record {
		m := map[string]*activation.Record{}
		for _, id := range ids {
			m[id] = &activation.Record{}
		}
		return m
	}
	calls := []call{{id: "a"}, {id: "b"}}
	for _, c := range []struct {
		name  string
		calls []call
		a     account
		ok    bool
	}{
		{"all agree", calls, account{map[string]int{"a": 1, "b": 1}, records("a", "b")}, true},
		{"an ack is missing", calls, account{map[string]int{"a": 1}, records("a", "b")}, false},
		{"an ack is doubled", calls, account{map[string]int{"a": 1, "b": 2}, records("a", "b")}, false},
		{"an ack of no call", calls, account{map[string]int{"a": 1, "b": 1, "c": 1}, records("a", "b")}, false},
		{"a record is missing", calls, account{map[string]int{"a": 1, "b": 1}, records("a")}, false},
		{"a record of no call", calls, account{map[string]int{"a": 1, "b": 1}, records("a", "b", "c")}, false},
		{"a call was refused", append(calls, call{}), account{map[string]int{"a": 1, "b": 1}, records("a", "b")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			err := printer{w: &out}.check(c.calls, &c.a)
			if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrMismatch) {
				t.Errorf("got %v\n%s", err, &out)
			}
		})
	}
}

func TestTableCountsFromRecords(t *testing.T) {
	record := func(annotations string) *activation.Record {
		doc := fmt.Sprintf(`{"namespace":"guest","name":"f","subject":"guest","activationId":"%s","start":1,"end":2,"response":{"statusCode":0},"logs":[],"version":"0.0.1","publish":false,"annotations":[%s]}`,
			strings.Repeat("a", 32), annotations)
		r, err := activation.DecodeRecord([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	gpu := func(start string, queue, service int) *activation.Record {
		return record(fmt.Sprintf(`{"key":"gpu","value":{"start":"%s","queueTime":%d,"gpuTime":%d}}`, start, queue, service))
	}
	functions := []Function{{Name: "cpu"}, {Name: "one", GPU: true}, {Name: "two", GPU: true}}
	calls := []call{{function: 0, id: "a"}, {function: 0, id: "b"}, {function: 1, id: "c"}, {function: 1, id: "d", err: errors.New("x")}, {function: 2, id: "e"}}
	records := map[string]*activation.Record{
		"a": record(`{"key":"waitTime","value":4},{"key":"initTime","value":9}`), "b": record(`{"key":"waitTime","value":2}`),
		"c": gpu("cold", 10, 60), "d": gpu("host-warm", 30, 30), "e": gpu("gpu-warm", 0, 10),
	}
	lines := summarise(functions, calls, records)
	if l := lines[0]; l.starts["cold"] != 1 || l.starts["warm"] != 1 || l.wait != 3 {
		t.Errorf("CPU action %+v", l)
	}
	if l := lines[1]; l.runs != 2 || l.errors != 1 || l.starts["cold"] != 1 || l.starts["host-warm"] != 1 || l.wait != 20 || l.service != 90 {
		t.Errorf("GPU function %+v", l)
	}
	var out bytes.Buffer
	printer{w: &out}.table(functions, calls, records, map[string]traffic{"one": {in: 3e6, out: 4e6}})
	if !strings.Contains(out.String(), "90.0%") || !strings.Contains(out.String(), "10.0%") {
		t.Errorf("shares:\n%s", &out)
	}
	if !regexp.MustCompile(`one .* 4 +3 `).MatchString(out.String()) {
		t.Errorf("moved bytes:\n%s", &out)
	}
}
