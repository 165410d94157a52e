package sched

import "fmt"

// StartKind says how warm a container a run found when it was dispatched. Every activation of
// a GPU function carries it in its record.
type StartKind uint8

// The kinds, from the cheapest to the dearest.
const (
	// GPUWarm found a live container whose memory was on the device.
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

var startKindNames = [StartKinds]string{"gpu-warm", "host-warm", "cold", "busy-cold"}

// String returns the word that records, metrics and reports use.
func (k StartKind) String() string {
	if int(k) < StartKinds {
		return startKindNames[k]
	}
	return fmt.Sprintf("start(%d)", uint8(k))
}

// Warm reports whether a live container served the run.
func (k StartKind) Warm() bool { return k == GPUWarm || k == HostWarm }
