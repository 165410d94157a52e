package nvml

import (
	"fmt"
	"time"
)

// FaultKind is how a fault became known.
type FaultKind uint8

const (
	// XID is an error that the driver also writes to the kernel's log.
	XID FaultKind = iota
	// ECC is a memory error that the hardware could not correct.
	ECC
	// Lost means that the device does not answer any more: it fell off the
	// bus, must be reset, or its driver is gone.
	Lost
	// Found means that a lost device answers again, or that a broken device which still
	// answers has needed no recovery by the driver for a while.
	Found
)

// String returns the name for logs and metrics.
func (k FaultKind) String() string {
	return word(uint8(k), "fault", "xid", "ecc", "lost", "found")
}

// word returns the word for a number, or the kind followed by the number.
func word(n uint8, kind string, words ...string) string {
	if int(n) < len(words) {
		return words[n]
	}
	return fmt.Sprintf("%s(%d)", kind, n)
}

// Severity is the consequence of a fault for the device.
type Severity uint8

const (
	// OfProcess is a fault that a program caused to itself; the device is
	// well.
	OfProcess Severity = iota
	// Degraded is one after which the device goes on, but should be examined.
	Degraded
	// Fatal is one after which nothing should be started on the device until
	// it is found again.
	Fatal
)

// String returns the name for logs and metrics.
func (s Severity) String() string {
	return word(uint8(s), "severity", "process", "degraded", "fatal")
}

// Fault is something that went wrong on a device.
type Fault struct {
	// Device is the index of the gpu.Device.
	Device   int
	At       time.Time
	Kind     FaultKind
	Severity Severity
	// Number is the XID, 0 for other kinds.
	Number uint64
	// Text describes it to a person.
	Text string
}

// xid classifies an error by NVIDIA's list of XID errors. As in NVIDIA's device plugin
// for Kubernetes, every error that is not a program's fault counts as the device's.
func xid(number uint64) (Severity, string) {
	switch number {
	case 13:
		return OfProcess, "graphics engine exception"
	case 31:
		return OfProcess, "memory page fault"
	case 43:
		return OfProcess, "reset of a channel that a program broke"
	case 45:
		return OfProcess, "preemptive cleanup of a program's channels"
	case 68:
		return OfProcess, "video processor exception"
	case 109:
		return OfProcess, "context switch timeout"
	case 63:
		return Degraded, "a memory row or page was retired"
	case 92:
		return Degraded, "high rate of corrected memory errors"
	case 94:
		return Degraded, "memory error contained to the program that met it"
	case 48:
		return Fatal, "uncorrectable memory error"
	case 64:
		return Fatal, "a memory row or page could not be retired"
	case 74:
		return Fatal, "NVLink error"
	case 79:
		return Fatal, "the GPU has fallen off the bus"
	case 95:
		return Fatal, "uncontained memory error"
	case 119, 120:
		return Fatal, "the GPU's system processor does not answer"
	}
	return Fatal, "hardware or driver error"
}

func xidFault(device int, at time.Time, number uint64) Fault {
	severity, text := xid(number)
	return Fault{
		Device: device, At: at, Kind: XID, Severity: severity, Number: number,
		Text: fmt.Sprintf("XID %d: %s", number, text),
	}
}
