package lane

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// A lane's log is lines of JSON: first the settings, then each event as it was
// taken, and after each Ready its orders. Fed to a lane by a Replay it gives the
// same orders, byte for byte. Keys of functions are written as digests: they may
// hold what nobody else shall read, and the lane asks only whether two are equal.

// logVersion is told in a log's first line. It changes when an old log does not
// give the same orders any more.
const logVersion = 1

type logHead struct {
	Lane   int    `json:"lane"`
	Config Config `json:"config"`
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
	Key    string  `json:"key"`
	HostMB int     `json:"hostMB,omitempty"`
	Memory int64   `json:"memory,omitempty"`
	Unseen bool    `json:"unseen,omitempty"`
	Width  int     `json:"width,omitempty"`
	Weight float64 `json:"weight,omitempty"`
}

type logEvent struct {
	At    time.Duration `json:"at"`
	Event string        `json:"event"`

	Item     uint64        `json:"item,omitempty"`
	Box      Box           `json:"box,omitempty"`
	Device   int           `json:"device,omitempty"`
	Function *logFunction  `json:"of,omitempty"`
	Parked   bool          `json:"parked,omitempty"`
	Due      time.Duration `json:"due,omitempty"`
	Idle     time.Duration `json:"idle,omitempty"`

	Keep   bool          `json:"keep,omitempty"`
	Unused bool          `json:"unused,omitempty"`
	Setup  time.Duration `json:"setup,omitempty"`
	Ran    time.Duration `json:"ran,omitempty"`

	PID    int        `json:"pid,omitempty"`
	Usage  *gpu.Usage `json:"usage,omitempty"`
	Exited bool       `json:"exited,omitempty"`

	Epoch uint64 `json:"epoch,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	OK    bool   `json:"ok,omitempty"`

	Utilization float64     `json:"utilization,omitempty"`
	Used        int64       `json:"used,omitempty"`
	Loss        Loss        `json:"loss,omitempty"`
	Why         string      `json:"why,omitempty"`
	Host        *HostMemory `json:"host,omitempty"`
}

type logOrder struct {
	Do     string `json:"do"`
	Item   uint64 `json:"item,omitempty"`
	Box    Box    `json:"box,omitempty"`
	Device int    `json:"device,omitempty"`
	logFlow
	HostMB int `json:"hostMB,omitempty"`

	Start    string        `json:"start,omitempty"`
	Rested   bool          `json:"rested,omitempty"`
	Need     *gpu.Need     `json:"need,omitempty"`
	Memory   int64         `json:"memory,omitempty"`
	Waited   time.Duration `json:"waited,omitempty"`
	Charged  time.Duration `json:"charged,omitempty"`
	Transfer uint64        `json:"transfer,omitempty"`

	Move      string `json:"move,omitempty"`
	Epoch     uint64 `json:"epoch,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`
	Again     bool   `json:"again,omitempty"`
	Footprint int64  `json:"footprint,omitempty"`

	Reason  string        `json:"reason,omitempty"`
	Most    int64         `json:"most,omitempty"`
	Service time.Duration `json:"service,omitempty"`
	Setup   time.Duration `json:"setup,omitempty"`
}

// AppendConfig appends the first line of a log.
func AppendConfig(b []byte, c Config) ([]byte, error) {
	return appendLine(b, logHead{logVersion, c})
}

// AppendEvent appends the line of an event. The error names an event that no
// log can hold.
func AppendEvent(b []byte, e Event) ([]byte, error) {
	line := logEvent{
		At: e.At, Event: e.Kind.String(), Item: e.Item, Box: e.Box, Device: e.Device, Parked: e.Parked, Due: e.Due, Idle: e.Idle,
		Keep: e.Keep, Unused: e.Unused, Setup: e.Setup, Ran: e.Ran, PID: e.PID, Exited: e.Exited,
		Epoch: e.Epoch, Bytes: e.Bytes, OK: e.OK, Utilization: e.Utilization, Used: e.Used, Loss: e.Of, Why: e.Why,
	}
	if f := e.Function; f != nil {
		sum := sha256.Sum256([]byte(f.Key))
		line.Function = &logFunction{
			logFlow{f.Flow.Namespace, f.Flow.Function}, hex.EncodeToString(sum[:8]),
			f.HostMB, f.Memory, f.Unseen, f.Width, f.Weight,
		}
	}
	switch e.Kind {
	case Held:
		line.Usage = &e.Usage
	case Host:
		line.Host = &e.Host
	}
	return appendLine(b, line)
}

