// Package gpu holds the types and the single decisions about GPU memory and GPU concurrency:
// the Ledger of memory on a device, Tokens for the number of concurrent runs, the Rule that
// chooses an idle container for removal, and the models of a simulated device (Interference,
// Link). Package gpu/scheduler joins them.
//
// The package is pure. It takes events with the time attached and returns orders; it reads no
// clock and starts no goroutine. Time is a Duration since an epoch of the caller's choice.
// Activations, queues and CUDA are outside its scope.
package gpu

import (
	"cmp"
	"fmt"
)

// Sharing is how a device is divided among the containers that use it.
type Sharing uint8

const (
	// Whole is a complete GPU whose containers take turns by time-slicing.
	Whole Sharing = iota
	// MIGSlice is a hardware partition. It takes one run at a time: several
	// on one slice would only wait for each other (paper, section 5.3).
	MIGSlice
	// MPSShared is a complete GPU whose containers run through one MPS daemon.
	MPSShared
)

// String returns the word used in records, metrics and logs.
func (s Sharing) String() string { return word(uint8(s), "sharing", "whole", "mig", "mps") }

// word returns the name of a number of this kind, or the number itself if it has no name.
func word(n uint8, kind string, words ...string) string {
	if int(n) < len(words) {
		return words[n]
	}
	return fmt.Sprintf("%s(%d)", kind, n)
}

// Device is one schedulable accelerator. The scheduler counts tokens per device, and a
// container is bound to one device for its whole life.
type Device struct {
	// Index is the device's position in the invoker's list, by which schedulers and
	// ledgers know it.
	Index int
	// Card is the driver's number of the GPU that it is, or is a slice of.
	Card int
	// UUID names the device to the container runtime ("GPU-..." or "MIG-...").
	// It is empty for a simulated one.
	UUID string
	// Name is the model, for people.
	Name string
	// MemoryBytes is the device memory that containers may have.
	MemoryBytes int64
	// Sharing is whether it is a whole GPU, a MIG slice or shared by MPS.
	Sharing Sharing
	// Simulated is true when it is no hardware. Whatever shows the device to a
	// person shows this too.
	Simulated bool
}

// String names the device for logs, with the word simulated where it is one.
func (d Device) String() string {
	return fmt.Sprintf("%d (%s)", d.Index, d.described(", simulated"))
}

// Model is the model for people, with the word simulated where it is one.
func (d Device) Model() string { return d.described(" (simulated)") }

func (d Device) described(simulated string) string {
	name := cmp.Or(d.Name, "gpu")
	if d.Simulated {
		return name + simulated
	}
	return name
}

// MaxTokens bounds the runs in flight for a configured D: a MIG slice takes
// one, every other device takes D.
func (d Device) MaxTokens(configured int) int {
	if d.Sharing == MIGSlice {
		return 1
	}
	return configured
}

// Validate returns an error that says why a device is unusable.
func (d Device) Validate() error {
	if d.Index < 0 {
		return fmt.Errorf("device index %d: must not be negative", d.Index)
	}
	if d.MemoryBytes <= 0 {
		return fmt.Errorf("device %d: memory of %d bytes: must be positive", d.Index, d.MemoryBytes)
	}
	return nil
}
