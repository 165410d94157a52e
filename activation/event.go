package activation

import (
	"encoding/json"
	"strconv"
)

// Event is a message of the user-events topic about one finished activation.
type Event struct {
	Namespace string
	Source    string // "invoker0"
	Subject   string
	UserID    string // the namespace's UUID
	Timestamp int64  // epoch milliseconds
	Body      EventBody
}

// EventBody describes the activation. Times are in milliseconds.
type EventBody struct {
	Name                  string
	ActivationID          ID
	StatusCode            int
	Duration              int64
	WaitTime              int64
	InitTime              int64
	Kind                  string
	Conductor             bool
	MemoryMB              int64
	CausedBy              string // empty: not caused by a sequence
	Size                  *int
	UserDefinedStatusCode *int
}

// RunDetails are the values of the annotations of a run's record.
type RunDetails struct {
	Path, Kind, CausedBy         string
	WaitTime, InitTime, MemoryMB int64
	Conductor                    bool
}

// NewEvent makes the event of a record with details, and none of another.
func NewEvent(r *Record, source, userID string, timestamp int64) (Event, bool) {
	if r.Details.Kind == "" {
		return Event{}, false
	}
	e := Event{
		Namespace: r.Namespace, Source: source, Subject: r.Subject,
		UserID: userID, Timestamp: timestamp,
	}
	e.Body = EventBody{
		Name: r.Details.Path, ActivationID: r.ActivationID, Kind: r.Details.Kind,
		StatusCode: r.Response.StatusCode, Size: r.Response.Size,
		WaitTime: r.Details.WaitTime, InitTime: r.Details.InitTime,
		Conductor: r.Details.Conductor, CausedBy: r.Details.CausedBy, MemoryMB: r.Details.MemoryMB,
		UserDefinedStatusCode: userStatus(r.Response.Result),
	}
	if r.Duration != nil {
		e.Body.Duration = *r.Duration
	}
	return e, true
}

// member finds one member of a JSON value that may be an object.
func member(value json.RawMessage, key string) (json.RawMessage, bool) {
	var found json.RawMessage
	p := newParser(value)
	if p.peek() != '{' {
		return nil, false
	}
	p.object(func(k string) {
		v := p.raw()
		if k == key {
			found = v
		}
	})
	return found, found != nil && p.err == nil
}

// oddStatus replaces a status code that an action set to a value that is not a number.
const oddStatus = 400

// userStatus finds the HTTP status that an action set in its result, or in the
// error of its result (Activation.getUserDefinedStatusCode).
func userStatus(result json.RawMessage) *int {
	inner, _ := member(result, "error")
	value, ok := member(inner, "statusCode")
	if !ok {
		value, ok = member(result, "statusCode")
	}
	if !ok {
		return nil
	}
	return new(statusNumber(value))
}

func statusNumber(value json.RawMessage) int {
	p := newParser(value)
	if p.peek() == '"' {
		n, err := strconv.ParseInt(p.str(), 10, 32)
		if err != nil || n < 0 {
			return oddStatus
		}
		return int(n)
	}
	n := p.integer()
	if p.err != nil {
		return oddStatus
	}
	return int(n)
}

// Encode writes the event.
func (e Event) Encode() []byte {
	o := newObject(make([]byte, 0, 512))
	o.key("body")
	o.out = e.Body.append(o.out)
	o.str("eventType", "Activation")
	o.str("namespace", e.Namespace)
	o.str("source", e.Source)
	o.str("subject", e.Subject)
	o.int("timestamp", e.Timestamp)
	o.str("userId", e.UserID)
	return o.end()
}

func (b EventBody) append(dst []byte) []byte {
	o := newObject(dst)
	o.str("activationId", string(b.ActivationID))
	o.optional("causedBy", b.CausedBy)
	o.bool("conductor", b.Conductor)
	o.int("duration", b.Duration)
	o.int("initTime", b.InitTime)
	o.str("kind", b.Kind)
	o.int("memory", b.MemoryMB)
	o.str("name", b.Name)
	if b.Size != nil {
		o.int("size", int64(*b.Size))
	}
	o.int("statusCode", int64(b.StatusCode))
	if b.UserDefinedStatusCode != nil {
		o.int("userDefinedStatusCode", int64(*b.UserDefinedStatusCode))
	}
	o.int("waitTime", b.WaitTime)
	return o.end()
}
