package scheduler

import (
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// EventKind is what happened outside of the scheduler.
type EventKind uint8

// The events. Which fields of Event belong to which is said here; an invocation, a
// container or a device that the scheduler does not know makes an event void.
const (
	// Submitted brings an invocation of a function: Invocation, Function, Spilled, Due.
	Submitted EventKind = iota
	// Withdrawn asks for an invocation back. One that has not started ends with a
	// Refuse order, one that has goes on: Invocation.
	Withdrawn
	// Created says that a container exists: Container.
	Created
	// Failed says that a container cannot be used any more. Its runs leave on their
	// own and no others come: Container.
	Failed
	// Initialized says that a container is initialised and takes its full width: Container.
	Initialized
	// Answered says that a run has its answer and its container stays. What follows
	// is bookkeeping and logs: Invocation.
	Answered
	// Ended says that a run needs its token no more, and what its container holds was
	// reported before: Invocation, Keep, Unused, Setup, Ran.
	Ended
	// Left says that a run has left its container. It means Over as well where that
	// was not reported before: Invocation, Keep, Unused, Setup, Ran.
	Left
	// Died says that a container has ended by itself: Container.
	Died
	// Removed says that a Remove order is carried out, and all that the container held
	// is free: Container.
	Removed
	// MemoryReported is what a process of a container says it holds: Container, PID, Usage, Exited.
	MemoryReported
	// Moved ends the outside's work on a Move order. Without OK the order is
	// not carried out, or that is not known: Container, Epoch, Bytes, OK.
	Moved
	// Sampled is what a device shows: Device, Utilization, Used.
	Sampled
	// DeviceLost says that a device cannot be used: Device, Of, Why. Back ends it:
	// Device, Of.
	DeviceLost
	DeviceBack
	// HostReported is the host memory that is left over for containers: Host.
	HostReported
	// Adopted brings a container of a function that an earlier process made on a
	// device and that rests. A Make with the same invocation gives it its container, which is
	// made and initialised; a Remove follows where there is no slot for it. What
	// it holds is reported by MemoryReported: Invocation, Device, Function, Idle.
	Adopted
	// HostGrown says that a container takes so many MiB of host memory now, in Bytes: more
	// than it was made with. What is left over is reported by HostReported.
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

// String returns the event's word in logs and records.
func (k EventKind) String() string {
	if int(k) < EventKinds {
		return eventWords[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Container names one container, from the order that makes it to the news that it is
// gone. The scheduler counts them from 1; 0 is none.
type Container uint64

// Function is what the scheduler must know of the function of an invocation.
type Function struct {
	Flow sched.FlowID
	// Key is equal for invocations that may share a container: it tells revisions apart.
	Key string
	// HostMB is the host memory that a container takes, in MiB.
	HostMB int
	// Memory is the device memory to set aside before a run was measured; 0
	// takes Config.Memory.
	Memory int64
	// NoShim says that no shim reports or moves its device memory.
	NoShim bool
	// Width is how many runs a container takes at once; below 1 counts as 1.
	Width int
	// Weight is the function's own word on its share; 0 counts as 1.
	// Config.Weights rules over it.
	Weight float64
}

// Loss is what is missing of a lost device.
type Loss uint8

// What a device needs to be used: itself, and the daemon by which containers
// share it.
const (
	OfDevice Loss = iota
	OfDaemon
	losses
)

// HostMemory is what host memory is left over for containers, in MiB, after all that
// Make orders took.
type HostMemory struct {
	Free        int // may be taken now
	Reclaimable int // could be freed for containers by a ReclaimHost order, or is on its way
	Needed      int // so much more is waited for outside of the scheduler
}

// Event is one thing that happened, and when. Times never go back: an earlier
// one counts as the latest.
type Event struct {
	At   time.Duration
	Kind EventKind

	Invocation uint64
	Container  Container
	Device     int
	Function   *Function     // read, not kept
	Spilled    bool          // the invocation's body is elsewhere: Bring asks for it
	Due        time.Duration // when no caller waits for the invocation any more; 0 for never
	Idle       time.Duration // for how long a container has rested

	Keep   bool          // the container can be used again
	Unused bool          // the run has not begun and comes again or never
	Setup  time.Duration // making and initialising the container took so long
	Ran    time.Duration // the run proper took so long, 0 if there was none

	PID    int
	Usage  gpu.Usage
	Exited bool

	Epoch uint64
	Bytes int64
	OK    bool

	Utilization float64 // 0 to 1, negative where it is not known
	Used        int64   // bytes, negative where they are not known

	Of   Loss
	Why  string
	Host HostMemory
}
