package delivery

import (
	"container/list"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Arrival describes a delivered message.
type Arrival struct {
	ID        activation.ID
	Blocking  bool // a caller waits for the result
	Journaled bool // the journal has entries of the activation
	Fetched   bool // a scheduler handed it out; no topic has the message
	History   History
}

// Activation is the state of one accepted activation. Only the Table changes it.
type Activation struct {
	Arrival
	stage    stage
	begun    bool // the action has begun to run in this process
	unsent   int  // acks that the broker does not have yet
	unstored bool // the database does not have the record yet
	store    bool // the record is stored; known from Answered on
	apart    bool // it counts to the GPU backlog instead of the common permits
	bytes    int64

	end       End     // from Resulted on
	persisted Version // the newest version of the end in the journal
	since     time.Duration
	listed    *list.Element // in Table.unsafe, or nil
}

// stage is how far an activation has come.
type stage uint8

const (
	accepted  stage = iota
	resulted        // the caller that waits has the result
	answered        // the controller knows the end
	filed           // the record is complete, and the permit is free
	passing         // another invoker is about to get it
	completed       // the end: all acks and the record are safe
	passedOn        // the end: another invoker has it
	left            // the end: the next process gets it
)

// Version counts the versions of an end: the result, the answer, the complete record.
type Version uint8

// Begun reports whether the action has begun to run in this process.
func (a *Activation) Begun() bool { return a.begun }

// finished reports whether the permit of the activation is free: nothing is left to do
// but to wait for the broker and the database.
func (a *Activation) finished() bool { return a.stage >= filed && a.stage != passing }

// Unsafe reports whether the activation has ended while an ack or its record may be lost.
func (a *Activation) Unsafe() bool { return a.listed != nil }

// offers reports whether a pass needs an entry of its own. If an earlier process had begun
// to run the activation, the journal says that already.
func (a *Activation) offers() bool { return a.Journaled && !a.History.Begun }
