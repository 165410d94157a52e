// Package journal is the account of what became of each activation: accepted,
// started, completed. What was written there before a crash tells afterwards
// which of the activations that Kafka delivers again never ran, which were
// running, and which only need their acks sent again.
//
// It has no opinion on what to do with that knowledge, and owns no goroutine.
// None is the journal that keeps nothing: with it a crash has every activation
// run again that was not completed.
package journal

import "github.com/gpuwhisk/gpuwhisk/activation"

// Journal is told each step of an activation's way, in this order, from any
// goroutine. A call returns when the step is kept; the activation waits for
// that, so a call must be short.
type Journal interface {
	// Accepted comes after the message was decoded and before anything is done
	// for it. Offset is its place on the invoker's topic.
	Accepted(id activation.ID, offset int64)
	// Started comes before the action can have any effect: before /run, and
	// before an /init that runs code of the user.
	Started(id activation.ID)
	// Completed comes when the last ack is with the broker and the record with
	// the database, before the offset may be committed.
	Completed(id activation.ID)
}

// None keeps nothing.
type None struct{}

// Accepted does nothing.
func (None) Accepted(activation.ID, int64) {}

// Started does nothing.
func (None) Started(activation.ID) {}

// Completed does nothing.
func (None) Completed(activation.ID) {}

var _ Journal = None{}
