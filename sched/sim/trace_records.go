package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

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
}

// gpuAnnotation is the part of a record's gpu annotation that a replay uses.
type gpuAnnotation struct {
	Start        string  `json:"start"`
	GPUTime      float64 `json:"gpuTime"`
	PrefetchTime float64 `json:"prefetchTime"`
	Memory       float64 `json:"memory"`
}

// readActivations replays activation records, one JSON document a line or one
// array, in any order. An activation arrived waitTime before its start; its
// work is the GPU time of its gpu annotation, or else its duration less its
// initTime. Initialization times become the function's cold start.
func (b *book) readActivations() error {
	data, err := io.ReadAll(io.LimitReader(b.trace.Data, 4<<30))
	if err != nil {
		return fmt.Errorf("%s: read: %w", b.trace.Name, err)
	}
	known := len(b.functions)
	var starts []float64
	err = b.eachRecord(data, func(t *table, r record) error {
		at, err := b.record(t, r)
		starts = append(starts, at)
		return err
	})
	if err != nil {
		return err
	}
	if len(starts) == 0 {
		return nil
	}
	first := starts[0]
	for _, s := range starts {
		first = min(first, s)
	}
	for i := range b.arrivals {
		if starts[i]-first > maxTimeMs {
			return fmt.Errorf("%s: records span more than %v", b.trace.Name, maxTime)
		}
		b.arrivals[i].At = ms(starts[i] - first)
		b.horizon = max(b.horizon, b.arrivals[i].At)
	}
	b.learn(known)
	return nil
}

// eachRecord decodes documents one after another; an array's elements count as
// documents of their own.
func (b *book) eachRecord(data []byte, each func(*table, record) error) error {
	at := &table{name: b.trace.Name}
	d := json.NewDecoder(bytes.NewReader(data))
	array := bytes.HasPrefix(bytes.TrimSpace(data), []byte("["))
	if array {
		if _, err := d.Token(); err != nil {
			return err
		}
	}
	for !array || d.More() {
		var r record
		err := d.Decode(&r)
		if err == io.EOF && !array {
			return nil
		}
		at.line = lineOf(data, d, err)
		if err != nil {
			return at.complain("not an activation record: %v", err)
		}
		if err := each(at, r); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return at.complain("the array of records is cut off")
	}
	if d.More() {
		at.line = lineOf(data, d, io.ErrUnexpectedEOF)
		return at.complain("more after the end of the array of records")
	}
	return nil
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
func (b *book) record(t *table, r record) (float64, error) {
	switch {
	case r.Name == "":
		return 0, t.complain("a record without a name")
	case r.Start <= 0 || r.Start > 1e14:
		return 0, t.complain("start %v of %s is not a time in ms", r.Start, r.Name)
	case r.Duration < 0 || r.Duration > maxCostMs:
		return 0, t.complain("duration %v of %s: must lie within 0 and %v ms", r.Duration, r.Name, maxCostMs)
	}
	if r.Duration == 0 && r.End > r.Start {
		r.Duration = r.End - r.Start
	}
	wait, init, name, g, err := annotations(t, r)
	if err != nil {
		return 0, err
	}
	fn, err := b.recorded(t, r, name, g)
	if err != nil {
		return 0, err
	}
	work := max(r.Duration-init, 0.001)
	if g.GPUTime > 0 {
		work = max(g.GPUTime, 0.001)
	}
	if work > maxCostMs {
		return 0, t.complain("%s worked %v ms, more than %v", r.Name, work, maxCostMs)
	}
	b.warm[fn].add(work / 1000)
	if init > 0 {
		b.cold[fn].add(init / 1000)
	}
	return r.Start - wait, b.arrive(t, Arrival{Function: fn, Work: max(ms(work), ms(0.001))})
}

// recorded finds or enters the function of a record.
func (b *book) recorded(t *table, r record, name string, g gpuAnnotation) (int32, error) {
	fn, ok := b.index[name]
	if ok {
		return fn, nil
	}
	f := Function{Name: name, Namespace: r.Namespace, Memory: b.trace.Memory}
	if g.Memory > 0 && g.Memory < 1<<44 {
		f.Memory = int64(g.Memory)
	}
	return b.add(t, f)
}

// annotations takes waitTime, initTime, path and gpu from a record.
func annotations(t *table, r record) (wait, init float64, name string, g gpuAnnotation, err error) {
	name = r.Namespace + "/" + r.Name
	for _, a := range r.Annotations {
		var into any
		switch a.Key {
		case "waitTime":
			into = &wait
		case "initTime":
			into = &init
		case "path":
			into = &name
		case "gpu":
			if strings.HasPrefix(string(bytes.TrimSpace(a.Value)), "{") {
				into = &g
			}
		}
		if into == nil {
			continue
		}
		if err := json.Unmarshal(a.Value, into); err != nil {
			return 0, 0, "", g, t.complain("annotation %s of %s: %v", a.Key, r.Name, err)
		}
	}
	for _, v := range []float64{wait, init, g.GPUTime} {
		if v < 0 || v > maxTimeMs {
			return 0, 0, "", g, t.complain("a time of %v ms in the annotations of %s", v, r.Name)
		}
	}
	return wait, init, name, g, nil
}
