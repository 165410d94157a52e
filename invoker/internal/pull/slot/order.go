package slot

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// OrderKind is the kind of an Order.
type OrderKind int

// The kinds of orders.
const (
	// Acquire has the slot's container made, or resumed; it stays the slot's. It is
	// answered by Acquired or Refused.
	Acquire OrderKind = iota
	// Pause pauses it; Paused answers. Remove removes it, and has no answer.
	Pause
	Remove
	// Put puts a key, and Delete deletes it, however long that takes; Stored and
	// Deleted answer.
	Put
	Delete
	// Fetch asks the slot's scheduler for an activation. Pulled, Empty, Mismatched or
	// QueueGone answers.
	Fetch
	// Leave reports to the scheduler that the slot is gone, so that it answers the
	// fetches that are out. It has no answer.
	Leave
	// Find waits until the slot's queue has a scheduler again; Found answers.
	Find
	// Count counts the function's keys; Counted answers. Without a slot it counts its
	// existing ones for a creation that waits; CountedOpen answers.
	Count
	// Ack answers a creation, with an Error unless the slot is open.
	Ack
)

// String is the order's name.
func (d OrderKind) String() string {
	return [...]string{"acquire", "pause", "remove", "put", "delete", "fetch", "leave", "find", "count", "ack"}[d]
}

// Key is which of a slot's two keys is meant.
type Key int

// Existing is the key of a slot that fetches, Warmed that of a paused one.
const (
	Existing Key = iota
	Warmed
)

// String is the key's name.
func (k Key) String() string { return [...]string{"existing", "warmed"}[k] }

// Order is work outside the table. Creation is the slot's newest creation; in an Ack it is the
// creation to answer.
type Order struct {
	Do       OrderKind
	Slot     ID // 0 in the ack of a creation without a slot
	Creation Creation
	Key      Key // of Put and Delete

	Warmed bool          // of Fetch: its container is initialised, or its memory is on a GPU
	Ended  bool          // of Fetch: a run has ended
	Last   time.Duration // and took so long

	Error  activation.CreationError // of Ack
	Reason string
}
