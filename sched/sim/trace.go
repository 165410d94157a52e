package sim

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Trace is a workload in files. The commands take it as their flags.
type Trace struct {
	File       string        `name:"trace" type:"existingfile" placeholder:"FILE" group:"Trace" help:"Read arrivals from a file instead."`
	Format     string        `name:"trace-format" default:"plain" enum:"plain,azure2019,azure2021,activations" group:"Trace" help:"Form of the file: ${enum}. plain is arrival_ms,function in order of time; activations is one OpenWhisk activation record a line, or an array."`
	Functions  string        `type:"existingfile" placeholder:"FILE" group:"Trace" help:"Table function,warm_ms,cold_ms,memory_mb[,weight]; for azure2019 also the data set's function durations."`
	ColdExtra  time.Duration `default:"3s" group:"Trace" help:"Initialization of functions whose cold time the trace does not have."`
	MemoryEach Bytes         `default:"1GB" group:"Trace" help:"Device memory of functions whose memory the trace does not have."`

	// NamesOnly takes a plain trace without the table of functions, for callers
	// that need names and times and no costs.
	NamesOnly bool `kong:"-"`
}

// Read reads the workload. seed spreads the calls within a minute of Azure 2019.
// Every error names file and line, or the flag.
func (t Trace) Read(seed uint64) (*Workload, error) {
	if err := within([]constraint{
		{"--cold-extra", t.ColdExtra, t.ColdExtra >= 0 && t.ColdExtra <= maxCost, fmt.Sprintf("lie within 0 and %v", maxCost)},
		{"--memory-each", t.MemoryEach, t.MemoryEach >= 0 && t.MemoryEach <= maxBytes, fmt.Sprintf("lie within 0 and %s", Bytes(maxBytes))},
	}); err != nil {
		return nil, err
	}
	r := &traceReader{Trace: t, seed: seed, index: make(map[string]int32)}
	read := map[string]func(io.Reader) error{
		"plain": r.readPlain, "azure2019": r.readAzure2019, "azure2021": r.readAzure2021, "activations": r.readActivations,
	}[t.Format]
	if read == nil {
		return nil, fmt.Errorf("--trace-format %q: not one of plain, azure2019, azure2021, activations", t.Format)
	}
	if t.Functions != "" {
		if err := open("--functions", t.Functions, r.readFunctions); err != nil {
			return nil, err
		}
	}
	known := len(r.functions)
	if err := open("--trace", t.File, read); err != nil {
		return nil, err
	}
	r.learn(known)
	return r.workload()
}

// open reads the file that a flag names.
func open(flag, name string, read func(io.Reader) error) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	defer f.Close()
	return read(f)
}

// traceReader gathers functions and arrivals.
type traceReader struct {
	Trace
	seed      uint64
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
		return fmt.Errorf("function %s is not in %s", f.Name, r.Functions)
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
		return nil, fmt.Errorf("%s: no arrivals", r.File)
	}
	inOrder(r.arrivals)
	last := r.arrivals[len(r.arrivals)-1].At
	w := &Workload{Name: filepath.Base(r.File), Functions: r.functions, Arrivals: r.arrivals, Horizon: last + time.Millisecond}
	if err := w.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", r.File, err)
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
			return fmt.Errorf("%s: records span more than %v", r.File, maxTime)
		}
		r.arrivals[i].At = ms(starts[i] - first)
	}
	return nil
}
