package scheduler

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// OrderKind is the kind of an order.
type OrderKind uint8

// The orders, each with the fields of Order that it has. Container and Device are set
// wherever there is one, Flow always.
const (
	// Create takes a slot for a new container and HostMB of host memory. Its first
	// run creates it: Invocation, HostMB.
	Create OrderKind = iota
	// Start starts a run in its container: Invocation, Start, FirstRun, Need, Memory,
	// Waited, Charged, Transfer.
	Start
	// Move moves a container's device memory; Moved acknowledges it. A newer Move of the
	// container, its Remove and CancelMove replace it: Move, Footprint.
	Move
	// CancelMove: no acknowledgement of a Move order is awaited any more: Move.
	CancelMove
	// Remove removes a container; Removed acknowledges it.
	Remove
	// Refuse ends an invocation that will never run here: Invocation, Reason, Memory, LargestDevice,
	// Waited.
	Refuse
	// ReclaimHost reclaims host memory that is reserved and not used: HostMB.
	ReclaimHost
	// Served reports a run's use of its device: Invocation, Service, Setup, Memory.
	Served
	// Forget: a flow is inactive and has no container. Figures about it may be dropped.
	Forget
	// Unresponsive: a container does not acknowledge its moves and is removed: Move.
	Unresponsive
	// RemovalOverdue: the removal of a container has not ended in time. The container keeps
	// its memory until it is gone, and no run waits for that memory any more.
	RemovalOverdue

	// Orders is how many there are.
	Orders = int(RemovalOverdue) + 1
)

var orderWords = [Orders]string{
	"create", "start", "move", "cancel move", "remove", "refuse", "reclaim host memory", "served", "forget", "unresponsive",
	"removal overdue",
}

// String returns the order's name in logs and records.
func (d OrderKind) String() string { return word(orderWords[:], uint8(d), "order") }

// Reason is why an invocation is refused.
type Reason uint8

const (
	// TooBig needs more than the largest device has.
	TooBig Reason = iota
	// NoDevice waited for Config.DeviceTimeout while every device that could have served
	// it was lost.
	NoDevice
	// WasWithdrawn was cancelled by its caller.
	WasWithdrawn
	// Overdue was not started before it was due.
	Overdue
	// Unstartable could not be started: its function pauses after failures, the last of which
	// was an Unstartable run of the same revision.
	Unstartable
	// Broken is a contradiction in the ledger, which must not be.
	Broken

	// Reasons is how many there are.
	Reasons = int(Broken) + 1
)

var reasonWords = [Reasons]string{"too big", "no device", "withdrawn", "overdue", "unstartable", "broken"}

// String returns the reason's name in logs and records.
func (r Reason) String() string { return word(reasonWords[:], uint8(r), "reason") }

// Order is one thing to do. Its keys are for logs.
type Order struct {
	Do         OrderKind    `json:"-"`
	Invocation uint64       `json:"invocation,omitempty"`
	Container  Container    `json:"container,omitempty"`
	Device     int          `json:"device,omitempty"`
	Flow       sched.FlowID `json:"-"`
	HostMB     int          `json:"hostMB,omitempty"`

	Start    sched.StartKind   `json:"-"`
	FirstRun bool              `json:"rested,omitempty"`   // no other run is at work in the container
	Need     gpu.MemoryRequest `json:"need,omitzero"`      // what is reserved for the run
	Memory   int64             `json:"memory,omitempty"`   // the most of its container so far, or what is reserved, less contexts
	Waited   time.Duration     `json:"waited,omitempty"`   // from its submission to its token
	Charged  time.Duration     `json:"charged,omitempty"`  // virtual time
	Transfer uint64            `json:"transfer,omitempty"` // epoch of the prefetch that serves the run, 0 for none

	Move      gpu.OrderKind `json:"-"`
	Epoch     uint64        `json:"epoch,omitempty"`
	Bytes     int64         `json:"bytes,omitempty"`     // expected to move
	Again     bool          `json:"again,omitempty"`     // given before under the same epoch
	Footprint int64         `json:"footprint,omitempty"` // the container's memory altogether

	Reason        Reason `json:"-"`
	LargestDevice int64  `json:"largestDevice,omitempty"` // the memory of the largest device

	Service time.Duration `json:"service,omitempty"`
	Setup   time.Duration `json:"setup,omitempty"`
}
