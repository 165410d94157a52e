package sim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

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
		t.add(r.function(f))
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
		f, random := Function{Name: t.text(name)}, stream(r.seed, uint64(t.line))
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

// record is what a replay needs of an activation record. Times are in
// milliseconds.
type record struct {
	Namespace   string  `json:"namespace"`
	Name        string  `json:"name"`
	Start       float64 `json:"start"`
	End         float64 `json:"end"`
	Duration    float64 `json:"duration"`
	Annotations []struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	} `json:"annotations"`

	wait, init float64
	path       string
	gpu        struct {
		GPUTime float64 `json:"gpuTime"`
		Memory  float64 `json:"memory"`
	}
}

// maxRecords bounds a file of activation records, which is read whole.
const maxRecords = 4 << 30

// readActivations replays activation records, one JSON document a line or one
// array, in any order. An activation arrived waitTime before its start; its
// work is the GPU time of its gpu annotation, or else its duration less its
// initTime. Initialization times become the function's cold start.
func (r *traceReader) readActivations(file io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(file, maxRecords))
	if err != nil {
		return fmt.Errorf("%s: read: %w", r.File, err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	array := bytes.HasPrefix(bytes.TrimSpace(data), []byte("["))
	if array {
		_, _ = d.Token() // the bracket
	}
	var starts []float64
	for !array || d.More() {
		var a record
		switch err := d.Decode(&a); {
		case errors.Is(err, io.EOF) && !array:
			return r.since(starts)
		case err != nil:
			return fmt.Errorf("%s:%d: not an activation record: %w", r.File, lineOf(data, d, true), err)
		}
		if err := r.record(&a); err != nil {
			return fmt.Errorf("%s:%d: %w", r.File, lineOf(data, d, false), err)
		}
		starts = append(starts, a.Start-a.wait)
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("%s:%d: the array of records is cut off", r.File, lineOf(data, d, false))
	}
	if d.More() {
		return fmt.Errorf("%s:%d: more after the end of the array of records", r.File, lineOf(data, d, true))
	}
	return r.since(starts)
}

// lineOf is the line where the last document ended, or where the next begins.
func lineOf(data []byte, d *json.Decoder, next bool) int {
	end := min(int(d.InputOffset()), len(data))
	if next {
		rest := data[end:]
		end += len(rest) - len(bytes.TrimLeft(rest, ", \t\r\n"))
	}
	return 1 + bytes.Count(data[:end], []byte("\n"))
}

// record adds one activation.
func (r *traceReader) record(a *record) error {
	switch {
	case a.Name == "":
		return errors.New("a record without a name")
	case a.Start <= 0 || a.Start > 1e14:
		return fmt.Errorf("start %v of %s is not a time in ms", a.Start, a.Name)
	case a.Duration < 0 || a.Duration > maxCostMs:
		return fmt.Errorf("duration %v of %s: must lie within 0 and %v ms", a.Duration, a.Name, maxCostMs)
	}
	if a.Duration == 0 && a.End > a.Start {
		a.Duration = a.End - a.Start
	}
	if err := a.annotations(); err != nil {
		return err
	}
	work := max(a.Duration-a.init, 0.001)
	if a.gpu.GPUTime > 0 {
		work = max(a.gpu.GPUTime, 0.001)
	}
	if work > maxCostMs {
		return fmt.Errorf("%s worked %v ms, more than %v", a.Name, work, maxCostMs)
	}
	f := Function{Name: a.path, Namespace: a.Namespace, Memory: int64(r.MemoryEach)}
	if a.gpu.Memory > 0 && a.gpu.Memory < maxBytes {
		f.Memory = int64(a.gpu.Memory)
	}
	return r.activation(f, true, Arrival{Work: ms(work)}, a.init/1000)
}

// annotations takes waitTime, initTime, path and gpu from a record.
func (a *record) annotations() error {
	a.path = a.Namespace + "/" + a.Name
	for _, x := range a.Annotations {
		into, ok := map[string]any{"waitTime": &a.wait, "initTime": &a.init, "path": &a.path, "gpu": &a.gpu}[x.Key]
		if !ok || x.Key == "gpu" && !bytes.HasPrefix(bytes.TrimSpace(x.Value), []byte("{")) {
			continue
		}
		if err := json.Unmarshal(x.Value, into); err != nil {
			return fmt.Errorf("annotation %s of %s: %w", x.Key, a.Name, err)
		}
	}
	for _, v := range []float64{a.wait, a.init, a.gpu.GPUTime} {
		if v < 0 || v > maxTimeMs {
			return fmt.Errorf("a time of %v ms in the annotations of %s", v, a.Name)
		}
	}
	return nil
}
