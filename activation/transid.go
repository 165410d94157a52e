package activation

import "encoding/json"

// UnknownTransID is the id of a transaction whose shape says nothing.
const UnknownTransID = "sid_unknown"

// TransID identifies the transaction that an activation belongs to. It keeps
// the JSON it was read from and gives it back byte for byte: the controller
// knows its own health tests by an exact echo, start time and parents
// included (InvokerSupervision).
type TransID struct {
	raw   json.RawMessage
	id    string
	start int64
	extra bool
}

// NewTransID makes a transaction without parents. start is in epoch
// milliseconds.
func NewTransID(id string, start int64, extraLogging bool) TransID {
	raw := AppendString([]byte{'['}, id)
	raw = appendInt(append(raw, ','), start)
	if extraLogging {
		raw = append(raw, ",true"...)
	}
	return TransID{raw: append(raw, ']'), id: id, start: start, extra: extraLogging}
}

// Child makes the transaction of a component of a sequence or composition.
func (t TransID) Child(id string, start int64) TransID {
	c := NewTransID(id, start, t.extra)
	raw := append(c.raw[:len(c.raw)-1], ',')
	c.raw = append(append(raw, t.JSON()...), ']')
	return c
}

// ID is the name of the transaction, for logs and for the action itself.
func (t TransID) ID() string {
	if t.raw == nil {
		return UnknownTransID
	}
	return t.id
}

// StartMillis is when the transaction began, in epoch milliseconds; zero when
// it does not say. It is the base of an activation's wait time.
func (t TransID) StartMillis() int64 { return t.start }

// ExtraLogging tells whether the caller asked for extra logging; the record of
// such an activation is stored whatever the store level says.
func (t TransID) ExtraLogging() bool { return t.extra }

// JSON is the transaction as it was read, or made. Callers must not change it.
func (t TransID) JSON() json.RawMessage {
	if t.raw == nil {
		return json.RawMessage(`["` + UnknownTransID + `",0]`)
	}
	return t.raw
}

// transID reads [id, start], then optionally a flag, then optionally the
// parent. Any other value is a transaction too, of which nothing is known.
func (p *parser) transID() TransID {
	raw := p.raw()
	if p.err != nil {
		return TransID{}
	}
	t := parseTransID(raw)
	t.raw = raw
	return t
}

func parseTransID(raw json.RawMessage) TransID {
	var parts [4]json.RawMessage
	n := 0
	p := newParser(raw)
	if p.peek() != '[' {
		return TransID{id: UnknownTransID}
	}
	p.array(func() {
		v := p.raw()
		if n < len(parts) {
			parts[n] = v
		}
		n++
	})
	t := TransID{}
	if n < 2 || n > 4 || !t.head(parts[0], parts[1]) || !t.tail(parts[2:min(n, 4)]) {
		return TransID{id: UnknownTransID}
	}
	return t
}

func (t *TransID) head(id, start json.RawMessage) bool {
	p := newParser(id)
	t.id = p.str()
	q := newParser(start)
	t.start = q.integer()
	return p.err == nil && q.err == nil
}

// tail takes a flag, a parent, or a flag and a parent.
func (t *TransID) tail(rest []json.RawMessage) bool {
	if len(rest) == 0 {
		return true
	}
	switch string(rest[0]) {
	case "true":
		t.extra = true
		rest = rest[1:]
	case "false":
		rest = rest[1:]
	}
	return len(rest) == 0 || len(rest) == 1 && rest[0][0] == '['
}
