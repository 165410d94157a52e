package scheduler

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// A scheduler's log is lines of JSON: first the settings, then each event as it
// was taken, and after each Ready its orders. Fed to a scheduler by a Replay it
// gives the same orders, byte for byte. Keys of functions are written as digests:
// they may be secret, and the scheduler only compares them.

// logVersion is in a log's first line. It changes when old logs cannot be read or no longer
// give the same orders.
const logVersion = 9

type logHead struct {
	Version int    `json:"scheduler"`
	Config  Config `json:"config"`
}

type logOrders struct {
	Orders []logOrder `json:"orders"`
}

type logFlow struct {
	Namespace string `json:"namespace"`
	Function  string `json:"function"`
}

type logFunction struct {
	logFlow
	Function
}

// logEvent is an event, with the fields that have another form in a log.
type logEvent struct {
	Kind string `json:"event"`
	Event
	Function *logFunction `json:"of,omitempty"`
}

// logOrder is an order, with the fields that have another form in a log.
type logOrder struct {
	Do string `json:"do"`
	logFlow
	Order
	Start  string `json:"start,omitempty"`
	Move   string `json:"move,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// AppendConfig appends the first line of a log.
func AppendConfig(b []byte, c Config) ([]byte, error) {
	return appendLine(b, logHead{Version: logVersion, Config: c})
}

// AppendEvent appends the line of an event. The error names an event that no
// log can hold.
func AppendEvent(b []byte, e Event) ([]byte, error) {
	line := logEvent{Kind: e.Kind.String(), Event: e}
	if e.Function != nil {
		f := *e.Function
		sum := sha256.Sum256([]byte(f.Key))
		f.Key = hex.EncodeToString(sum[:8])
		line.Function = &logFunction{logFlow(f.Flow), f}
	}
	return appendLine(b, line)
}

// AppendOrders appends a line with the orders of one Ready.
func AppendOrders(b []byte, orders []Order) ([]byte, error) {
	line := logOrders{make([]logOrder, 0, len(orders))}
	for _, o := range orders {
		out := logOrder{Do: o.Do.String(), logFlow: logFlow(o.Flow), Order: o}
		switch o.Do {
		case Start:
			out.Start = o.Start.String()
		case Move, CancelMove, Unresponsive:
			out.Move = o.Move.String()
		case Refuse:
			out.Reason = o.Reason.String()
		}
		line.Orders = append(line.Orders, out)
	}
	return appendLine(b, line)
}

func appendLine(b []byte, line any) ([]byte, error) {
	text, err := json.Marshal(line)
	if err != nil {
		return b, fmt.Errorf("write a line of the scheduler's log: %w", err)
	}
	return append(append(b, text...), '\n'), nil
}

// Replay feeds a log to a scheduler and holds the orders against those of the log.
// The zero value waits for the first line.
type Replay struct {
	scheduler *Scheduler
	lines     int
	// Events and Orders count both.
	Events, Orders int
	// Check has the scheduler's invariants checked after every event.
	Check bool
}

// Scheduler is the scheduler that the log was fed to, nil before the first line.
func (r *Replay) Scheduler() *Scheduler { return r.scheduler }

// Line takes the next line of a log. Its errors name the line.
func (r *Replay) Line(text []byte) error {
	r.lines++
	if err := r.line(bytes.TrimSpace(text)); err != nil {
		return fmt.Errorf("line %d: %w", r.lines, err)
	}
	return nil
}

func (r *Replay) line(text []byte) error {
	switch {
	case r.scheduler == nil:
		return r.begin(text)
	case bytes.HasPrefix(text, []byte(`{"orders":`)):
		return r.compare(text)
	}
	e, err := parseEvent(text)
	if err != nil {
		return err
	}
	r.scheduler.Take(e)
	r.Events++
	return r.check()
}

func (r *Replay) check() error {
	if !r.Check {
		return nil
	}
	return r.scheduler.Check()
}

func (r *Replay) begin(text []byte) error {
	var version struct {
		Scheduler int
		Old       int `json:"lane"` // of version 1
	}
	if err := json.Unmarshal(text, &version); err == nil && version.Scheduler+version.Old != logVersion {
		return fmt.Errorf("a log of version %d, this program reads version %d", version.Scheduler+version.Old, logVersion)
	}
	var head logHead
	if err := decode(text, &head); err != nil {
		return fmt.Errorf("the first line of a scheduler's log has its settings: %w", err)
	}
	var err error
	r.scheduler, err = New(head.Config)
	return err
}

// compare decides and holds the orders against a line of the log.
func (r *Replay) compare(text []byte) error {
	orders := r.scheduler.Ready()
	r.Orders += len(orders)
	now, err := AppendOrders(nil, orders)
	if err != nil {
		return err
	}
	if now = bytes.TrimSpace(now); !bytes.Equal(now, text) {
		return &DifferError{Recorded: string(text), Now: string(now)}
	}
	return r.check()
}

// DifferError means that a scheduler's orders differ from those of its log.
type DifferError struct{ Recorded, Now string }

// Error shows both.
func (e *DifferError) Error() string {
	return fmt.Sprintf("the orders differ\nrecorded: %s\nnow:      %s", e.Recorded, e.Now)
}

// maxLogTime bounds the times in a log, so that their sums do not overflow.
const maxLogTime = 50 * 365 * 24 * time.Hour

func parseEvent(text []byte) (Event, error) {
	var line logEvent
	if err := decode(text, &line); err != nil {
		return Event{}, err
	}
	e := line.Event
	kind := slices.Index(eventWords[:], line.Kind)
	switch {
	case kind < 0:
		return Event{}, fmt.Errorf("event %.40q: not one of %v", line.Kind, eventWords)
	case max(e.At, e.Due, e.Idle, e.Setup, e.Ran) > maxLogTime || min(e.At, e.Due, e.Idle, e.Setup, e.Ran) < -maxLogTime:
		return Event{}, fmt.Errorf("a time beyond %s", maxLogTime)
	}
	e.Kind = EventKind(kind)
	if f := line.Function; f != nil {
		f.Flow = sched.FlowID(f.logFlow)
		e.Function = &f.Function
	}
	return e, nil
}

// decode reads one line; an unknown field is an error.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read %.60q: %w", text, err)
	}
	return nil
}
