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

// String is the name in logs.
func (k AckKind) String() string {
	return [...]string{"result", "completion", "combined"}[k]
}

// Ack is an invoker's message to a controller about one activation.
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

// FreesSlot reports whether the ack frees the activation's slot.
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

// DecodeAck reads an ack. Its keys determine its kind.
func DecodeAck(data []byte) (Ack, error) {
	var a Ack
	instance, response := false, false
	p := newParser(data)
	p.fields(
		required("transid", func() { a.TransID = p.transID() }),
		allowed("activationId", func() { a.ActivationID = p.id() }),
		allowed("instance", func() { instance, a.Instance = true, p.instance() }),
		allowed("response", func() { response = true; a.response(p) }),
		optional("isSystemError", func() { a.SystemError = p.bool() }),
	)
	switch {
	case instance && response:
		a.Kind = Combined
	case instance:
		a.Kind = Completion
		p.require(a.ActivationID != "", "activationId")
	default:
		p.require(response, "response")
	}
	if err := p.end(); err != nil {
		return Ack{}, fmt.Errorf("decode ack: %w", err)
	}
	return a, nil
}

// response reads a record, or the id alone.
func (a *Ack) response(p *parser) {
	if p.peek() == '"' {
		a.ActivationID = p.id()
		return
	}
	a.Record = p.record()
	a.ActivationID = a.Record.ActivationID
}
