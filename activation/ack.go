package activation

import "fmt"

// AckKind is one of the three shapes of an ack.
type AckKind uint8

// Kinds of acks. Those with an instance free the activation's slot.
const (
	Result     AckKind = iota // the result; the slot stays taken
	Completion                // the slot is free
	Combined                  // both at once
)

// String is the word that logs use.
func (k AckKind) String() string {
	return [...]string{"result", "completion", "combined"}[k]
}

// Ack is what an invoker reports to a controller about one activation.
type Ack struct {
	Kind         AckKind
	TransID      TransID
	ActivationID ID
	Record       *Record // nil: shrunk to the id, or a completion
	Instance     Instance
	SystemError  bool
}

// NewResult makes the ack that carries a result.
func NewResult(t TransID, r *Record) Ack {
	return Ack{Kind: Result, TransID: t, ActivationID: r.ActivationID, Record: r}
}

// NewCompletion makes the ack that frees a slot.
func NewCompletion(t TransID, id ID, systemError bool, i Instance) Ack {
	return Ack{Kind: Completion, TransID: t, ActivationID: id, SystemError: systemError, Instance: i}
}

// NewCombined makes the ack that carries a result and frees the slot.
func NewCombined(t TransID, r *Record, i Instance) Ack {
	return Ack{
		Kind: Combined, TransID: t, ActivationID: r.ActivationID, Record: r,
		SystemError: r.Response.SystemError(), Instance: i,
	}
}

// Shrink returns the ack with the record replaced by its id: for callers that
// do not wait, and for records too large for a message.
func (a Ack) Shrink() Ack {
	a.Record = nil
	return a
}

// FreesSlot reports whether the controller takes the activation's slot as free.
func (a Ack) FreesSlot() bool { return a.Kind != Result }

// Encode writes the ack.
func (a Ack) Encode() []byte {
	size := 384
	if a.Record != nil {
		size += 640 + len(a.Record.Response.Result)
	}
	o := newObject(make([]byte, 0, size))
	if a.Kind == Completion {
		o.str("activationId", string(a.ActivationID))
	}
	if a.FreesSlot() {
		o.key("instance")
		o.out = a.Instance.append(o.out)
		o.bool("isSystemError", a.SystemError)
	}
	if a.Kind != Completion {
		o.key("response")
		o.out = a.appendResponse(o.out)
	}
	o.raw("transid", a.TransID.JSON())
	return o.end()
}

func (a Ack) appendResponse(dst []byte) []byte {
	if a.Record == nil {
		return AppendString(dst, string(a.ActivationID))
	}
	return a.Record.AppendAck(dst)
}

const (
	ackTransID = 1 << iota
	ackActivationID
	ackInstance
	ackResponse
)

// DecodeAck reads an ack. Which of the three it is shows in the keys it has.
func DecodeAck(data []byte) (Ack, error) {
	var a Ack
	seen := 0
	p := newParser(data)
	p.object(func(key string) { seen |= a.member(p, key) })
	switch {
	case seen&ackInstance == 0:
		p.require(seen&(ackTransID|ackResponse) == ackTransID|ackResponse, "transid and response")
	case seen&ackResponse != 0:
		a.Kind = Combined
		p.require(seen&ackTransID != 0, "transid")
	default:
		a.Kind = Completion
		p.require(seen&(ackTransID|ackActivationID) == ackTransID|ackActivationID, "transid and activationId")
	}
	if err := p.end(); err != nil {
		return Ack{}, fmt.Errorf("decode ack: %w", err)
	}
	return a, nil
}

func (a *Ack) member(p *parser, key string) int {
	switch key {
	case "transid":
		a.TransID = p.transID()
		return ackTransID
	case "activationId":
		a.ActivationID = p.id()
		return ackActivationID
	case "instance":
		a.Instance = p.instance()
		return ackInstance
	case "response":
		if p.peek() == '"' {
			a.ActivationID = p.id()
			return ackResponse
		}
		a.Record = p.record()
		a.ActivationID = a.Record.ActivationID
		return ackResponse
	}
	if key == "isSystemError" && !p.null() {
		a.SystemError = p.bool()
		return 0
	}
	p.skipUnless(key == "isSystemError")
	return 0
}

// skipUnless consumes a value unless it is consumed already.
func (p *parser) skipUnless(consumed bool) {
	if !consumed {
		p.skip()
	}
}
