package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Latency summarizes times from arrival to completion, in milliseconds.
type Latency struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Std   float64 `json:"std"`
}

// Starts counts measured runs by start kind.
type Starts struct {
	GPUWarm  int `json:"gpu-warm"`
	HostWarm int `json:"host-warm"`
	Cold     int `json:"cold"`
	BusyCold int `json:"busy-cold"`
}

// Total returns how many runs started.
func (s Starts) Total() int { return s.GPUWarm + s.HostWarm + s.Cold + s.BusyCold }

// ColdShare returns the share of cold starts of both kinds, 0 to 1.
func (s Starts) ColdShare() float64 { return share(float64(s.Cold+s.BusyCold), s.Total()) }

func (s *Starts) add(k sched.StartKind) {
	switch k {
	case sched.GPUWarm:
		s.GPUWarm++
	case sched.HostWarm:
		s.HostWarm++
	case sched.Cold:
		s.Cold++
	case sched.BusyCold:
		s.BusyCold++
	}
}

// FunctionResult is one function's part of a result.
type FunctionResult struct {
	Name      string  `json:"function"`
	Namespace string  `json:"namespace"`
	Weight    float64 `json:"weight"`
	Latency   Latency `json:"latency"`
	WaitMean  float64 `json:"waitMean"`  // ms from arrival to token
	Execution float64 `json:"execution"` // ms from token to completion, mean
	Starts    Starts  `json:"starts"`
	Service   float64 `json:"service"` // seconds of device time
}

// Gap summarizes service gaps per window, in seconds.
type Gap struct {
	Windows int     `json:"windows"`
	Mean    float64 `json:"mean"`
	Max     float64 `json:"max"`
}

// Result has the measurements of one run. Times are in milliseconds unless stated otherwise.
type Result struct {
	Workload string `json:"workload"`
	Policy   string `json:"policy"`
	// Offered is the load asked for, 1 being one device kept busy by warm
	// runs one at a time. Capacity is the most the server could do on this
	// scale.
	Offered  float64 `json:"offeredLoad"`
	Capacity float64 `json:"capacity"`

	Arrivals   int    `json:"arrivals"`
	Completed  int    `json:"completed"`
	Unfinished int    `json:"unfinished"`
	Warning    string `json:"note,omitempty"`

	// Latency is over all measured activations, so its mean is the paper's
	// weighted average. Unfinished ones count with their age at the end.
	Latency Latency `json:"latency"`
	// FunctionMean is the mean over functions of their mean latency, each
	// function counting the same; FunctionVariance is the variance between
	// those means and WithinVariance the mean variance within a function,
	// both in seconds squared.
	FunctionMean     float64 `json:"functionMean"`
	FunctionVariance float64 `json:"functionVariance"`
	WithinVariance   float64 `json:"withinVariance"`

	WaitMean    float64 `json:"waitMean"`
	Execution   float64 `json:"execution"`
	Starts      Starts  `json:"starts"`
	ColdShare   float64 `json:"coldShare"`
	Utilization float64 `json:"utilization"` // share of device time with a run
	InFlight    float64 `json:"held"`        // tokens in use on average, per device

	GapBacklogged Gap     `json:"gapBacklogged"`
	GapAll        Gap     `json:"gapAll"`
	GapBound      float64 `json:"gapBound"` // seconds

	LowerBound float64 `json:"lowerBound"`     // see the function
	OverBound  float64 `json:"overLowerBound"` // the mean latency over it

	Decisions    int     `json:"decisions"`
	DecisionNano float64 `json:"decisionNs,omitempty"` // of the scheduler for one activation

	End       float64          `json:"end"` // seconds simulated
	Functions []FunctionResult `json:"functions"`

	// Series is each window's service by function, in seconds, when kept.
	Series [][]float64 `json:"series,omitempty"`
	// Busy is each window's share of device time with a run, when kept.
	Busy []float64 `json:"busy,omitempty"`
}

// tally collects one group of activations.
type tally struct {
	latency []float64
	wait    float64
	exec    float64
	starts  Starts
}

