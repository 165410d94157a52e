// Package delivery decides which entries are written and which messages are sent for each
// activation, so that no activation is lost and none runs twice.
//
// A Table holds every activation that the process has accepted and not completed. The
// caller reports events: the activation begins to run, it ends, the broker has its ack,
// the database has its record. The Table answers each event with orders. The caller
// carries out the orders of one event in their order. Entries of the journal come before
// the messages that depend on them: a run waits for its Begin entry, and a caller gets no
// result before the journal has the result.
//
// Every activation leaves the Table in one of three ways. It is completed: the broker has
// its acks and the database its record. It is passed on: another invoker has it. Or it
// stays in the journal and in Kafka for the next process, which reads its History.
//
// The package is pure. The caller serializes the calls.
package delivery

import "github.com/gpuwhisk/gpuwhisk/activation"

// EventKind names an event of an activation.
type EventKind uint8

// The events. An event that the activation's state does not allow has no orders.
const (
	Skipped   EventKind = iota + 1 // an earlier process has completed the activation
	Begun                          // the action is about to run
	Unwritten                      // the journal cannot write that it begins
	Resulted                       // the result is known, and the logs are still being read
	Answered                       // the end is known, and the record is not complete
	Filed                          // the end is known, and the record is complete
	Ended                          // the end by any failure; an end that others know already counts
	Acked                          // the broker has an ack, or refuses it for good
	Stored                         // the database has the record, or refuses it for good
	Persisted                      // the journal has the end
	Passing                        // another invoker is about to get the activation
	Passed                         // another invoker has it
	Refused                        // no other invoker takes it
	Left                           // the next process gets it
	SetApart                       // it waits for a GPU, beside the common permits
)

// Event is an event of one activation.
type Event struct {
	Kind       EventKind
	Activation *Activation
	End        End     // of Resulted, Answered, Filed and Ended
	Version    Version // of Persisted: the version in the order
	Bytes      int64   // of SetApart: the memory of the activation
}

// End describes how an activation ended.
type End struct {
	Record   *activation.Record
	Document []byte // the encoded record, or nil. With it the table keeps no log lines.
	Combined bool   // one combined ack, also for a caller that does not wait
	Store    bool   // the record is stored
	Silent   bool   // no event and no entry: the next process comes to the same end
	Repeated bool   // an earlier process had this end, and has sent the event
	Earlier  bool   // an earlier process is to blame, not this one
}

// OrderKind names an order.
type OrderKind uint8

// The orders. The Append orders are entries of the journal. If the entry before a Pass
// cannot be written, the caller reports Refused and drops the Pass.
const (
	AppendBegin    OrderKind = iota + 1 // the run begins; the run waits for the entry
	AppendPass                          // another invoker may have the activation, and run it
	AppendRefused                       // no other invoker has it
	AppendEnd                           // the end; the caller reports Persisted
	AppendComplete                      // the activation is completed
	AppendForget                        // its scheduler has it back, and may hand it out again
	CommitBegin                         // the same in Kafka's commit, if the journal has no entry
	SendResult                          // to the caller that waits, before the logs are read
	SendEvent                           // to the readers of user events
	SendCompletion                      // to the controller
	SendCombined                        // to the controller, with the result
	Store                               // store the record
	Pass                                // give the activation to another invoker
	Commit                              // report to Kafka's feed that the message is completed
	Report                              // report the end to the parts that wait for it
	Release                             // a permit is free
)

// Order is one step for the caller.
type Order struct {
	Do         OrderKind
	Activation *Activation
	End        End     // of AppendEnd, of messages, of Store and of Report
	Version    Version // of AppendEnd
}
