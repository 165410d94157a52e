package sim

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
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

// near fails unless a latency in milliseconds is so many seconds, to a hundredth
// of a millisecond.
func near(t *testing.T, ms, s float64, what string) {
	t.Helper()
	check.Less(t, math.Abs(ms-1000*s), 0.01, "%s: %v ms, want %v s", what, ms, s)
}

// TestStartKinds: the kinds of the runs' starts, and the duration of the slowest, in s.
func TestStartKinds(t *testing.T) {
	short, other := Function{Name: "a", Warm: second, Cold: 3 * second, Memory: gib}, Function{Name: "b", Warm: second, Cold: 2 * second, Memory: gib}
	long := Function{Name: "a", Warm: 10 * second, Cold: 10 * second, Memory: gib}
	big, half := Function{Name: "a", Warm: second, Cold: second, Memory: 6 * gib}, Function{Name: "b", Warm: second, Cold: second, Memory: 3 * gib}
	bigger := big
	bigger.Name = "b"
	swapping := func(memory int64, overlap float64) func(*Params) {
		return func(p *Params) {
			p.GPUMemory, p.Context, p.ContainerStart, p.PrefetchActive = memory, 0, 0, false
			p.Link = gpu.TransferModel{BytesPerSecond: 6 * gib, Overlap: overlap}
		}
	}
	for name, c := range map[string]struct {
		policy  string
		fns     []Function
		at      map[string][]float64
		change  func(*Params)
		starts  Starts
		slowest float64
	}{
		"cold with 1.5 s of container start, then warm": {mqfq, []Function{short}, map[string][]float64{"a": {0, 100}}, nil, Starts{Cold: 1, GPUWarm: 1}, 4.5},
		"one container for two functions": {"fcfs", []Function{short, other}, map[string][]float64{"a": {0, 40}, "b": {20}},
			func(p *Params) { p.Pool.Size, p.Tokens.Max = 1, 1 }, Starts{Cold: 3}, 4.5},
		"a second container beside a busy one, which slows both": {"fcfs", []Function{long}, map[string][]float64{"a": {0, 5}}, nil, Starts{Cold: 1, BusyCold: 1}, 13},
		"naive starts every run cold":                            {"naive", []Function{short}, map[string][]float64{"a": {0, 100}}, nil, Starts{Cold: 2}, 4.5},
		"a waits for b's memory to leave and its own to come": {mqfq, []Function{big, bigger}, map[string][]float64{"a": {0, 100}, "b": {50}},
			swapping(10*gib, 0), Starts{Cold: 2, HostWarm: 1}, 3},
		"half of a's transfer is hidden, b's takes half a second": {mqfq, []Function{big, half}, map[string][]float64{"a": {0, 100}, "b": {50}},
			swapping(8*gib, 0.5), Starts{Cold: 2, HostWarm: 1}, 2},
	} {
		p := params(t, c.policy)
		if c.change != nil {
			c.change(&p)
		}
		r := run(t, calls(c.fns, c.at), p)
		check.Equal(t, r.Starts, c.starts, "%s", name)
		near(t, r.Latency.P99, c.slowest, name)
	}
}

// TestTokenIsFreeBeforeTheContainer: a run's token is free when its container has reported its
// memory, its container when the logs are collected. In between another function takes the
// token, and a run that needs the container waits with the token.
func TestTokenIsFreeBeforeTheContainer(t *testing.T) {
	a := Function{Name: "a", Warm: second, Cold: second, Memory: gib}
	b := a
	b.Name = "b"
	for name, c := range map[string]struct {
		at           map[string][]float64
		granted, ran time.Duration
	}{
		"another function":  {map[string][]float64{"a": {0, 100}, "b": {50, 100.1}}, 101100, 101100},
		"the same function": {map[string][]float64{"a": {0, 100, 100.1}}, 101100, 101300},
	} {
		p := params(t, "fcfs")
		p.Tokens.Max, p.ContainerStart = 1, 0
		p.MemoryReport, p.LogCollection = 100*time.Millisecond, 300*time.Millisecond
		e, err := newEngine(calls([]Function{a, b}, c.at), p)
		check.NoError(check.Must(t), err)
		check.NoError(check.Must(t), e.loop())
		last := e.executions[len(e.executions)-1]
		check.Equal(t, last.kind, sched.GPUWarm, "%s", name)
		check.Equal(t, last.granted.Round(time.Microsecond), c.granted*time.Millisecond, "%s: when it has the token", name)
		check.Equal(t, last.ran.Round(time.Microsecond), c.ran*time.Millisecond, "%s: when it runs", name)
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
	near(t, r.Functions[0].Latency.Mean, 11.5, "a")
	near(t, r.Functions[1].Latency.Mean, 11.5, "b")
	check.That(t, r.GapBound != 0)
	check.That(t, r.Utilization != 0)
}

// onlyCores skips tests without goroutines under the race detector.
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
	kinds := Kinds()
	if raced {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		w := generate(t, kind.Name, func(s *Spec) { s.Duration = time.Minute })
		for _, policy := range PolicyNames() {
			for name, change := range map[string]func(*Params){
				"default":  func(*Params) {},
				"tight":    func(p *Params) { p.GPUMemory, p.Pool.Size = 6*gib, 5 },
				"two":      func(p *Params) { p.GPUs, p.Tokens.Max = 2, 3 },
				"dynamic":  func(p *Params) { p.Tokens.Dynamic, p.Tokens.Max = true, 4 },
				"headroom": func(p *Params) { p.Headroom = 8 * gib },
			} {
				p := params(t, policy)
				change(&p)
				if info, _ := policyNamed(policy); info.NoPool {
					p.Pool.Size = 0
				}
				r := run(t, w, p)
				if r.Completed+r.Unfinished != r.Arrivals {
					t.Errorf("%s %s %s: %d completed and %d left of %d", kind.Name, policy, name, r.Completed, r.Unfinished, r.Arrivals)
				}
				if r.Unfinished == 0 && r.Latency.Mean < r.LowerBound-0.001 {
					t.Errorf("%s %s %s: mean %v ms beats the lower bound %v", kind.Name, policy, name, r.Latency.Mean, r.LowerBound)
				}
				check.That(t, !math.IsNaN(r.Latency.Mean), "%s %s %s: %+v", kind.Name, policy, name, r.Latency)
				check.That(t, !math.IsNaN(r.GapBacklogged.Mean), "%s %s %s", kind.Name, policy, name)
				check.That(t, !math.IsNaN(r.Utilization), "%s %s %s", kind.Name, policy, name)
			}
		}
	}
}

