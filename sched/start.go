package sched

import "fmt"

// StartKind tells what a run found when it was dispatched. Every activation of a
// GPU function carries it in its record.
type StartKind uint8

// The kinds, from the cheapest to the dearest.
const (
	// GPUWarm found a live container whose memory lay on the device.
	GPUWarm StartKind = iota
	// HostWarm found a live container whose memory was swapped to the host
	// (the paper's "GPU-cold but host-warm").
	HostWarm
	// Cold found no container on the device.
	Cold
	// BusyCold found containers of the function there, all in use; the
	// kind of cold start that waiting could have avoided.
	BusyCold

	// StartKinds is the number of kinds, for tables indexed by one.
	StartKinds = int(BusyCold) + 1
)

// String returns the word that records, metrics and reports use.
func (k StartKind) String() string {
	switch k {
	case GPUWarm:
		return "gpu-warm"
	case HostWarm:
		return "host-warm"
	case Cold:
		return "cold"
	case BusyCold:
		return "busy-cold"
	}
	return fmt.Sprintf("start(%d)", uint8(k))
}

// Warm reports whether a live container served the run.
func (k StartKind) Warm() bool { return k == GPUWarm || k == HostWarm }

// ParseStartKind is the inverse of String.
func ParseStartKind(word string) (StartKind, error) {
	for k := GPUWarm; int(k) < StartKinds; k++ {
		if k.String() == word {
			return k, nil
		}
	}
	return 0, fmt.Errorf("start kind %q: not one of gpu-warm, host-warm, cold, busy-cold", word)
}
