package sim

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	if err := within(inside("--cold-extra", t.ColdExtra, 0, maxCost), inside("--memory-each", t.MemoryEach, 0, maxBytes)); err != nil {
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
	if err := open("--trace", t.File, read); err != nil {
		return nil, err
	}
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

// costs are sums over the activations of a function that no table has, in seconds.
type costs struct {
	unknown      bool // without costs in a table
	work, init   float64
	works, inits int
}

// function adds a function, refusing more than a simulation can take.
func (r *traceReader) function(f Function, unknown bool) error {
	if len(r.functions) >= MaxFunctions {
		return fmt.Errorf("more than %d functions", MaxFunctions)
	}
	r.index[f.Name] = int32(len(r.functions))
	r.functions, r.costs = append(r.functions, f), append(r.costs, costs{unknown: unknown})
	return nil
}

// activation adds an arrival of a function and the duration of its initialization, in seconds.
// A function that the table lacks is added if its costs are learned from the trace, and is
// otherwise refused.
func (r *traceReader) activation(f Function, learn bool, a Arrival, init float64) error {
	fn, ok := r.index[f.Name]
	switch {
	case len(r.arrivals) >= MaxArrivals:
		return fmt.Errorf("more than %d arrivals", MaxArrivals)
	case !ok && !learn:
		return fmt.Errorf("function %s is not in %s", f.Name, r.Functions)
	case !ok:
		if err := r.function(f, true); err != nil {
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

func (r *traceReader) workload() (*Workload, error) {
	if len(r.arrivals) == 0 {
		return nil, fmt.Errorf("%s: no arrivals", r.File)
	}
	for i, c := range r.costs {
		if f := &r.functions[i]; c.unknown {
			f.Warm = max(seconds(share(c.work, c.works)), time.Microsecond)
			f.Cold = f.Warm + r.ColdExtra
			if c.inits > 0 {
				f.Cold = f.Warm + seconds(share(c.init, c.inits))
			}
			f.Cold = min(f.Cold, maxCost)
		}
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

// readFunctions reads the table of functions, in our form or as the Azure 2019
// data set gives its execution times.
func (r *traceReader) readFunctions(file io.Reader) error {
	t := newTable(r.Functions, file)
	name, warm := t.column("function", "func_name", "HashFunction"), t.column("warm_ms", "warm_dur_ms", "Average")
	cold, memory, weight := t.optional("cold_ms", "cold_dur_ms"), t.optional("memory_mb", "mem_mb"), t.optional("weight")
	for t.next() {
		f := Function{Name: t.text(name), Memory: int64(r.MemoryEach)}
		least := t.number(warm, 0.001, maxCostMs)
		f.Warm = max(ms(least), time.Microsecond)
		f.Cold = f.Warm + r.ColdExtra
		if cold >= 0 {
			f.Cold = max(ms(t.number(cold, least, maxCostMs)), f.Warm)
		}
		if memory >= 0 {
			f.Memory = int64(t.number(memory, 0, 1<<24) * mib)
		}
		if weight >= 0 {
			f.Weight = t.number(weight, 0.001, 1000)
		}
		if _, twice := r.index[f.Name]; twice {
			t.fail("function %s twice", f.Name)
		}
		t.add(r.function(f, false))
	}
	return t.err
}

// readPlain reads `arrival_ms,function`, in order of time, against the table
// of functions.
func (r *traceReader) readPlain(file io.Reader) error {
	if r.Functions == "" && !r.NamesOnly {
		return fmt.Errorf("--functions: a plain trace needs the table function,warm_ms,cold_ms,memory_mb[,weight]")
	}
	t := newTable(r.File, file)
	arrival, name := t.column("arrival_ms", "invoke_time_ms"), t.column("function", "func_name")
	last := 0.0
	for t.next() {
		at := t.number(arrival, 0, maxTimeMs)
		if at < last {
			t.fail("arrival_ms %v is before the line above's %v", at, last)
		}
		last = at
		t.add(r.activation(Function{Name: t.text(name), Memory: int64(r.MemoryEach)}, r.NamesOnly, Arrival{At: ms(at)}, 0))
	}
	return t.err
}

// readAzure2019 reads the Azure Functions 2019 invocation counts: one row a
// function, one column a minute. The calls of a minute are spread at random
// within it. Costs come from the functions table, which may be the data set's
// own file of execution times.
func (r *traceReader) readAzure2019(file io.Reader) error {
	if r.Functions == "" {
		return fmt.Errorf("--functions: Azure 2019 counts have no costs: give a table of functions or the data set's function durations")
	}
	t := newTable(r.File, file)
	name, minutes := t.column("HashFunction"), minuteColumns(t)
	for t.next() {
		line, _ := t.rows.FieldPos(0)
		f, random := Function{Name: t.text(name)}, stream(r.seed, uint64(line))
		for m, column := range minutes {
			count := t.number(column, 0, MaxArrivals)
			if count != math.Trunc(count) {
				t.fail("%s: %v calls", t.header[column], count)
			}
			for i := 0; i < int(count) && t.err == nil; i++ {
				at := time.Duration(m)*time.Minute + seconds(random.Float64()*60)
				t.add(r.activation(f, false, Arrival{At: at}, 0))
			}
		}
	}
	return t.err
}

// minuteColumns finds the columns named 1, 2, 3 and so on; a minute is
// sixty thousand milliseconds.
func minuteColumns(t *table) (columns []int) {
	for i, h := range t.header {
		n, err := strconv.Atoi(h)
		if err != nil {
			continue
		}
		if n != len(columns)+1 {
			t.fail("minute column %d where %d should follow", n, len(columns)+1)
		}
		columns = append(columns, i)
		t.header[i] = "minute " + h
	}
	if len(columns) == 0 {
		t.fail("no minute columns 1, 2, 3, ...")
	}
	return columns
}

// readAzure2021 reads the Azure Functions 2021 rows: app, func, end_timestamp
// and duration in seconds. An arrival is end less duration; each keeps its own
// duration. Without a row in the functions table a function is given the mean of
// its durations as warm time.
func (r *traceReader) readAzure2021(file io.Reader) error {
	t := newTable(r.File, file)
	app, function, end, duration := t.column("app"), t.column("func"), t.column("end_timestamp"), t.column("duration")
	var starts []float64
	for t.next() {
		// The data set rounds the shortest runs to nothing.
		took := max(t.number(duration, 0, maxCost.Seconds()), 0.001)
		starts = append(starts, 1000*(t.number(end, 0, maxTime.Seconds())-took))
		f := Function{Name: t.text(app) + "/" + t.text(function), Memory: int64(r.MemoryEach)}
		t.add(r.activation(f, true, Arrival{Work: seconds(took)}, 0))
	}
	return cmp.Or(t.err, r.since(starts))
}