func TestOverloadEndsAtItsHorizonWithAWarning(t *testing.T) {
	w := generate(t, "zipf", func(s *Spec) { s.Load = 3 })
	p := params(t, mqfq)
	p.Drain = time.Minute
	r := run(t, w, p)
	check.That(t, r.Unfinished != 0, "at %v s", r.End)
	check.AtMost(t, r.End, 360.001)
	check.Contains(t, r.Warning, "cannot be served")
	p.Drain = 24 * time.Hour
	r = run(t, w, p)
	check.Equal(t, r.Unfinished, 0)
	check.Contains(t, r.Warning, "all was served")
}

func TestWarmupIsServedAndNotMeasured(t *testing.T) {
	f := Function{Name: "a", Warm: second, Cold: 3 * second, Memory: gib}
	p := params(t, mqfq)
	p.Warmup = 50 * second
	r := run(t, calls([]Function{f}, map[string][]float64{"a": {0, 100}}), p)
	check.Equal(t, r.Latency.Count, 1)
	near(t, r.Latency.Mean, 1, "the second call")
	check.Equal(t, r.Starts.Cold, 0)
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
	over := r.Functions[1].Service / r.Functions[0].Service
	check.AtLeast(t, over, 2.7, "weight 3 over weight 1")
	check.AtMost(t, over, 3.3, "weight 3 over weight 1")
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
		"--devices":         func(p *Params) { p.GPUs = 0 },
		"--gpu-memory":      func(p *Params) { p.GPUMemory = -1 },
		"--context":         func(p *Params) { p.Context = p.GPUMemory },
		"--headroom":        func(p *Params) { p.Headroom = -1 },
		"--tokens":          func(p *Params) { p.Tokens.Max = 0 },
		"--pool":            func(p *Params) { p.Pool.Size = -1 },
		"--interference":    func(p *Params) { p.Interference = gpu.Interference{nan} },
		"--swap-bandwidth":  func(p *Params) { p.Link.BytesPerSecond = 0 },
		"--kernel-share":    func(p *Params) { p.KernelShare = nan },
		"--container-start": func(p *Params) { p.ContainerStart = -1 },
		"--window":          func(p *Params) { p.Window = 0 },
		"--window 1ns":      func(p *Params) { p.Window = 1 },
		"--warmup":          func(p *Params) { p.Warmup = -1 },
		"--warmup 25h":      func(p *Params) { p.Warmup = 25 * time.Hour },
		"--threshold":       func(p *Params) { p.Tokens.Threshold = nan },
		"--drain":           func(p *Params) { p.Drain = -1 },
		"--overrun":         func(p *Params) { p.Sched.Overrun = -1 },
		"--ttl-alpha":       func(p *Params) { p.Sched.TTLAlpha = nan },
		"--ttl-min":         func(p *Params) { p.Sched.TTLMin = -1 },
		"--ttl-max":         func(p *Params) { p.Sched.TTLMax = -1 },
		"--initial-charge":  func(p *Params) { p.Sched.InitialCharge = -1 },
		"--fixed-charge":    func(p *Params) { p.Sched.FixedCharge = -1 },
	} {
		p := params(t, mqfq)
		change(&p)
		_, err := Run(w, p)
		check.ErrorContains(t, err, flag)
	}
	p := params(t, mqfq)
	p.GPUMemory = 2 * gib
	_, err := Run(w, p)
	check.ErrorContains(t, err, "--gpu-memory", "a function larger than the device")
	_, err = DefaultParams("lottery")
	check.ErrorContains(t, err, "--policy", "an unknown policy")
}

// TestAHotFunctionGetsItsContainers: a function that starts to be called for
// more than one container can serve gets a second one, under sticky-plus about
// as soon as under the paper's policy, on one device and over two.
func TestAHotFunctionGetsItsContainers(t *testing.T) {
	f := Function{Name: "hot", Warm: time.Second, Cold: 11 * time.Second, Memory: gib}
	var at []float64
	for s := 0.0; s < 200; s += 10 {
		at = append(at, s)
	}
	for s := 200.0; s < 1400; s += 1 / 1.5 {
		at = append(at, s)
	}
	w := calls([]Function{f}, map[string][]float64{"hot": at})
	for _, server := range []struct{ devices, tokens int }{{1, 2}, {2, 1}, {4, 2}} {
		mean := map[string]float64{}
		for _, policy := range []string{"mqfq-sticky", "sticky-plus"} {
			p := params(t, policy)
			p.GPUs, p.Tokens.Max = server.devices, server.tokens
			mean[policy] = run(t, w, p).Latency.Mean
		}
		t.Logf("%+v: %v ms", server, mean)
		if mean["sticky-plus"] > 1.2*mean["mqfq-sticky"] {
			t.Errorf("%+v: %v ms", server, mean)
		}
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