// AppendOrders appends the line of what one Ready gave.
func AppendOrders(b []byte, orders []Order) ([]byte, error) {
	line := logOrders{make([]logOrder, 0, len(orders))}
	for _, o := range orders {
		out := logOrder{
			Do: o.Do.String(), Item: o.Item, Box: o.Box, Device: o.Device, logFlow: logFlow{o.Flow.Namespace, o.Flow.Function},
			HostMB: o.HostMB, Rested: o.Rested, Memory: o.Memory, Waited: o.Waited, Charged: o.Charged, Transfer: o.Transfer,
			Epoch: o.Epoch, Bytes: o.Bytes, Again: o.Again, Footprint: o.Footprint,
			Most: o.Most, Service: o.Service, Setup: o.Setup,
		}
		switch o.Do {
		case Start:
			out.Start, out.Need = o.Start.String(), &o.Need
		case Move, Void, Mute:
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
		return b, fmt.Errorf("write a line of the lane's log: %w", err)
	}
	return append(append(b, text...), '\n'), nil
}

// Replay feeds a log to a lane and holds the orders against those of the log.
// The zero value waits for the first line.
type Replay struct {
	lane  *Lane
	lines int
	// Events and Orders count what was fed and what was given.
	Events, Orders int
	// Check has the lane's books looked at after every event.
	Check bool
}

// Lane is the lane that the log was fed to, nil before the first line.
func (r *Replay) Lane() *Lane { return r.lane }

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
	case r.lane == nil:
		return r.begin(text)
	case bytes.HasPrefix(text, []byte(`{"orders":`)):
		return r.compare(text)
	}
	e, err := parseEvent(text)
	if err != nil {
		return err
	}
	r.lane.Take(e)
	r.Events++
	return r.check()
}

func (r *Replay) check() error {
	if !r.Check {
		return nil
	}
	return r.lane.Check()
}

func (r *Replay) begin(text []byte) error {
	var head logHead
	if err := decode(text, &head); err != nil {
		return fmt.Errorf("the first line of a lane's log tells its settings: %w", err)
	}
	if head.Lane != logVersion {
		return fmt.Errorf("a log of version %d, this program reads version %d", head.Lane, logVersion)
	}
	var err error
	r.lane, err = New(head.Config)
	return err
}

// compare decides and holds the orders against a line of the log.
func (r *Replay) compare(text []byte) error {
	orders := r.lane.Ready()
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

// DifferError tells that a lane orders something else than its log says.
type DifferError struct{ Recorded, Now string }

// Error shows both.
func (e *DifferError) Error() string {
	return fmt.Sprintf("the orders differ\nrecorded: %s\nnow:      %s", e.Recorded, e.Now)
}

// maxLogTime bounds the times of a log, so that no sum of them overflows.
const maxLogTime = 50 * 365 * 24 * time.Hour

func parseEvent(text []byte) (Event, error) {
	var line logEvent
	if err := decode(text, &line); err != nil {
		return Event{}, err
	}
	kind := slices.Index(eventWords[:], line.Event)
	switch {
	case kind < 0:
		return Event{}, fmt.Errorf("event %.40q: not one of %v", line.Event, eventWords)
	case max(line.At, line.Due, line.Idle, line.Setup, line.Ran) > maxLogTime || min(line.At, line.Due, line.Idle, line.Setup, line.Ran) < -maxLogTime:
		return Event{}, fmt.Errorf("a time beyond %s", maxLogTime)
	}
	e := Event{
		At: line.At, Kind: EventKind(kind), Item: line.Item, Box: line.Box, Device: line.Device, Parked: line.Parked, Due: line.Due, Idle: line.Idle,
		Keep: line.Keep, Unused: line.Unused, Setup: line.Setup, Ran: line.Ran, PID: line.PID, Exited: line.Exited,
		Epoch: line.Epoch, Bytes: line.Bytes, OK: line.OK, Utilization: line.Utilization, Used: line.Used, Of: line.Loss, Why: line.Why,
	}
	if f := line.Function; f != nil {
		e.Function = &Function{
			sched.FlowID{Namespace: f.Namespace, Function: f.Function}, f.Key, f.HostMB, f.Memory, f.Unseen, f.Width, f.Weight,
		}
	}
	if line.Usage != nil {
		e.Usage = *line.Usage
	}
	if line.Host != nil {
		e.Host = *line.Host
	}
	return e, nil
}

// decode reads one line, which has nothing that we do not know.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read %.60q: %w", text, err)
	}
	return nil
}
