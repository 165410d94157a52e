package delivery

import (
	"container/list"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Config holds the settings of a Table.
type Config struct {
	InFlight     int   // common permits
	BacklogBytes int64 // memory of the activations that wait for a GPU
	Events       bool  // user events have a reader
}

const (
	// An ack takes milliseconds and a record some hundred milliseconds if all is well.
	// Then the journal gets no end, unless a caller waits for the result. The journal gets
	// the end of an activation whose ack or record is not safe after this time.
	ackTime    = 200 * time.Millisecond
	recordTime = time.Second
	// TickTime is the interval at which the caller calls Tick.
	TickTime = 100 * time.Millisecond
)

// Table holds the accepted activations of one process.
type Table struct {
	cfg Config
	permits
	// fetched has the activations that schedulers handed out.
	fetched map[activation.ID]bool
	// unsafe lists the activations that have ended while an ack or the record may be lost.
	unsafe list.List
	orders []Order // of the present call
}

// New returns an empty table.
func New(cfg Config) *Table { return &Table{cfg: cfg, fetched: map[activation.ID]bool{}} }

// Fetch adds an activation that a scheduler has handed out. It returns false if the table
// has the activation already. The caller stores the message and then calls Deliver.
func (t *Table) Fetch(id activation.ID) bool {
	if t.fetched[id] {
		return false
	}
	t.fetched[id] = true
	return true
}

// Unfetch removes an activation because the journal knows it from this process.
func (t *Table) Unfetch(id activation.ID) { delete(t.fetched, id) }

// Deliver accepts a message for which the caller has reserved a permit. If an earlier process
// has completed the activation, the caller reports Skipped next.
func (t *Table) Deliver(m Arrival) *Activation {
	a := &Activation{Arrival: m}
	t.taken++
	if m.Fetched {
		t.fetched[m.ID] = true
	}
	if m.History.Ended != nil {
		a.persisted = Version(filed) // the journal has it
	}
	return a
}

// Take applies an event and returns its orders. The orders belong to the caller, who may
// carry them out while other goroutines report events.
func (t *Table) Take(now time.Duration, e Event) []Order {
	t.orders = nil
	a := e.Activation
	switch e.Kind {
	case Skipped:
		t.forget(a, completed)
	case Begun:
		t.begin(a)
	case Unwritten:
		if a.begun && a.stage == accepted {
			t.order(CommitBegin, a)
		}
	case Resulted:
		t.result(now, a, e.End)
	case Answered:
		t.answer(now, a, e.End)
	case Filed:
		t.file(now, a, e.End)
	case Ended:
		t.end(now, a, e.End)
	case Acked:
		a.unsent--
		t.settleIfSafe(a)
	case Stored:
		a.unstored = false
		t.settleIfSafe(a)
	case Persisted:
		a.persisted = max(a.persisted, e.Version)
	case Passing:
		t.pass(a)
	case Passed:
		if a.stage == passing {
			t.forget(a, passedOn)
		}
	case Refused:
		t.refused(a)
	case Left:
		if a.stage == accepted || a.stage == passing {
			a.stage = left
			t.release(a)
		}
	case SetApart:
		t.setApart(a, e.Bytes)
	}
	return t.orders
}

// begin logs the start of the run, once. The journal is the log. Without a journal, the
// metadata of Kafka's commit is the log.
func (t *Table) begin(a *Activation) {
	if a.begun || a.stage != accepted {
		return
	}
	a.begun = true
	if a.Journaled {
		t.order(AppendBegin, a)
	} else {
		t.order(CommitBegin, a)
	}
}

// result sends the result to a caller that waits.
func (t *Table) result(now time.Duration, a *Activation, e End) {
	if !a.Blocking || a.stage != accepted {
		return
	}
	a.stage, a.end = resulted, e
	t.show(now, a)
	t.order(SendResult, a)
}

// answer sends the end to the controller and to the readers of events.
func (t *Table) answer(now time.Duration, a *Activation, e End) {
	if a.stage != accepted && a.stage != resulted {
		return
	}
	before := a.stage
	a.stage, a.end = answered, e
	a.store = e.Store && !e.Silent
	t.show(now, a)
	if t.cfg.Events && !e.Silent && !e.Repeated {
		t.order(SendEvent, a)
	}
	if before == resulted || !a.Blocking && !e.Combined {
		t.order(SendCompletion, a)
	} else {
		t.order(SendCombined, a)
	}
	t.order(Report, a)
}

// file stores the complete record and frees the permit. It sends the end first if nobody knows
// the end.
func (t *Table) file(now time.Duration, a *Activation, e End) {
	t.answer(now, a, e)
	if a.stage != answered {
		return
	}
	a.stage, a.end = filed, e
	if a.store {
		t.order(Store, a)
	}
	if (e.Document != nil || !a.store) && len(e.Record.Logs) > 0 { // the lines are in the document, or not stored
		short := *e.Record
		short.Logs = nil
		a.end.Record = &short
	}
	t.settleIfSafe(a)
	t.release(a)
}

// end ends an activation in any state. The end that a caller or the controller has
// already counts; otherwise e.
func (t *Table) end(now time.Duration, a *Activation, e End) {
	switch a.stage {
	case passing:
		a.stage = accepted // nobody else answers it for certain
	case resulted, answered:
		e = a.end
	}
	t.file(now, a, e)
}

// pass gives an activation that has not begun to another invoker. The next process must
// not run an activation that another invoker may have.
func (t *Table) pass(a *Activation) {
	if a.stage != accepted || a.begun {
		return
	}
	a.stage = passing
	if a.offers() {
		t.order(AppendPass, a)
	}
	t.order(Pass, a)
}

// refused takes an activation back that no other invoker took.
func (t *Table) refused(a *Activation) {
	if a.stage != passing {
		return
	}
	a.stage = accepted
	if a.offers() {
		t.order(AppendRefused, a)
	}
}

// forget settles an activation that this process does not end. The activation is settled
// before its end is reported, because its scheduler may hand it out again at once.
func (t *Table) forget(a *Activation, final stage) {
	t.settle(a, final)
	t.order(Report, a)
	t.release(a)
}

// settleIfSafe completes an activation whose acks and record are safe.
func (t *Table) settleIfSafe(a *Activation) {
	if a.stage == filed && a.unsent == 0 && !a.unstored {
		t.settle(a, completed)
	}
}

func (t *Table) settle(a *Activation, final stage) {
	a.stage = final
	if a.listed != nil {
		t.unsafe.Remove(a.listed)
		a.listed = nil
	}
	if a.Fetched {
		delete(t.fetched, a.ID)
	}
	switch {
	case !a.Journaled:
	case final == passedOn && a.Fetched:
		t.order(AppendForget, a)
	default:
		t.order(AppendComplete, a)
	}
	t.order(Commit, a)
}

// show lists an end that others are about to get, unless the next process does not get the
// activation or comes to the same end by itself. The journal gets the end first if a caller
// waits for the result or user events have a reader, because the next process must not send
// another end. An end whose result was shown before is in the journal already.
func (t *Table) show(now time.Duration, a *Activation) {
	if !a.Journaled || a.end.Silent {
		return
	}
	a.since = now
	if a.listed != nil {
		return
	}
	a.listed = t.unsafe.PushBack(a)
	if (a.Blocking || t.cfg.Events) && !a.end.Repeated {
		t.order(AppendEnd, a)
	}
}

// Tick returns orders for the ends that the journal should have by now and does not have.
func (t *Table) Tick(now time.Duration) []Order {
	t.orders = nil
	for e := t.unsafe.Front(); e != nil; e = e.Next() {
		a := e.Value.(*Activation)
		waited := now - a.since
		if waited >= recordTime || waited >= ackTime && a.unsent > 0 {
			t.persistOnce(a)
		}
	}
	return t.orders
}

// Stop returns orders for all ends that may be lost and that the journal does not have.
// The caller calls it when nothing more is sent.
func (t *Table) Stop() []Order {
	t.orders = nil
	for e := t.unsafe.Front(); e != nil; e = e.Next() {
		t.persistOnce(e.Value.(*Activation))
	}
	return t.orders
}

func (t *Table) persistOnce(a *Activation) {
	if a.persisted < Version(a.stage) {
		t.order(AppendEnd, a)
	}
}

// order adds an order. It counts the messages and the record whose arrival the caller
// reports.
func (t *Table) order(k OrderKind, a *Activation) {
	switch k {
	case SendResult, SendCompletion, SendCombined:
		a.unsent++
	case Store:
		a.unstored = true
	}
	if t.orders == nil {
		t.orders = make([]Order, 0, 4)
	}
	t.orders = append(t.orders, Order{Do: k, Activation: a, End: a.end, Version: Version(a.stage)})
}
