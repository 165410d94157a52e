package sim

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Trace says how to read a workload from files.
type Trace struct {
	Format string // one of TraceFormats
	Name   string // of the trace file, for errors
	Data   io.Reader
	// FunctionsName and Functions are the table of functions. The plain form
	// and Azure 2019 need one; the others learn costs from their rows and use
	// it where it has the function.
	FunctionsName string
	Functions     io.Reader
	// NamesOnly takes a plain trace without the table: who wants only the
	// names and the times needs no costs.
	NamesOnly bool
	// Defaults are the costs of what a trace does not tell: cold start beyond
	// the warm time, memory.
	ColdExtra time.Duration
	Memory    int64
	Seed      uint64 // places the calls within an Azure 2019 minute
}

// DefaultTrace returns the published defaults: initialization of 3 s, the
// paper's figure for a TensorFlow function (its Figure 1), and 1 GB.
func DefaultTrace() Trace {
	return Trace{Format: "plain", ColdExtra: 3 * time.Second, Memory: gib, Seed: 1}
}

// TraceFormats lists the forms of traces.
func TraceFormats() []string { return []string{"plain", "azure2019", "azure2021", "activations"} }

// Read reads the workload. Every error names file and line, or the flag.
func (t Trace) Read() (*Workload, error) {
	if t.Data == nil {
		return nil, fmt.Errorf("--trace: no trace given")
	}
	if t.ColdExtra < 0 || t.ColdExtra > maxCost {
		return nil, fmt.Errorf("--cold-extra %v: must lie within 0 and %v", t.ColdExtra, maxCost)
	}
	if t.Memory < 0 || t.Memory > maxBytes {
		return nil, fmt.Errorf("--memory-each %s: must lie within 0 and %s", Bytes(t.Memory), Bytes(maxBytes))
	}
	b := &book{trace: t, index: make(map[string]int32)}
	if t.Functions != nil {
		if err := b.readFunctions(); err != nil {
			return nil, err
		}
	}
	var err error
	switch t.Format {
	case "plain":
		err = b.readPlain()
	case "azure2019":
		err = b.readAzure2019()
	case "azure2021":
		err = b.readAzure2021()
	case "activations":
		err = b.readActivations()
	default:
		return nil, fmt.Errorf("--trace-format %q: not one of %s", t.Format, strings.Join(TraceFormats(), ", "))
	}
	if err != nil {
		return nil, err
	}
	return b.workload()
}

// book gathers functions and arrivals while a trace is read.
type book struct {
	trace     Trace
	functions []Function
	index     map[string]int32
	arrivals  []Arrival
	horizon   time.Duration
	warm      []average // of functions whose costs the trace tells
	cold      []average
}

// average is a running sum.
type average struct {
	sum float64
	n   int
}

func (m *average) add(v float64) { m.sum += v; m.n++ }

// add enters a function, refusing more than a simulation can hold.
func (b *book) add(t *table, f Function) (int32, error) {
	if len(b.functions) >= MaxFunctions {
		return 0, t.complain("more than %d functions", MaxFunctions)
	}
	i := int32(len(b.functions))
	b.index[f.Name] = i
	b.functions = append(b.functions, f)
	b.warm, b.cold = append(b.warm, average{}), append(b.cold, average{})
	return i, nil
}

// arrive enters an arrival.
func (b *book) arrive(t *table, a Arrival) error {
	if len(b.arrivals) >= MaxArrivals {
		return t.complain("more than %d arrivals", MaxArrivals)
	}
	b.arrivals = append(b.arrivals, a)
	b.horizon = max(b.horizon, a.At)
	return nil
}

func (b *book) workload() (*Workload, error) {
	if len(b.arrivals) == 0 {
		return nil, fmt.Errorf("%s: no arrivals", b.trace.Name)
	}
	w := &Workload{Name: b.trace.Name, Functions: b.functions, Arrivals: b.arrivals, Horizon: b.horizon + time.Millisecond}
	inOrder(w.Arrivals)
	if err := w.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", b.trace.Name, err)
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
func (b *book) readFunctions() error {
	t, err := newTable(b.trace.FunctionsName, b.trace.Functions, map[string][]string{
		"function":   {"function", "func_name", "HashFunction"},
		"warm_ms":    {"warm_ms", "warm_dur_ms", "Average"},
		"cold_ms?":   {"cold_ms", "cold_dur_ms"},
		"memory_mb?": {"memory_mb", "mem_mb"},
		"weight?":    {"weight"},
	})
	if err != nil {
		return err
	}
	for {
		ok, err := t.next()
		if !ok || err != nil {
			return err
		}
		f, err := b.function(t)
		if err != nil {
			return err
		}
		if _, twice := b.index[f.Name]; twice {
			return t.complain("function %s twice", f.Name)
		}
		if _, err := b.add(t, f); err != nil {
			return err
		}
	}
}

func (b *book) function(t *table) (Function, error) {
	f := Function{Memory: b.trace.Memory}
	var err error
	if f.Name, err = t.text("function"); err != nil {
		return f, err
	}
	warm, err := t.number("warm_ms", 0.001, maxCostMs)
	if err != nil {
		return f, err
	}
	f.Warm = max(ms(warm), time.Microsecond)
	f.Cold = f.Warm + b.trace.ColdExtra
	if t.has("cold_ms") {
		cold, err := t.number("cold_ms", warm, maxCostMs)
		if err != nil {
			return f, err
		}
		f.Cold = max(ms(cold), f.Warm)
	}
	if t.has("memory_mb") {
		mb, err := t.number("memory_mb", 0, 1<<24)
		if err != nil {
			return f, err
		}
		f.Memory = int64(mb * mib)
	}
	if t.has("weight") {
		if f.Weight, err = t.number("weight", 0.001, 1000); err != nil {
			return f, err
		}
	}
	return f, nil
}

// readPlain reads `arrival_ms,function`, in order of time, against the table
// of functions.
func (b *book) readPlain() error {
	if b.trace.Functions == nil && !b.trace.NamesOnly {
		return fmt.Errorf("--functions: a plain trace needs the table function,warm_ms,cold_ms,memory_mb[,weight]")
	}
	t, err := newTable(b.trace.Name, b.trace.Data, map[string][]string{
		"arrival_ms": {"arrival_ms", "invoke_time_ms"},
		"function":   {"function", "func_name"},
	})
	if err != nil {
		return err
	}
	for last := 0.0; ; {
		ok, err := t.next()
		if !ok || err != nil {
			return err
		}
		at, err := t.number("arrival_ms", 0, maxTimeMs)
		if err != nil {
			return err
		}
		if at < last {
			return t.complain("arrival_ms %v is before the line above's %v", at, last)
		}
		last = at
		name, err := t.text("function")
		if err != nil {
			return err
		}
		fn, ok := b.index[name]
		if !ok && b.trace.NamesOnly {
			if fn, err = b.add(t, Function{Name: name, Warm: time.Microsecond, Cold: time.Microsecond, Memory: b.trace.Memory}); err != nil {
				return err
			}
		} else if !ok {
			return t.complain("function %s is not in %s", name, b.trace.FunctionsName)
		}
		if err := b.arrive(t, Arrival{At: ms(at), Function: fn}); err != nil {
			return err
		}
	}
}