// add counts an activation, if it is measured.
func (t *tally) add(e *engine, j int) {
	a, x := e.w.Arrivals[j], &e.executions[j]
	if a.At < e.p.Warmup || j >= e.arrived {
		return
	}
	end := x.ended
	if x.phase != finished {
		end = e.now
	}
	t.latency = append(t.latency, millis(end-a.At))
	if x.phase == queued {
		t.wait += millis(e.now - a.At)
		return
	}
	t.wait += millis(x.granted - a.At)
	t.starts.add(x.kind)
	t.exec += millis(end - x.granted)
}

// result sums a group up, of a function or of all.
func (t *tally) result() FunctionResult {
	return FunctionResult{
		Latency: summarize(t.latency), WaitMean: share(t.wait, len(t.latency)),
		Execution: share(t.exec, t.starts.Total()), Starts: t.starts,
	}
}

func (e *engine) result() *Result {
	for _, d := range e.devices {
		e.advance(d)
	}
	var total tally
	per := make([]tally, len(e.fns))
	for j := range e.executions {
		total.add(e, j)
		per[e.executions[j].fn].add(e, j)
	}
	all := total.result()
	r := &Result{
		Workload: e.w.Name, Policy: e.p.Policy,
		Offered: e.w.Load(), Capacity: Capacity(e.p),
		Arrivals: len(e.executions), Completed: e.done, Unfinished: len(e.executions) - e.done,
		Latency: all.Latency, Starts: all.Starts, ColdShare: all.Starts.ColdShare(),
		WaitMean: all.WaitMean, Execution: all.Execution,
		GapBacklogged: e.gaps.backlog.result(), GapAll: e.gaps.all.result(), GapBound: e.gapBound(),
		LowerBound: LowerBound(e.w, e.p),
		Decisions:  e.decisions, DecisionNano: share(float64(e.deciding), e.done),
		End: e.now.Seconds(), Series: e.gaps.series, Busy: e.gaps.busy,
	}
	r.OverBound = ratio(r.Latency.Mean, r.LowerBound)
	if span := e.now.Seconds() * float64(len(e.devices)); span > 0 {
		r.Utilization = e.active().Seconds() / span
		r.InFlight = r.Execution / 1000 * float64(r.Starts.Total()) / span
	}
	var means []float64
	for i := range e.fns {
		f, of := &e.fns[i], per[i].result()
		of.Name, of.Namespace = f.submitted.Flow.Function, f.submitted.Flow.Namespace
		of.Weight, of.Service = f.weight(), f.service.Seconds()
		r.Functions = append(r.Functions, of)
		if of.Latency.Count > 0 {
			means = append(means, of.Latency.Mean)
			r.WithinVariance += of.Latency.Std * of.Latency.Std / 1e6
		}
	}
	between := summarize(means)
	r.FunctionMean, r.FunctionVariance = between.Mean, between.Std*between.Std/1e6
	r.WithinVariance = share(r.WithinVariance, len(means))
	r.Warning = warning(r)
	return r
}

// warning is a sentence for when the workload could not be served, or not in time.
func warning(r *Result) string {
	switch {
	case r.Offered > r.Capacity && r.Unfinished == 0:
		return fmt.Sprintf("overloaded: %.2f was asked for where %.2f can be served, so latency grows for as long as that lasts; all was served by %.0f s",
			r.Offered, r.Capacity, r.End)
	case r.Offered > r.Capacity:
		return fmt.Sprintf("cannot be served: the offered load %.2f exceeds the capacity %.2f; %d of %d activations were left at the end, %.0f s",
			r.Offered, r.Capacity, r.Unfinished, r.Arrivals, r.End)
	case r.Unfinished > 0:
		return fmt.Sprintf("not served in time: %d of %d activations were left at the end, %.0f s; they count with their age",
			r.Unfinished, r.Arrivals, r.End)
	}
	return ""
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func share(sum float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// summarize sorts v in place.
func summarize(v []float64) Latency {
	if len(v) == 0 {
		return Latency{}
	}
	slices.Sort(v)
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	mean := sum / float64(len(v))
	sq := 0.0
	for _, x := range v {
		sq += (x - mean) * (x - mean)
	}
	return Latency{
		Count: len(v), Mean: mean, P50: quantile(v, 0.5), P99: quantile(v, 0.99),
		Std: math.Sqrt(sq / float64(len(v))),
	}
}

// quantile returns the value at rank ceil(q n) of sorted values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(0, min(i, len(sorted)-1))]
}
