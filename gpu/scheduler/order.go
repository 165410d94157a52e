package scheduler

import (
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Do is what the outside shall do.
type Do uint8

// The orders. Which fields of Order belong to which is said here; Container and
// Device are set wherever there is one, Flow always.
const (
	// Create takes a slot for a new container and HostMB of host memory. Its first
	// run creates it: Invocation, HostMB.
	Create Do = iota
	// Start starts a run in its container: Invocation, Start, Rested, Need, Memory,
	// Waited, Charged, Transfer.
	Start
	// Move moves a container's device memory; Moved answers. A newer Move of the container,
	// its Remove and Void replace it: Move, Footprint.
	Move
	// CancelMove says that no answer to a Move order is awaited any more: Move.
	CancelMove
	// Remove removes a container; Gone answers.
	Remove
	// Refuse ends an invocation that will never run here: Invocation, Reason, Memory, LargestDevice,
	// Waited.
	Refuse
	// Load asks for the body of a spilled invocation that will run soon: Invocation.
	Load
	// ReclaimHost asks for host memory that others hold and do not use: HostMB.
	ReclaimHost
	// Served is what a run used of its device: Invocation, Service, Setup, Memory.
	Served
	// Forget says that nothing is known of a flow any more. Its figures may go.
	Forget
	// Unresponsive says that a container does not answer about its memory and is given up:
	// Move.
	Unresponsive

	// Orders is how many there are.
	Orders = int(Unresponsive) + 1
)

var orderWords = [Orders]string{
	"create", "start", "move", "cancel move", "remove", "refuse", "load", "reclaim host memory", "served", "forget", "unresponsive",
}

// String returns the order's word in logs and records.
func (d Do) String() string {
	if int(d) < Orders {
		return orderWords[d]
	}
	return fmt.Sprintf("order(%d)", uint8(d))
}

// Reason is why an invocation is refused.
type Reason uint8

const (
	// TooBig asks for more than the largest device has.
	TooBig Reason = iota
	// NoDevice waited for Config.DeviceTimeout while no device was there that could
	// have served it.
	NoDevice
	// WasWithdrawn was taken back by its caller.
	WasWithdrawn
	// Overdue was not started before it was due.
	Overdue
	// Broken is a contradiction in the ledger, which must not be.
	Broken

	// Reasons is how many there are.
	Reasons = int(Broken) + 1
)

var reasonWords = [Reasons]string{"too big", "no device", "withdrawn", "overdue", "broken"}

// String returns the reason's word in logs and records.
func (r Reason) String() string {
	if int(r) < Reasons {
		return reasonWords[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Order is one thing to do.
type Order struct {
	Do         Do
	Invocation uint64
	Container  Container
	Device     int
	Flow       sched.FlowID
	HostMB     int

	Start    sched.StartKind
	Rested   bool          // no other run is at work in the container
	Need     gpu.Need      // what is set aside for the run
	Memory   int64         // what it needs as far as is known, less contexts
	Waited   time.Duration // from its submission to its token
	Charged  time.Duration // virtual time
	Transfer uint64        // epoch of the prefetch that serves the run, 0 for none

	Move      gpu.OrderKind
	Epoch     uint64
	Bytes     int64 // expected to move
	Again     bool  // given before under the same epoch
	Footprint int64 // what the container holds altogether

	Reason        Reason
	LargestDevice int64 // the memory of the largest device

	Service time.Duration
	Setup   time.Duration
}
