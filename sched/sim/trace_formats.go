package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// readAzure2019 reads the Azure Functions 2019 invocation counts: one row a
// function, one column a minute. The calls of a minute are spread at random
// within it. Costs come from the functions table, which may be the data set's
// own file of execution times.
func (r *traceReader) readAzure2019() error {
	if r.Functions == nil {
		return fmt.Errorf("--functions: Azure 2019 counts have no costs: give a table of functions or the data set's function durations")
	}
	t := newTable(r.Name, r.Data, column{"function", []string{"HashFunction"}, false})
	minutes := minuteColumns(t)
	for t.next() {
		name := t.text("function")
		fn, ok := r.index[name]
		if !ok {
			t.fail("function %s is not in %s", name, r.FunctionsName)
			break
		}
		r.minutes(t, fn, minutes)
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
	}
	if len(columns) == 0 {
		t.fail("no minute columns 1, 2, 3, ...")
	}
	return columns
}

func (r *traceReader) minutes(t *table, fn int32, columns []int) {
	random := stream(r.Seed, uint64(t.line))
	for m, column := range columns {
		count := t.numberAt(fmt.Sprintf("minute %d", m+1), column, 0, MaxArrivals)
		if count != math.Trunc(count) {
			t.fail("minute %d: %v calls", m+1, count)
		}
		for range int(count) {
			if t.err != nil {
				return
			}
			at := time.Duration(m)*time.Minute + seconds(random.Float64()*60)
			r.arrive(t, Arrival{At: at, Function: fn})
		}
	}
}

// readAzure2021 reads the Azure Functions 2021 rows: app, func, end_timestamp
// and duration in seconds. An arrival is end less duration; each keeps its own
// duration. Without a row in the functions table a function is given the mean of
// its durations as warm time.
func (r *traceReader) readAzure2021() error {
	t := newTable(r.Name, r.Data,
		column{"app", []string{"app"}, false}, column{"func", []string{"func"}, false},
		column{"end_timestamp", []string{"end_timestamp"}, false}, column{"duration", []string{"duration"}, false},
	)
	known := len(r.functions)
	var starts []float64
	for t.next() {
		fn := r.known(t, Function{Name: t.text("app") + "/" + t.text("func"), Memory: r.Memory})
		end := t.number("end_timestamp", 0, maxTime.Seconds())
		// The data set rounds the shortest runs to nothing.
		duration := max(t.number("duration", 0, maxCost.Seconds()), 0.001)
		r.warm[fn].add(duration)
		r.arrive(t, Arrival{Function: fn, Work: seconds(duration)})
		starts = append(starts, 1000*(end-duration))
	}
	if t.err != nil {
		return t.err
	}
	r.learn(known)
	return r.since(starts)
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
func (r *traceReader) readActivations() error {
	data, err := io.ReadAll(io.LimitReader(r.Data, maxRecords))
	if err != nil {
		return fmt.Errorf("%s: read: %w", r.Name, err)
	}
	known := len(r.functions)
	t := &table{name: r.Name}
	starts := r.records(t, data)
	if t.err != nil {
		return t.err
	}
	r.learn(known)
	return r.since(starts)
}

// records decodes documents one after another; an array's elements count as
// documents of their own.
func (r *traceReader) records(t *table, data []byte) (starts []float64) {
	d := json.NewDecoder(bytes.NewReader(data))
	array := bytes.HasPrefix(bytes.TrimSpace(data), []byte("["))
	if array {
		_, _ = d.Token() // the bracket that was seen
	}
	for t.err == nil && (!array || d.More()) {
		var a record
		err := d.Decode(&a)
		if errors.Is(err, io.EOF) && !array {
			return starts
		}
		t.line = lineOf(data, d, err)
		if err != nil {
			t.fail("not an activation record: %w", err)
			return nil
		}
		starts = append(starts, r.record(t, a))
	}
	if _, err := d.Token(); err != nil {
		t.fail("the array of records is cut off")
	} else if d.More() {
		t.line = lineOf(data, d, io.ErrUnexpectedEOF)
		t.fail("more after the end of the array of records")
	}
	return starts
}

// lineOf is the line where the last document ended, or where the one begins
// that could not be read.
func lineOf(data []byte, d *json.Decoder, err error) int {
	end := min(int(d.InputOffset()), len(data))
	if err != nil {
		rest := data[end:]
		end += len(rest) - len(bytes.TrimLeft(rest, ", \t\r\n"))
	}
	return 1 + bytes.Count(data[:end], []byte("\n"))
}

// record enters one activation and returns its arrival in milliseconds.
func (r *traceReader) record(t *table, a record) float64 {
	switch {
	case a.Name == "":
		t.fail("a record without a name")
	case a.Start <= 0 || a.Start > 1e14:
		t.fail("start %v of %s is not a time in ms", a.Start, a.Name)
	case a.Duration < 0 || a.Duration > maxCostMs:
		t.fail("duration %v of %s: must lie within 0 and %v ms", a.Duration, a.Name, maxCostMs)
	}
	if a.Duration == 0 && a.End > a.Start {
		a.Duration = a.End - a.Start
	}
	a.annotations(t)
	work := max(a.Duration-a.init, 0.001)
	if a.gpu.GPUTime > 0 {
		work = max(a.gpu.GPUTime, 0.001)
	}
	if work > maxCostMs {
		t.fail("%s worked %v ms, more than %v", a.Name, work, maxCostMs)
	}
	f := Function{Name: a.path, Namespace: a.Namespace, Memory: r.Memory}
	if a.gpu.Memory > 0 && a.gpu.Memory < maxBytes {
		f.Memory = int64(a.gpu.Memory)
	}
	fn := r.known(t, f)
	r.warm[fn].add(work / 1000)
	if a.init > 0 {
		r.cold[fn].add(a.init / 1000)
	}
	r.arrive(t, Arrival{Function: fn, Work: ms(work)})
	return a.Start - a.wait
}

// annotations takes waitTime, initTime, path and gpu from a record.
func (a *record) annotations(t *table) {
	a.path = a.Namespace + "/" + a.Name
	for _, x := range a.Annotations {
		into, ok := map[string]any{"waitTime": &a.wait, "initTime": &a.init, "path": &a.path, "gpu": &a.gpu}[x.Key]
		if !ok || x.Key == "gpu" && !bytes.HasPrefix(bytes.TrimSpace(x.Value), []byte("{")) {
			continue
		}
		if err := json.Unmarshal(x.Value, into); err != nil {
			t.fail("annotation %s of %s: %w", x.Key, a.Name, err)
		}
	}
	for _, v := range []float64{a.wait, a.init, a.gpu.GPUTime} {
		if v < 0 || v > maxTimeMs {
			t.fail("a time of %v ms in the annotations of %s", v, a.Name)
		}
	}
}
