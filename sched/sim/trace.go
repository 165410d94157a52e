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
	// and Azure 2019 need one; the others learn costs from their rows and use
	// it where it has the function.
	FunctionsName string
	Functions     io.Reader
	// NamesOnly takes a plain trace without the table, for callers that want
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
	if err := read(); err != nil {
		return nil, err
	}
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
	warm      []average // seconds of functions whose costs the trace has
	cold      []average
}

// average is a running sum.
type average struct {
	sum float64
	n   int
}

func (m *average) add(v float64) { m.sum += v; m.n++ }

// add enters a function, refusing more than a simulation can take.
func (r *traceReader) add(t *table, f Function) int32 {
	if len(r.functions) >= MaxFunctions {
		t.fail("more than %d functions", MaxFunctions)
		return 0
	}
	i := int32(len(r.functions))
	r.index[f.Name] = i
	r.functions = append(r.functions, f)
	r.warm, r.cold = append(r.warm, average{}), append(r.cold, average{})
	return i
}

// arrive enters an arrival.
func (r *traceReader) arrive(t *table, a Arrival) {
	if len(r.arrivals) >= MaxArrivals {
		t.fail("more than %d arrivals", MaxArrivals)
		return
	}
	r.arrivals = append(r.arrivals, a)
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

// readFunctions reads the table of functions, in our form or as the Azure 2019
// data set gives its execution times.
func (r *traceReader) readFunctions() error {
	t := newTable(r.FunctionsName, r.Functions,
		column{"function", []string{"function", "func_name", "HashFunction"}, false},
		column{"warm_ms", []string{"warm_ms", "warm_dur_ms", "Average"}, false},
		column{"cold_ms", []string{"cold_ms", "cold_dur_ms"}, true},
		column{"memory_mb", []string{"memory_mb", "mem_mb"}, true},
		column{"weight", []string{"weight"}, true},
	)
	for t.next() {
		f := r.function(t)
		if _, twice := r.index[f.Name]; twice {
			t.fail("function %s twice", f.Name)
		}
		r.add(t, f)
	}
	return t.err
}

func (r *traceReader) function(t *table) Function {
	f := Function{Name: t.text("function"), Memory: r.Memory}
	warm := t.number("warm_ms", 0.001, maxCostMs)
	f.Warm = max(ms(warm), time.Microsecond)
	f.Cold = f.Warm + r.ColdExtra
	if t.has("cold_ms") {
		f.Cold = max(ms(t.number("cold_ms", warm, maxCostMs)), f.Warm)
	}
	if t.has("memory_mb") {
		f.Memory = int64(t.number("memory_mb", 0, 1<<24) * mib)
	}
	if t.has("weight") {
		f.Weight = t.number("weight", 0.001, 1000)
	}
	return f
}

// readPlain reads `arrival_ms,function`, in order of time, against the table
// of functions.
func (r *traceReader) readPlain() error {
	if r.Functions == nil && !r.NamesOnly {
		return fmt.Errorf("--functions: a plain trace needs the table function,warm_ms,cold_ms,memory_mb[,weight]")
	}
	t := newTable(r.Name, r.Data,
		column{"arrival_ms", []string{"arrival_ms", "invoke_time_ms"}, false},
		column{"function", []string{"function", "func_name"}, false},
	)
	last := 0.0
	for t.next() {
		at := t.number("arrival_ms", 0, maxTimeMs)
		if at < last {
			t.fail("arrival_ms %v is before the line above's %v", at, last)
		}
		last = at
		name := t.text("function")
		fn, ok := r.index[name]
		switch {
		case !ok && r.NamesOnly:
			fn = r.add(t, Function{Name: name, Warm: time.Microsecond, Cold: time.Microsecond, Memory: r.Memory})
		case !ok:
			t.fail("function %s is not in %s", name, r.FunctionsName)
		}
		r.arrive(t, Arrival{At: ms(at), Function: fn})
	}
	return t.err
}

// since enters the arrivals' times, in milliseconds, moved so that the first is
// at zero.
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

// learn gives functions beyond the first known their costs from the trace.
func (r *traceReader) learn(known int) {
	for i := known; i < len(r.functions); i++ {
		f := &r.functions[i]
		f.Warm = max(seconds(r.warm[i].sum/float64(max(1, r.warm[i].n))), time.Microsecond)
		f.Cold = f.Warm + r.ColdExtra
		if r.cold[i].n > 0 {
			f.Cold = f.Warm + seconds(r.cold[i].sum/float64(r.cold[i].n))
		}
		f.Cold = min(f.Cold, maxCost)
	}
}

// known returns the function of a name, entered if it is new.
func (r *traceReader) known(t *table, f Function) int32 {
	if fn, ok := r.index[f.Name]; ok {
		return fn
	}
	return r.add(t, f)
}
