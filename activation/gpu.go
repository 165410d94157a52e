package activation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// GPUAnnotation is the key of an action's request for a GPU, and of the GPURun in its
// records.
const GPUAnnotation = "gpu"

// How much of the interposition shim an action gets.
const (
	ShimManaged = "managed" // memory is counted, and the driver moves it
	ShimVMM     = "vmm"     // memory is counted, and the shim moves it by copies
	ShimCount   = "count"   // memory is counted only
	ShimOff     = "off"
)

// GPURequest is the request in an action's gpu annotation.
type GPURequest struct {
	Memory      Size    // hint for the first run, zero for none
	Weight      float64 // share of service against other functions
	Shim        string  // how device memory is handled; empty: as the invoker is configured
	Limit       Size    // most device memory that a container may hold, zero for none
	Concurrency int     // runs in one container at a time; zero: the action's limit
}

// defaultGPURequest returns the request of the plain annotation true.
func defaultGPURequest() GPURequest {
	return GPURequest{Weight: 1}
}

// ShimMoves reports whether device memory moves to the host in a mode of the shim.
func ShimMoves(mode string) bool { return mode == ShimManaged || mode == ShimVMM }

// GPUError is a malformed gpu annotation. Its text is for the action's author: it repeats
// what the author wrote, so it belongs in no trace or log. Cause is for those.
type GPUError struct {
	Key     string // empty when the annotation itself is wrong
	Given   string
	Allowed string
}

// Error names the key, the given value and the allowed values.
func (e *GPUError) Error() string {
	what := "annotation gpu"
	if e.Key != "" {
		what += ": key " + e.Key
	}
	return fmt.Sprintf("%s: given %s, allowed is %s", what, e.Given, e.Allowed)
}

// Cause says what is wrong without any text of the annotation.
func (e *GPUError) Cause() string {
	what := "annotation gpu"
	if slices.Contains(gpuMembers, e.Key) {
		what += ": key " + e.Key
	}
	return what + ": allowed is " + e.Allowed
}

// gpuMembers are the keys of the annotation.
var gpuMembers = []string{"memory", "weight", "shim", "limit", "concurrency"}

const gpuKeys = "true, false, or an object with the keys memory, weight, shim, limit, concurrency"

// GPU reads the gpu annotation of an action: nil when there is none or it is
// false. The error is a *GPUError.
func (a Annotations) GPU() (*GPURequest, error) {
	value, ok := a.Get(GPUAnnotation)
	if !ok {
		return nil, nil
	}
	switch string(value) {
	case "true":
		g := defaultGPURequest()
		return &g, nil
	case "false":
		return nil, nil
	}
	if len(value) == 0 || value[0] != '{' {
		return nil, &GPUError{Given: describeValue(value), Allowed: gpuKeys}
	}
	members, err := Members(value)
	if err != nil {
		return nil, &GPUError{Given: "no readable object", Allowed: gpuKeys}
	}
	g := defaultGPURequest()
	for _, m := range members {
		if err := g.set(m); err != nil {
			return nil, err
		}
	}
	return &g, nil
}

func (g *GPURequest) set(m Member) error {
	p := newParser(m.Value)
	ok, allowed := false, ""
	switch m.Key {
	case "memory":
		allowed = `a size above zero such as "4 GB"`
		g.Memory = p.size()
		ok = g.Memory > 0
	case "limit":
		allowed = `a size above zero such as "4 GB"`
		g.Limit = p.size()
		ok = g.Limit > 0
	case "weight":
		allowed = "a number above 0, at most 1000"
		g.Weight, ok = p.weight()
	case "shim":
		words := []string{ShimManaged, ShimVMM, ShimCount, ShimOff}
		allowed = strings.Join(words, ", ")
		g.Shim = p.str()
		ok = slices.Contains(words, g.Shim)
	case "concurrency":
		allowed = "a whole number from 1 to 500"
		g.Concurrency = p.wholeInt()
		ok = g.Concurrency >= 1 && g.Concurrency <= 500
	default:
		return &GPUError{Key: quoted(m.Key), Given: describeValue(m.Value), Allowed: "only the keys memory, weight, shim, limit, concurrency"}
	}
	if p.err != nil || !ok {
		return &GPUError{Key: m.Key, Given: describeValue(m.Value), Allowed: allowed}
	}
	return nil
}

// maxGPUWeight keeps one action from drowning all others.
const maxGPUWeight = 1000

func (p *parser) weight() (float64, bool) {
	if p.peek() != '0' {
		return 0, false
	}
	var w float64
	err := json.Unmarshal([]byte(p.number()), &w)
	return w, err == nil && w > 0 && w <= maxGPUWeight
}

// maxGiven bounds how much of a wrong value an error repeats.
const maxGiven = 60

func describeValue(value json.RawMessage) string {
	text := string(value)
	if len(text) > maxGiven {
		text = strings.ToValidUTF8(text[:maxGiven], "") + "..."
	}
	return text
}

func quoted(key string) string { return describeValue(AppendString(nil, key)) }

// GPURun describes a GPU run in its record. Times are in milliseconds, memory is in
// bytes.
type GPURun struct {
	Device       string
	Start        string // gpu-warm, host-warm, cold or busy-cold
	QueueTime    int64
	PrefetchTime int64
	GPUTime      int64
	Memory       int64
	// Measured is whether the memory was measured; else it is what was reserved for
	// the run.
	Measured bool `json:"memoryMeasured"`
	// Fallback is why the memory is only counted though the action lets it be
	// moved; mostly empty.
	Fallback string
}

// GPURun reads that annotation; false where there is none that has a start.
func (a Annotations) GPURun() (run GPURun, ok bool) {
	value, _ := a.Get(GPUAnnotation)
	_ = json.Unmarshal(value, &run) // a foreign annotation may have any form
	return run, run.Start != ""
}

// Start is how the run of a record started: as a GPU run has it, else cold if it was
// initialized, else warm.
func (a Annotations) Start() string {
	if run, ok := a.GPURun(); ok {
		return run.Start
	}
	if _, cold := a.Get("initTime"); cold {
		return "cold"
	}
	return "warm"
}

// Annotation writes the run as the annotation of its record.
func (g GPURun) Annotation() Annotation {
	o := newObject(nil)
	o.str("device", g.Device)
	if g.Fallback != "" {
		o.str("fallback", g.Fallback)
	}
	o.int("gpuTime", g.GPUTime)
	o.int("memory", g.Memory)
	o.bool("memoryMeasured", g.Measured)
	o.int("prefetchTime", g.PrefetchTime)
	o.int("queueTime", g.QueueTime)
	o.str("start", g.Start)
	return Annotation{GPUAnnotation, o.end()}
}
