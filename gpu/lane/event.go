package lane

import (
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// EventKind is what happened outside of the lane.
type EventKind uint8

// The events. Which fields of Event belong to which is said here; an item, a
// box or a device that the lane does not know makes an event void.
const (
	// Submitted brings an item of a function: Item, Function, Parked, Due.
	Submitted EventKind = iota
	// Withdrawn asks for an item back. One that has not started ends with a
	// Refuse order, of one that has nothing is heard: Item.
	Withdrawn
	// Made says that a box's container exists: Box.
	Made
	// Failed says that a box cannot be used any more. Its runs leave on their
	// own; nobody new comes: Box.
	Failed
	// Warmed says that a box is initialised and takes its full width: Box.
	Warmed
	// Answered says that a run has its answer and its box stays. What follows
	// is the books and the logs: Item.
	Answered
	// Over says that a run needs its token no more, and what its box holds was
	// heard before: Item, Keep, Unused, Setup, Ran.
	Over
	// Left says that a run has left its box. It means Over as well where that
	// was not told before: Item, Keep, Unused, Setup, Ran.
	Left
	// Died says that a box's container has ended by itself: Box.
	Died
	// Gone says that a Remove order is carried out, and all that the box held
	// is free: Box.
	Gone
	// Held is what a process of a box says it holds: Box, PID, Usage, Exited.
	Held
	// Moved ends the outside's work on a Move order. Without OK the order is
	// not carried out or nobody knows: Box, Epoch, Bytes, OK.
	Moved
	// Observed is what a device shows: Device, Utilization, Used.
	Observed
	// Lost says that a device cannot be used: Device, Of, Why. Back ends it:
	// Device, Of.
	Lost
	Back
	// Host is the host memory that is left over for boxes: Host.
	Host
	// Adopted brings a container of a function that an earlier process made on a
	// device and that rests. A Make with the same item gives it its box, which is
	// made and initialised; a Remove follows where there is no place for it. What
	// it holds is told by Held: Item, Device, Function, Idle.
	Adopted
	// Grown says that a box takes so many MiB of host memory now, in Bytes: more
	// than it was made with. What is left over is told by Host.
	Grown
	// Tick lets time pass.
	Tick

	// EventKinds is how many there are.
	EventKinds = int(Tick) + 1
)

var eventWords = [EventKinds]string{
	"submitted", "withdrawn", "made", "failed", "warmed", "answered", "over", "left", "died", "gone",
	"held", "moved", "observed", "lost", "back", "host", "adopted", "grown", "tick",
}

// String returns the event's word in logs and records.
func (k EventKind) String() string {
	if int(k) < EventKinds {
		return eventWords[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Box names one container, from the order that makes it to the news that it is
// gone. The lane counts them from 1; 0 is none.
type Box uint64

// Function is what the lane must know of the function of an item.
type Function struct {
	Flow sched.FlowID
	// Key is equal for items that may share a box: it tells revisions apart.
	Key string
	// HostMB is the host memory that a box takes, in MiB.
	HostMB int
	// Memory is the device memory to set aside before a run was measured; 0
	// takes Config.Memory.
	Memory int64
	// Unseen says that nobody sees or moves its device memory.
	Unseen bool
	// Width is how many runs a box takes at once; below 1 counts as 1.
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

// HostMemory is what host memory is left over for boxes, in MiB, after all that
// Make orders took.
type HostMemory struct {
	Free    int // may be taken now
	Spare   int // could be freed for boxes by a Room order, or is on its way
	Lacking int // somebody outside of the lane waits for so much more
}

// Event is one thing that happened, and when. Times never go back: an earlier
// one counts as the latest heard.
type Event struct {
	At   time.Duration
	Kind EventKind

	Item     uint64
	Box      Box
	Device   int
	Function *Function     // read, not kept
	Parked   bool          // the item's body is elsewhere: Bring asks for it
	Due      time.Duration // when nobody waits for the item any more; 0 for never
	Idle     time.Duration // for how long a box has rested

	Keep   bool          // the box can be used again
	Unused bool          // the run has not begun and comes again or never
	Setup  time.Duration // making and initialising the box took so long
	Ran    time.Duration // the run proper took so long, 0 if there was none

	PID    int
	Usage  gpu.Usage
	Exited bool

	Epoch uint64
	Bytes int64
	OK    bool

	Utilization float64 // 0 to 1, negative where nobody says
	Used        int64   // bytes, negative where nobody says

	Of   Loss
	Why  string
	Host HostMemory
}
