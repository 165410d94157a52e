package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// record has the fields of an activation record that a replay needs. Times are in
// milliseconds.
type record struct {
	Namespace   string      `json:"namespace"`
	Name        string      `json:"name"`
	Start       float64     `json:"start"`
	End         float64     `json:"end"`
	Duration    float64     `json:"duration"`
	Annotations annotations `json:"annotations"`
}

// annotations are those of a record that a replay needs.
type annotations struct {
	wait, init float64
	path       string
	gpu        struct {
		GPUTime float64 `json:"gpuTime"`
		Memory  float64 `json:"memory"`
	}
}

func (a *annotations) UnmarshalJSON(data []byte) error {
	var pairs []struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(data, &pairs); err != nil {
		return err
	}
	for _, x := range pairs {
		into, ok := map[string]any{"waitTime": &a.wait, "initTime": &a.init, "path": &a.path, "gpu": &a.gpu}[x.Key]
		if !ok || x.Key == "gpu" && !bytes.HasPrefix(x.Value, []byte("{")) { // an action may have a gpu annotation of its own
			continue
		}
		if err := json.Unmarshal(x.Value, into); err != nil {
			return fmt.Errorf("annotation %s: %w", x.Key, err)
		}
	}
	return nil
}

// readActivations replays activation records, one JSON document a line or one
// array, in any order. An activation arrived waitTime before its start; its
// work is the GPU time of its gpu annotation, or else its duration less its
// initTime. Initialization times become the function's cold start.
func (r *traceReader) readActivations(file io.Reader) error {
	text := bufio.NewReader(file)
	d := json.NewDecoder(text)
	array := isArray(text)
	if array {
		_, _ = d.Token() // the bracket
	}
	var starts []float64
	for n := 1; !array || d.More(); n++ {
		var a record
		switch err := d.Decode(&a); {
		case errors.Is(err, io.EOF) && !array:
			return r.since(starts)
		case err != nil:
			return fmt.Errorf("%s: record %d: not an activation record: %w", r.File, n, err)
		}
		if err := r.record(&a); err != nil {
			return fmt.Errorf("%s: record %d: %w", r.File, n, err)
		}
		starts = append(starts, a.Start-a.Annotations.wait)
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("%s: the array of records is cut off", r.File)
	}
	if d.More() {
		return fmt.Errorf("%s: more after the end of the array of records", r.File)
	}
	return r.since(starts)
}

// isArray reports whether a text begins with a bracket.
func isArray(text *bufio.Reader) bool {
	for {
		switch b, err := text.Peek(1); {
		case err != nil:
			return false
		case b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n':
			_, _ = text.Discard(1)
		default:
			return b[0] == '['
		}
	}
}

// record adds one activation.
func (r *traceReader) record(a *record) error {
	x := &a.Annotations
	if a.Duration == 0 && a.End > a.Start {
		a.Duration = a.End - a.Start
	}
	work := a.Duration - x.init
	if x.gpu.GPUTime > 0 {
		work = x.gpu.GPUTime
	}
	work = max(work, 0.001)
	switch {
	case a.Name == "":
		return errors.New("without a name")
	case a.Start <= 0 || a.Start > 1e14:
		return fmt.Errorf("start %v of %s is not a time in ms", a.Start, a.Name)
	}
	if err := within(
		inside("duration", a.Duration, 0, maxCostMs), inside("work", work, 0, maxCostMs),
		inside("waitTime", x.wait, 0, maxTimeMs), inside("initTime", x.init, 0, maxTimeMs), inside("gpuTime", x.gpu.GPUTime, 0, maxTimeMs),
	); err != nil {
		return fmt.Errorf("%s: %w ms", a.Name, err)
	}
	f := Function{Name: x.path, Namespace: a.Namespace, Memory: int64(r.MemoryEach)}
	if f.Name == "" {
		f.Name = a.Namespace + "/" + a.Name
	}
	if x.gpu.Memory > 0 && x.gpu.Memory < maxBytes {
		f.Memory = int64(x.gpu.Memory)
	}
	return r.activation(f, true, Arrival{Work: ms(work)}, x.init/1000)
}
