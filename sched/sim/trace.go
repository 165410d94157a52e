package sim

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Trace is how to read a workload from files.
type Trace struct {
	Format string // plain, azure2019, azure2021 or activations
	Name   string // of the trace file, for errors
	Data   io.Reader
	// FunctionsName and Functions are the table of functions. The plain form
	// and Azure 2019 need one; the others take costs from their rows, except
	// for functions that the table has.
	FunctionsName string
	Functions     io.Reader
	// NamesOnly takes a plain trace without the table, for callers that need
	// names and times and no costs.
	NamesOnly bool
	// ColdExtra and Memory are the costs that a trace does not have: cold start
	// beyond the warm time, device memory.
	ColdExtra time.Duration
	Memory    int64
	Seed      uint64 // spreads the calls within an Azure 2019 minute
}

// DefaultTrace returns the published defaults: initialization of 3 s, the
// paper's figure for a TensorFlow function (its Figure 1), and 1 GB.
func DefaultTrace() Trace {
	return Trace{Format: "plain", ColdExtra: 3 * time.Second, Memory: gib, Seed: 1}
}

// Read reads the workload. Every error names file and line, or the flag.
func (t Trace) Read() (*Workload, error) {
	if err := t.validate(); err != nil {
		return nil, err
	}
	r := &traceReader{Trace: t, index: make(map[string]int32)}
	if t.Functions != nil {
		if err := r.readFunctions(); err != nil {
			return nil, err
		}
	}
	read := map[string]func() error{
		"plain": r.readPlain, "azure2019": r.readAzure2019, "azure2021": r.readAzure2021, "activations": r.readActivations,
	}[t.Format]
	if read == nil {
		return nil, fmt.Errorf("--trace-format %q: not one of plain, azure2019, azure2021, activations", t.Format)
	}
	known := len(r.functions)
	if err := read(); err != nil {
		return nil, err
	}
	r.learn(known)
	return r.workload()
}

func (t Trace) validate() error {
	switch {
	case t.Data == nil:
		return fmt.Errorf("--trace: no trace given")
	case t.ColdExtra < 0 || t.ColdExtra > maxCost:
		return fmt.Errorf("--cold-extra %v: must lie within 0 and %v", t.ColdExtra, maxCost)
	case t.Memory < 0 || t.Memory > maxBytes:
		return fmt.Errorf("--memory-each %s: must lie within 0 and %s", Bytes(t.Memory), Bytes(maxBytes))
	}
	return nil
}

// traceReader gathers functions and arrivals.
type traceReader struct {
	Trace
	functions []Function
	index     map[string]int32 // of functions by name
	arrivals  []Arrival
	costs     []costs // of each function, as far as the trace has them
}

// costs are sums over the activations of a function, in seconds.
type costs struct {
	work, init   float64
	works, inits int
}

// function adds a function, refusing more than a simulation can take.
func (r *traceReader) function(f Function) error {
	if len(r.functions) >= MaxFunctions {
		return fmt.Errorf("more than %d functions", MaxFunctions)
	}
	r.index[f.Name] = int32(len(r.functions))
	r.functions, r.costs = append(r.functions, f), append(r.costs, costs{})
	return nil
}

// activation adds an arrival of a function and what its initialization took, in
// seconds. A function that the table does not have is refused, or is added where
// its costs are learned from the trace.
func (r *traceReader) activation(f Function, learn bool, a Arrival, init float64) error {
	fn, ok := r.index[f.Name]
	switch {
	case len(r.arrivals) >= MaxArrivals:
		return fmt.Errorf("more than %d arrivals", MaxArrivals)
	case !ok && !learn:
		return fmt.Errorf("function %s is not in %s", f.Name, r.FunctionsName)
	case !ok:
		if err := r.function(f); err != nil {
			return err
		}
		fn = int32(len(r.functions) - 1)
	}
	a.Function = fn
	r.arrivals = append(r.arrivals, a)
	c := &r.costs[fn]
	c.work, c.works = c.work+a.Work.Seconds(), c.works+1
	if init > 0 {
		c.init, c.inits = c.init+init, c.inits+1
	}
	return nil
}

// learn gives functions beyond the first known their costs from the trace.
func (r *traceReader) learn(known int) {
	for i := known; i < len(r.functions); i++ {
		f, c := &r.functions[i], r.costs[i]
		f.Warm = max(seconds(share(c.work, c.works)), time.Microsecond)
		f.Cold = f.Warm + r.ColdExtra
		if c.inits > 0 {
			f.Cold = f.Warm + seconds(share(c.init, c.inits))
		}
		f.Cold = min(f.Cold, maxCost)
	}
}

func (r *traceReader) workload() (*Workload, error) {
	if len(r.arrivals) == 0 {
		return nil, fmt.Errorf("%s: no arrivals", r.Name)
	}
	inOrder(r.arrivals)
	last := r.arrivals[len(r.arrivals)-1].At
	w := &Workload{Name: r.Name, Functions: r.functions, Arrivals: r.arrivals, Horizon: last + time.Millisecond}
	if err := w.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	return w, nil
}

const (
	maxTimeMs = float64(maxTime / time.Millisecond)
	maxCostMs = float64(maxCost / time.Millisecond)
)

// ms turns milliseconds into a duration, rounded to the microsecond.
func ms(v float64) time.Duration { return time.Duration(math.Round(v*1000)) * time.Microsecond }

// since sets the arrivals' times, in milliseconds, moved so that the first is at
// zero.
func (r *traceReader) since(starts []float64) error {
	if len(starts) == 0 {
		return nil
	}
	first := slices.Min(starts)
	for i := range r.arrivals {
		if starts[i]-first > maxTimeMs {
			return fmt.Errorf("%s: records span more than %v", r.Name, maxTime)
		}
		r.arrivals[i].At = ms(starts[i] - first)
	}
	return nil
}
