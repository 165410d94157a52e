package sim

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// second is short for the tests' durations.
const second = time.Second

// params returns a policy's defaults with the invariants checked.
func params(t testing.TB, policy string) Params {
	t.Helper()
	p, err := DefaultParams(policy)
	if err != nil {
		t.Fatal(err)
	}
	p.Verify = true
	return p
}

// generate builds a workload of a kind, shorter than the default.
func generate(t testing.TB, kind string, change func(*Spec)) *Workload {
	t.Helper()
	s := DefaultSpec()
	s.Kind, s.Duration = kind, 5*time.Minute
	if change != nil {
		change(&s)
	}
	w, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func run(t testing.TB, w *Workload, p Params) *Result {
	t.Helper()
	r, err := Run(w, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// runOn is run with the lower bound that the source computes once for a server.
func runOn(t testing.TB, s *Source, p Params) *Result {
	t.Helper()
	w, err := s.Workload(0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := simulate(w, p)
	if err != nil {
		t.Fatal(err)
	}
	r.least = func() float64 { return s.lowerBound(0, p) }
	r.bounded()
	return r
}

// calls makes a workload of one-letter functions called at the given seconds.
func calls(fns []Function, at map[string][]float64) *Workload {
	w := &Workload{Name: "calls", Functions: fns, Horizon: time.Hour}
	for i, f := range fns {
		for _, s := range at[f.Name] {
			w.Arrivals = append(w.Arrivals, Arrival{At: seconds(s), Function: int32(i)})
		}
	}
	inOrder(w.Arrivals)
	return w
}

// near compares milliseconds with seconds, to a hundredth of a millisecond.
func near(ms, s float64) bool { return math.Abs(ms-1000*s) < 0.01 }

func TestOneFunctionColdThenWarm(t *testing.T) {
	f := Function{Name: "a", Warm: second, Cold: 3 * second, Memory: gib}
	r := run(t, calls([]Function{f}, map[string][]float64{"a": {0, 100}}), params(t, mqfq))
	// 1.5 s of container start, 3 s cold; then 1 s warm.
	if !near(r.Latency.P99, 4.5) || !near(r.Latency.P50, 1) {
		t.Errorf("latencies %v and %v ms, want 1000 and 4500", r.Latency.P50, r.Latency.P99)
	}
	if r.Starts != (Starts{GPUWarm: 1, Cold: 1}) {
		t.Errorf("starts %+v", r.Starts)
	}
}

func TestTwoRunsAtOnceInterfere(t *testing.T) {
	f := Function{Name: "a", Warm: 10 * second, Cold: 10 * second, Memory: gib}
	g := f
	g.Name = "b"
	p := params(t, mqfq)
	p.ContainerStart = 0
	r := run(t, calls([]Function{f, g}, map[string][]float64{"a": {0}, "b": {5}}), p)
	// a alone for 5 s, both at 1/1.3 until a's other 5 s of work are done at
	// 11.5, then b, which did 5 of its 10, alone.
	if a, b := r.Functions[0].Latency.Mean, r.Functions[1].Latency.Mean; !near(a, 11.5) || !near(b, 11.5) {
		t.Errorf("latencies %v and %v ms, want 11500 each", a, b)
	}
	if r.GapBound == 0 || r.Utilization == 0 {
		t.Errorf("bound %v, utilization %v", r.GapBound, r.Utilization)
	}
}

func TestSwappedMemoryIsMovedOutThenIn(t *testing.T) {
	fns := []Function{
		{Name: "a", Warm: second, Cold: second, Memory: 6 * gib},
		{Name: "b", Warm: second, Cold: second, Memory: 6 * gib},
	}
	p := params(t, mqfq)
	p.Memory, p.Context, p.ContainerStart, p.PrefetchActive = 10*gib, 0, 0, false
	p.Link = gpu.Link{BytesPerSecond: 6 * gib}
	r := run(t, calls(fns, map[string][]float64{"a": {0, 100}, "b": {50}}), p)
	// b waits a second for a's memory to leave; a's second run two: out and in.
	if got := r.Functions[1].Latency.Mean; !near(got, 2) {
		t.Errorf("b took %v ms, want 2000", got)
	}
	if got := r.Functions[0].Latency.P99; !near(got, 3) {
		t.Errorf("a's second run took %v ms, want 3000", got)
	}
	if r.Starts.HostWarm != 1 {
		t.Errorf("starts %+v, want one host-warm", r.Starts)
	}
}

func TestOverlapHidesPartOfARunsOwnTransfer(t *testing.T) {
	fns := []Function{
		{Name: "a", Warm: second, Cold: second, Memory: 6 * gib},
		{Name: "b", Warm: second, Cold: second, Memory: 3 * gib},
	}
	p := params(t, mqfq)
	p.Memory, p.Context, p.ContainerStart, p.PrefetchActive = 8*gib, 0, 0, false
	p.Link = gpu.Link{BytesPerSecond: 6 * gib, Overlap: 0.5}
	r := run(t, calls(fns, map[string][]float64{"a": {0, 100}, "b": {50}}), p)
	// b's memory leaves in 0.5 s; half of a's 1 s of transfer is hidden.
	if got := r.Functions[0].Latency.P99; !near(got, 2) {
		t.Errorf("a's second run took %v ms, want 2000", got)
	}
}

func TestSmallPoolGivesUpContainers(t *testing.T) {
	f := Function{Name: "a", Warm: second, Cold: 2 * second, Memory: gib}
	g := f
	g.Name = "b"
	p := params(t, "fcfs")
	p.Pool.Size, p.Tokens.Max = 1, 1
	r := run(t, calls([]Function{f, g}, map[string][]float64{"a": {0, 40}, "b": {20}}), p)
	if r.Starts.Cold != 3 {
		t.Errorf("starts %+v with one container for two functions, want 3 cold", r.Starts)
	}
}

func TestBusyColdIsTold(t *testing.T) {
	f := Function{Name: "a", Warm: 10 * second, Cold: 10 * second, Memory: gib}
	r := run(t, calls([]Function{f}, map[string][]float64{"a": {0, 5}}), params(t, "fcfs"))
	if r.Starts != (Starts{Cold: 1, BusyCold: 1}) {
		t.Errorf("starts %+v, want one cold and one busy-cold", r.Starts)
	}
}

func TestNaiveStartsEveryRunCold(t *testing.T) {
	w := generate(t, "zipf", func(s *Spec) { s.Load = 0.1 })
	r := run(t, w, params(t, "naive"))
	if r.Starts.GPUWarm+r.Starts.HostWarm != 0 || r.Starts.Total() == 0 {
		t.Errorf("starts %+v", r.Starts)
	}
}

// onlyCores skips under the race detector what starts no goroutines.
func onlyCores(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("starts no goroutines: run without the race detector")
	}
}

func TestSameSeedSameNumbers(t *testing.T) {
	onlyCores(t)
	t.Parallel()
	for _, policy := range PolicyNames() {
		var last string
		for range 3 {
			w := generate(t, "zipf", nil)
			out, err := json.Marshal(run(t, w, params(t, policy)))
			if err != nil {
				t.Fatal(err)
			}
			if last != "" && string(out) != last {
				t.Errorf("%s: two runs of one seed differ", policy)
			}
			last = string(out)
		}
	}
	a, b := generate(t, "zipf", nil), generate(t, "zipf", func(s *Spec) { s.Seed = 2 })
	if a.Arrivals[0] == b.Arrivals[0] {
		t.Error("two seeds begin alike")
	}
}

// TestInvariants runs every policy on every kind of workload with the
// invariants of ledger and pool checked after every event.
func TestInvariants(t *testing.T) {
	t.Parallel()
	names, _ := Kinds()
	if raced {
		names = names[:1]
	}
	for _, kind := range names {
		w := Fixed(generate(t, kind, func(s *Spec) { s.Duration = time.Minute }))
		for _, policy := range PolicyNames() {
			for name, change := range map[string]func(*Params){
				"default":   func(*Params) {},
				"tight":     func(p *Params) { p.Memory, p.Pool.Size = 6*gib, 5 },
				"two":       func(p *Params) { p.Devices, p.Tokens.Max = 2, 3 },
				"dynamic":   func(p *Params) { p.Tokens.Dynamic, p.Tokens.Max = true, 4 },
				"headroom":  func(p *Params) { p.Headroom, p.PrefetchNext = 8*gib, true },
				"init idle": func(p *Params) { p.InitInterferes = false },
			} {
				p := params(t, policy)
				change(&p)
				if policyInfo(policy).NoPool {
					p.Pool.Size = 0
				}
				r := runOn(t, w, p)
				if r.Completed+r.Unfinished != r.Arrivals {
					t.Errorf("%s %s %s: %d completed and %d left of %d", kind, policy, name, r.Completed, r.Unfinished, r.Arrivals)
				}
				if r.Unfinished == 0 && r.Latency.Mean < r.LowerBound-0.001 {
					t.Errorf("%s %s %s: mean %v ms beats the lower bound %v", kind, policy, name, r.Latency.Mean, r.LowerBound)
				}
				if math.IsNaN(r.Latency.Mean) || math.IsNaN(r.GapBacklogged.Mean) || math.IsNaN(r.Utilization) {
					t.Errorf("%s %s %s: not a number in %+v", kind, policy, name, r.Latency)
				}
			}
		}
	}
}

func TestOverloadEndsAtItsHorizonAndSaysSo(t *testing.T) {
	w := generate(t, "zipf", func(s *Spec) { s.Load = 3 })
	p := params(t, mqfq)
	p.Drain = time.Minute
	r := run(t, w, p)
	if r.Unfinished == 0 || r.End > 360.001 {
		t.Errorf("%d left at %v s, want some at 360 s at the latest", r.Unfinished, r.End)
	}
	if !strings.Contains(r.Note, "cannot be served") {
		t.Errorf("note %q", r.Note)
	}
	p.Drain = 24 * time.Hour
	if r := run(t, w, p); r.Unfinished != 0 || !strings.Contains(r.Note, "all was served") {
		t.Errorf("%d left, note %q", r.Unfinished, r.Note)
	}
}

func TestWarmupIsServedAndNotMeasured(t *testing.T) {
	f := Function{Name: "a", Warm: second, Cold: 3 * second, Memory: gib}
	p := params(t, mqfq)
	p.Warmup = 50 * second
	r := run(t, calls([]Function{f}, map[string][]float64{"a": {0, 100}}), p)
	if r.Latency.Count != 1 || !near(r.Latency.Mean, 1) || r.Starts.Cold != 0 {
		t.Errorf("%+v %+v", r.Latency, r.Starts)
	}
}

func TestWeightsShareTheDevice(t *testing.T) {
	fns := []Function{
		{Name: "light", Warm: second, Cold: second, Memory: gib},
		{Name: "heavy", Warm: second, Cold: second, Memory: gib, Weight: 3},
	}
	var many []float64
	for i := range 600 {
		many = append(many, float64(i))
	}
	w := calls(fns, map[string][]float64{"light": many, "heavy": many})
	w.Horizon = 600 * second
	p := params(t, mqfq)
	p.Drain, p.Tokens.Max, p.Sched.Overrun = 0, 1, 2*second
	r := run(t, w, p)
	if q := r.Functions[1].Service / r.Functions[0].Service; q < 2.7 || q > 3.3 {
		t.Errorf("weight 3 received %.2f times the service", q)
	}
}

func TestGapBoundHoldsForWindowPolicies(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{mqfq, plus, "mqfq"} {
		seeds, loads := uint64(5), []float64{0.95, 0.7, 1.5}
		if raced {
			seeds, loads = 1, loads[:1]
		}
		for seed := uint64(1); seed <= seeds; seed++ {
			for _, load := range loads {
				w := generate(t, "zipf", func(s *Spec) { s.Seed, s.Load, s.Capacity = seed, load, 1.5 })
				r := run(t, w, params(t, policy))
				if r.GapBacklogged.Max > r.GapBound {
					t.Errorf("%s seed %d load %v: gap %.1f s over the bound %.1f", policy, seed, load, r.GapBacklogged.Max, r.GapBound)
				}
			}
		}
	}
}

func TestBadParametersNameTheFlag(t *testing.T) {
	w := generate(t, "zipf", nil)
	nan := math.NaN()
	for flag, change := range map[string]func(*Params){
		"--devices":         func(p *Params) { p.Devices = 0 },
		"--gpu-memory":      func(p *Params) { p.Memory = -1 },
		"--context":         func(p *Params) { p.Context = p.Memory },
		"--headroom":        func(p *Params) { p.Headroom = -1 },
		"--tokens":          func(p *Params) { p.Tokens.Max = 0 },
		"--pool":            func(p *Params) { p.Pool.Size = -1 },
		"--interference":    func(p *Params) { p.Interference = gpu.Interference{nan} },
		"--swap-bandwidth":  func(p *Params) { p.Link.BytesPerSecond = 0 },
		"--kernel-share":    func(p *Params) { p.KernelShare = nan },
		"--container-start": func(p *Params) { p.ContainerStart = -1 },
		"--window":          func(p *Params) { p.Window = 0 },
		"--warmup":          func(p *Params) { p.Warmup = -1 },
		"--warmup 25h":      func(p *Params) { p.Warmup = 25 * time.Hour },
		"--threshold":       func(p *Params) { p.Tokens.Threshold = nan },
		"--drain":           func(p *Params) { p.Drain = -1 },
		"--overrun":         func(p *Params) { p.Sched.Overrun = -1 },
		"--ttl-alpha":       func(p *Params) { p.Sched.TTLAlpha = nan },
		"--ttl-min":         func(p *Params) { p.Sched.TTLMin = -1 },
		"--ttl-max":         func(p *Params) { p.Sched.TTLMax = -1 },
		"--smoothing":       func(p *Params) { p.Sched.Smoothing = 2 },
		"--initial-charge":  func(p *Params) { p.Sched.InitialCharge = -1 },
		"--fixed-charge":    func(p *Params) { p.Sched.FixedCharge = -1 },
		"--deficit-limit":   func(p *Params) { p.Sched.DeficitLimit = nan },
	} {
		p := params(t, mqfq)
		change(&p)
		if _, err := Run(w, p); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: got %v", flag, err)
		}
	}
	p := params(t, mqfq)
	p.Memory = 2 * gib
	if _, err := Run(w, p); err == nil || !strings.Contains(err.Error(), "--gpu-memory") {
		t.Errorf("a function larger than the device: got %v", err)
	}
	if _, err := DefaultParams("lottery"); err == nil || !strings.Contains(err.Error(), "--policy") {
		t.Errorf("an unknown policy: got %v", err)
	}
}

// BenchmarkZipf30Minutes simulates the paper's class as the commands do.
func BenchmarkZipf30Minutes(b *testing.B) {
	s := DefaultSpec()
	for _, policy := range []string{mqfq, plus} {
		b.Run(policy, func(b *testing.B) {
			p := params(b, policy)
			p.Verify = false
			w, err := s.For(p).Build()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				run(b, w, p)
			}
		})
	}
}
