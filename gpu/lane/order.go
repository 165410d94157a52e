package lane

import (
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/start"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Do is what the outside shall do.
type Do uint8

// The orders. Which fields of Order belong to which is said here; Box and
// Device are set wherever there is one, Flow always.
const (
	// Make takes a place for a new box and HostMB of host memory. The box's
	// container is created by its first run: Item, HostMB.
	Make Do = iota
	// Start starts a run in its box: Item, Start, Rested, Need, Memory,
	// Waited, Charged, Transfer.
	Start
	// Move moves a box's device memory; Moved answers. A newer Move of the box,
	// its Remove and Void replace it: Move, Footprint.
	Move
	// Void says that a Move order is void: nobody waits for its answer. Move.
	Void
	// Remove removes a box; Gone answers.
	Remove
	// Refuse ends an item that will never run here: Item, Reason, Memory, Most,
	// Waited.
	Refuse
	// Bring asks for the body of a parked item, whose turn is near: Item.
	Bring
	// Room asks for host memory that others hold and do not use: HostMB.
	Room
	// Served tells what a run used of its device: Item, Service, Setup, Memory.
	Served
	// Forget says that nothing is known of a flow any more. Its figures may go.
	Forget
	// Mute says that a box does not answer about its memory and is given up:
	// Move.
	Mute

	// Orders is how many there are.
	Orders = int(Mute) + 1
)

var orderWords = [Orders]string{
	"make", "start", "move", "void", "remove", "refuse", "bring", "room", "served", "forget", "mute",
}

// String returns the order's word in logs and records.
func (d Do) String() string {
	if int(d) < Orders {
		return orderWords[d]
	}
	return fmt.Sprintf("order(%d)", uint8(d))
}

// Reason is why an item is refused.
type Reason uint8

const (
	// TooBig asks for more than the largest device has.
	TooBig Reason = iota
	// NoDevice waited for Config.Patience while no device was there that could
	// have served it.
	NoDevice
	// WasWithdrawn was taken back by who submitted it.
	WasWithdrawn
	// Overdue was not started before it was due.
	Overdue
	// Broken is a contradiction in the books, which must not be.
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
	Do     Do
	Item   uint64
	Box    Box
	Device int
	Flow   sched.FlowID
	HostMB int

	Start    start.Kind
	Rested   bool          // nobody is at work in the box
	Need     gpu.Need      // what is set aside for the run
	Memory   int64         // what it needs as far as is known, less contexts
	Waited   time.Duration // from its submission to its token
	Charged  time.Duration // virtual time
	Transfer uint64        // epoch of the prefetch that serves the run, 0 for none

	Move      gpu.OrderKind
	Epoch     uint64
	Bytes     int64 // expected to move
	Again     bool  // given before under the same epoch
	Footprint int64 // what the box holds altogether

	Reason Reason
	Most   int64 // the memory of the largest device

	Service time.Duration
	Setup   time.Duration
}
