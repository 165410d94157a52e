package slot

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// OrderKind is the kind of an Order.
type OrderKind int

// The kinds of orders.
const (
	// Acquire makes or resumes the slot's container. Table.Acquired or Table.Refused
	// reports the outcome.
	Acquire OrderKind = iota
	// Pause pauses the slot's container. Table.Paused reports the outcome.
	Pause
	// Remove removes the slot's container. No event reports the outcome.
	Remove
	// Put puts a key into etcd, however long that takes. Table.Stored reports the outcome.
	Put
	// Delete deletes a key from etcd, however long that takes. Table.Deleted reports the
	// outcome.
	Delete
	// Fetch asks the slot's scheduler for an activation. Table.Pulled, Empty, Mismatched or
	// QueueGone reports the outcome.
	Fetch
	// Leave reports to the scheduler that the slot is gone, so that it answers the
	// slot's fetches that wait. No event reports the outcome.
	Leave
	// Find waits until the slot's queue has a scheduler again. Table.Found reports it.
	Find
	// Count counts the function's keys in etcd, and Table.Counted reports the number. Count
	// without a slot counts the keys of existing containers, for a creation that waits, and
	// Table.CountedOpen reports the number.
	Count
	// Ack sends the response to a creation message, with an Error unless the slot is open.
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
