package activation

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// unknownTransID is the id of a transaction of an unknown shape.
const unknownTransID = "sid_unknown"

// TransID identifies the transaction that an activation belongs to. It keeps
// the JSON it was read from and gives it back byte for byte: the controller
// recognises its own health tests by an exact echo, start time and parents
// included (InvokerSupervision).
type TransID struct {
	raw   json.RawMessage
	id    string
	start int64
	extra bool
	above json.RawMessage // the transaction that this one is a part of, nil for none
}

// NewTransID makes a transaction without parents. start is in epoch
// milliseconds.
func NewTransID(id string, start int64, extraLogging bool) TransID {
	raw := AppendString([]byte{'['}, id)
	raw = strconv.AppendInt(append(raw, ','), start, 10)
	if extraLogging {
		raw = append(raw, ",true"...)
	}
	return TransID{raw: append(raw, ']'), id: id, start: start, extra: extraLogging}
}

// Child makes the transaction of a component of a sequence or composition.
func (t TransID) Child(id string, start int64) TransID {
	c := NewTransID(id, start, t.extra)
	c.raw[len(c.raw)-1] = ','
	c.raw = append(append(c.raw, t.JSON()...), ']')
	c.above = t.JSON()
	return c
}

// ID is the name of the transaction, for logs and for the action itself.
func (t TransID) ID() string {
	if t.raw == nil {
		return unknownTransID
	}
	return t.id
}

// StartMillis is when the transaction began, in epoch milliseconds; zero when
// it is not known. It is the base of an activation's wait time.
func (t TransID) StartMillis() int64 { return t.start }

// ExtraLogging reports whether the caller asked for extra logging; the record of
// such an activation is stored at any store level.
func (t TransID) ExtraLogging() bool { return t.extra }

// Root is the name of the transaction that this one is a part of, at last: its
// own where it is a part of none.
func (t TransID) Root() string {
	for t.above != nil {
		parent, err := ParseTransID(t.above)
		if err != nil {
			break
		}
		t = parent
	}
	return t.ID()
}

// JSON is the transaction as it was read, or made. Callers must not change it.
func (t TransID) JSON() json.RawMessage {
	if t.raw == nil {
		return json.RawMessage(`["` + unknownTransID + `",0]`)
	}
	return t.raw
}

// ParseTransID reads a transaction as JSON gives it.
func ParseTransID(json []byte) (TransID, error) {
	p := newParser(json)
	t := p.transID()
	if err := p.end(); err != nil {
		return TransID{}, fmt.Errorf("read transaction: %w", err)
	}
	return t, nil
}

// transID reads [id, start], then optionally a flag, then optionally the
// parent. Any other value is a transaction too, of which nothing is known.
func (p *parser) transID() TransID {
	from := p.start()
	var t TransID
	known := p.peek() == '['
	if known {
		known = p.transIDParts(&t)
	} else {
		p.skip()
	}
	if p.err != nil {
		return TransID{}
	}
	if !known {
		t = TransID{id: unknownTransID}
	}
	t.raw = p.since(from)
	return t
}

// transIDParts reads the elements and reports whether they have a known shape.
func (p *parser) transIDParts(t *TransID) bool {
	n, known, parent := 0, true, false
	p.array(func() {
		c := p.peek()
		switch {
		case n == 0 && c == '"':
			t.id = p.str()
		case n == 1 && (c == '0'):
			var ok bool
			t.start, _, ok = truncate(p.number())
			known = known && ok
		case n == 2 && (c == 't' || c == 'f'):
			t.extra = p.bool()
		case (n == 2 || n == 3) && c == '[' && !parent:
			from := p.start()
			p.skip()
			t.above = p.since(from)
			parent = true
		default:
			p.skip()
			known = false
		}
		n++
	})
	return known && n >= 2
}
