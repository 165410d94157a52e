// Package nvml uses NVIDIA's management library. It finds the devices of a host, reports
// their properties and modes, samples their utilization and memory, and reports their
// failures. It returns its own types and gpu.Device.
//
// The package never changes a mode, a clock or a MIG slice of a device. The caller
// decides about the queued work of a lost device.
//
// go-nvml needs cgo and loads libnvidia-ml.so.1 at run time. In a build without cgo, or
// for another system than Linux, Open returns ErrNotBuilt. go-nvml stores the library's
// functions in global variables, so a process has one Driver at a time.
//
// A Watcher has a goroutine that samples and a goroutine that waits for events. Its
// Close waits for both.
package nvml

import "errors"

// The errors of Open, and of the limits of control groups. The returned error wraps one of
// these and has the details.
var (
	// ErrNotBuilt means that this program was built without cgo.
	ErrNotBuilt = errors.New("this build has no NVML (it was made without cgo)")
	// ErrNoDriver means that the driver's library is missing or its kernel
	// module is not loaded.
	ErrNoDriver = errors.New("no NVIDIA driver")
	// ErrMismatch means that library and kernel module are of different
	// versions, as after an update without a restart.
	ErrMismatch = errors.New("the NVIDIA library and kernel module are of different versions")
	// ErrNoPermission means that this user may not use the device nodes.
	ErrNoPermission = errors.New("no permission to use the NVIDIA device nodes")
	// ErrNoCgroups means that the driver has no memory limits for control groups: it is
	// older than CUDA 13.4, or the device does not support them.
	ErrNoCgroups = errors.New("the driver has no memory limits for control groups")
)

// Options are where the driver's library is.
type Options struct {
	// Library is the path of libnvidia-ml.so.1; empty lets the system's
	// loader find it.
	Library string
}

// Versions are those of the driver's parts; empty where the driver does not
// report them.
type Versions struct {
	Driver string // such as 580.95.05
	CUDA   string // the newest CUDA that the driver serves, such as 13.0
	NVML   string
}

// Switch is a setting that a device may not have.
type Switch uint8

const (
	// Unknown means that the device or driver does not report it.
	Unknown Switch = iota
	// Off means that the device has it and does not use it.
	Off
	// On means that it is in use.
	On
)

// String returns the name for people and JSON.
func (s Switch) String() string { return word(uint8(s), "switch", "unknown", "off", "on") }

// ComputeMode is which processes may have a context on a device.
type ComputeMode uint8

const (
	// ModeUnknown means that the driver does not report it.
	ModeUnknown ComputeMode = iota
	// ModeDefault lets any number of processes in.
	ModeDefault
	// ModeExclusive lets one process in at a time, an MPS daemon for example.
	ModeExclusive
	// ModeProhibited lets none in.
	ModeProhibited
)

// String returns the name that nvidia-smi uses.
func (m ComputeMode) String() string {
	return word(uint8(m), "mode", "unknown", "Default", "Exclusive_Process", "Prohibited")
}

// Memory is a device's memory in bytes. A number that the driver does not report
// is negative.
type Memory struct {
	// Total is the usable memory, without the driver's own part.
	Total int64
	Free  int64
	Used  int64
}

// unknownBytes stands for a number that the driver does not report.
const unknownBytes = -1

// Process is one process with a context on a device, by its id in the host's
// numbering. Bytes is negative where the driver does not report it.
type Process struct {
	PID   int
	Bytes int64
}

// Card is one physical GPU.
type Card struct {
	// Index is NVML's number, Minor that of /dev/nvidia<Minor>, -1 where it
	// is not known.
	Index, Minor int
	UUID, Name   string
	// Bus is the PCI address, such as 00000000:1A:00.0.
	Bus string
	// Capability is the compute capability, such as 9.0.
	Capability  string
	Memory      Memory
	Mode        ComputeMode
	Persistence Switch
	ECC         Switch
	// MIG reports whether the GPU is divided, MIGPending whether it will be after the
	// next reset. Slices lists its parts.
	MIG, MIGPending Switch
	Slices          []Slice
	// MPS is true when processes run on it through an MPS daemon.
	MPS       bool
	Processes []Process
	// Lost is why the card is not usable, empty while it is.
	Lost string
}

// Slice is one MIG device of a card.
type Slice struct {
	Index                 int
	UUID, Name            string
	Memory                Memory
	GPUInstance, Instance int
}
