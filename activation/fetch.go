package activation

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// FetchKind is the kind of a scheduler's answer to a fetch.
type FetchKind uint8

// Kinds of answers to a fetch.
const (
	Fetched        FetchKind = iota // an activation, which from now on is the invoker's alone
	NoActivation                    // none came; ask again
	NoQueue                         // the queue is not, or no more, with this scheduler
	ActionMismatch                  // the queue is of another revision, version or binding
)

// String is the name in logs.
func (k FetchKind) String() string {
	return [...]string{"fetched", "no activation", "no queue", "action mismatch"}[k]
}

// fetchReasons are the type, the key and the text of each answer without an activation
// (GetActivationResponse in MemoryQueue's errors).
var fetchReasons = [...]struct{ name, key, text string }{
	NoActivation:   {"NoActivationMessage", "noActivationMessage", "no activation message exist"},
	NoQueue:        {"NoMemoryQueue", "noMemoryQueue", "no memory queue exist"},
	ActionMismatch: {"ActionMismatch", "actionMisMatch", "action version does not match"},
}

// ErrUnreadable is the error of a scheduler's answer that cannot be decoded. If the answer was
// an activation, the activation is lost.
var ErrUnreadable = errors.New("answer of the scheduler cannot be read")

// FetchRequest is the request of a container for an activation.
type FetchRequest struct {
	Queue     Queue
	Container string
	// Warmed calls are served before others.
	Warmed bool
	// LastDuration is the duration of the run that has just ended, or nil. The scheduler
	// orders containers by the mean of the last ten durations.
	LastDuration *time.Duration
	// Sent, if not nil, is called once: when the request has been written, or has failed.
	Sent func()
}

// FetchAnswer is a scheduler's answer to a fetch. It shares memory with the bytes
// it was decoded from.
type FetchAnswer struct {
	Kind    FetchKind
	Message *Message // nil unless Fetched

	raw json.RawMessage
}

// NewFetchAnswer makes an answer with an activation, as it was encoded.
func NewFetchAnswer(message json.RawMessage) FetchAnswer { return FetchAnswer{raw: message} }

// JSON is the activation message as the scheduler sent it, nil unless Fetched.
// Callers must not change it, nor log it.
func (a FetchAnswer) JSON() json.RawMessage { return a.raw }

// String returns the kind of the answer. It does not contain the activation.
func (a FetchAnswer) String() string { return a.Kind.String() }

// GoString is String.
func (a FetchAnswer) GoString() string { return a.Kind.String() }

// Encode writes the answer as a scheduler does.
func (a FetchAnswer) Encode() []byte {
	o := newObject(make([]byte, 0, 128+len(a.raw)))
	if a.Kind == Fetched {
		o.raw("message", a.raw)
		return o.end()
	}
	reason := fetchReasons[a.Kind]
	o.key("message")
	m := newObject(o.out)
	m.str(reason.key, reason.text)
	m.str("type", reason.name)
	o.out = m.end()
	return o.end()
}

// DecodeFetchAnswer reads an answer. An activation is known by its id. With an
// error the answer may be an activation that cannot be read: nothing else has it
// any more.
func DecodeFetchAnswer(data []byte) (FetchAnswer, error) {
	var a FetchAnswer
	p := newParser(data)
	p.fields(required("message", func() { a.raw = p.rawObject() }))
	if err := p.end(); err != nil {
		return FetchAnswer{}, fmt.Errorf("decode answer to a fetch: %w", err)
	}
	kind, fetched := "", false
	p = newParser(a.raw)
	p.fields(
		allowed("activationId", func() { fetched = true; p.skip() }),
		allowed("type", func() {
			if p.peek() == '"' {
				kind = p.str()
			} else {
				p.skip()
			}
		}),
	)
	if fetched {
		m, err := DecodeMessage(a.raw)
		if err != nil {
			return FetchAnswer{}, fmt.Errorf("decode answer to a fetch: %w", err)
		}
		a.Message = m
		return a, nil
	}
	for k, reason := range fetchReasons {
		if kind != "" && kind == reason.name {
			return FetchAnswer{Kind: FetchKind(k)}, nil
		}
	}
	return FetchAnswer{}, fmt.Errorf("decode answer to a fetch: neither an activation nor a known type")
}
