package scheduler

import (
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// EventKind is the kind of an event.
type EventKind uint8

// The events, each with the fields of Event that it has. An event of an unknown
// invocation, container or device is ignored.
const (
	// Submitted is a new invocation of a function: Invocation, Function, Due.
	Submitted EventKind = iota
	// Withdrawn cancels an invocation. If it has not started, a Refuse order follows;
	// otherwise it goes on: Invocation.
	Withdrawn
	// Created: a container exists. This event is for readers of a log: Container.
	Created
	// Failed: a container cannot be used any more. Its runs leave on their own and it
	// gets no others: Container.
	Failed
	// Initialized: a container is initialised and takes as many runs as its width:
	// Container.
	Initialized
	// Answered: a run has its answer and its container can be used again. Bookkeeping and logs
	// follow: Invocation.
	Answered
	// Ended: a run needs its token no more, and the memory of its container was
	// reported before: Invocation, Keep, Unused, Unstartable, Setup, Ran.
	Ended
	// Left: a run has left its container. It means Ended as well where that was not
	// reported before: Invocation, Keep, Unused, Unstartable, Setup, Ran.
	Left
	// Died: a container has ended by itself: Container.
	Died
	// Removed: a Remove order is carried out, and all memory of the container is free:
	// Container.
	Removed
	// MemoryReported is the memory of a process of a container: Container, PID, Usage,
	// Exited.
	MemoryReported
	// Moved ends the work on a Move order. Without OK the order is not carried out, or
	// that is uncertain: Container, Epoch, Bytes, OK.
	Moved
	// Sampled is a reading of a device: Device, Utilization, Used.
	Sampled
	// DeviceLost: a device cannot be used: Device, Of, Why. DeviceBack ends it: Device,
	// Of.
	DeviceLost
	DeviceBack
	// HostReported is the host memory that is left over for containers: Host.
	HostReported
	// Adopted brings an idle container of a function that an earlier process created on a
	// device. A Create order with the same invocation gives the container its number. It
	// counts as created and initialised. A Remove order follows if there is no slot for the
	// container. Its memory is reported by MemoryReported: Invocation, Device, Function, Idle.
	Adopted
	// HostGrown: a container now takes Bytes MiB of host memory, more than at its creation.
	// HostReported reports the remaining host memory.
	HostGrown
	// Tick lets time pass.
	Tick

	// EventKinds is how many there are.
	EventKinds = int(Tick) + 1
)

var eventWords = [EventKinds]string{
	"submitted", "withdrawn", "created", "failed", "initialized", "answered", "ended", "left", "died", "removed",
	"memory", "moved", "sampled", "device lost", "device back", "host memory", "adopted", "host grown", "tick",
}

// String returns the event's name in logs and records.
func (k EventKind) String() string { return word(eventWords[:], uint8(k), "event") }

// word returns the name of a number of this kind, or the number itself if it has no name.
func word(words []string, n uint8, kind string) string {
	if int(n) < len(words) {
		return words[n]
	}
	return fmt.Sprintf("%s(%d)", kind, n)
}

// Container is the number of a container, from the order that creates it to the event
// that it is gone. The scheduler counts them from 1.
type Container = gpu.Container

// Function describes the function of an invocation. Its keys and those of Event are
// for logs.
type Function struct {
	Flow sched.FlowID `json:"-"`
	// Key is equal for invocations that may share a container: it differs for each
	// revision.
	Key string `json:"key"`
	// HostMB is the host memory that a container takes, in MiB.
	HostMB int `json:"hostMB,omitempty"`
	// Memory is the device memory to reserve until a run was measured; 0 takes
	// Config.Memory.
	Memory int64 `json:"memory,omitempty"`
	// NoShim means that no shim reports or moves its device memory.
	NoShim bool `json:"noShim,omitempty"`
	// Width is how many runs a container takes at once; below 1 counts as 1.
	Width int `json:"width,omitempty"`
	// Weight is that of the function's annotation; 0 counts as 1. Config.Weights
	// overrides it.
	Weight float64 `json:"weight,omitempty"`
}

// Loss is the missing part of a lost device.
type Loss uint8

// A device needs these parts to be used: itself, and the daemon through which containers share
// it.
const (
	OfDevice Loss = iota
	OfDaemon
	losses
)

// HostMemory is the host memory left for containers, in MiB, after all Make orders.
type HostMemory struct {
	Free        int // may be taken now
	Reclaimable int // could be freed for containers by a ReclaimHost order, or is being freed
	Needed      int // lacking for containers of other pools
}

// Event is one thing that happened, and when. Times never go back: an earlier
// one counts as the latest.
type Event struct {
	At   time.Duration `json:"at"`
	Kind EventKind     `json:"-"`

	Invocation uint64        `json:"invocation,omitempty"`
	Container  Container     `json:"container,omitempty"`
	Device     int           `json:"device,omitempty"`
	Function   *Function     `json:"-"`              // read, not kept
	Due        time.Duration `json:"due,omitempty"`  // when no caller waits for the invocation any more; 0 for never
	Idle       time.Duration `json:"idle,omitempty"` // for how long a container has been idle

	Keep   bool `json:"keep,omitempty"`   // the container can be used again
	Unused bool `json:"unused,omitempty"` // the run has not begun; its invocation is submitted again or never
	// Unstartable means that the function could not be started, for a reason that holds for
	// any invocation of its revision.
	Unstartable bool          `json:"unstartable,omitempty"`
	Setup       time.Duration `json:"setup,omitempty"` // creating and initialising the container took so long
	Ran         time.Duration `json:"ran,omitempty"`   // the run proper took so long, 0 if there was none

	PID    int       `json:"pid,omitempty"`
	Usage  gpu.Usage `json:"usage,omitzero"`
	Exited bool      `json:"exited,omitempty"`

	Epoch uint64 `json:"epoch,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	OK    bool   `json:"ok,omitempty"`

	Utilization float64 `json:"utilization,omitempty"` // 0 to 1, negative where it is not known
	Used        int64   `json:"used,omitempty"`        // bytes, negative where they are not known

	Of   Loss       `json:"loss,omitempty"`
	Why  string     `json:"why,omitempty"`
	Host HostMemory `json:"host,omitzero"`
}
