package activation

import "fmt"

// Record describes one finished activation, as the database keeps it
// and as an ack carries it.
type Record struct {
	ActivationID ID
	Namespace    string // the invoking namespace
	Name         string // the action's, last segment
	Subject      string
	Version      string
	Publish      bool
	Cause        ID    // empty: none
	Start, End   int64 // epoch milliseconds
	Duration     *int64
	Response     Response
	Logs         []string
	Annotations  Annotations
	Details      RunDetails // zero in a record that was read
}

// DocumentID is the id of the record in the database.
func (r *Record) DocumentID() string { return r.Namespace + "/" + string(r.ActivationID) }

// AppendAck appends the record as acks carry it: without logs.
func (r *Record) AppendAck(dst []byte) []byte {
	o := newObject(dst)
	r.members(&o, nil, 0)
	return o.end()
}

// Document writes the record as the database keeps it; updated is the time of
// writing, in epoch milliseconds. Numbers that CouchDB cannot hold are written
// as text: it would refuse the whole batch that the record travels in.
func (r *Record) Document(updated int64) []byte {
	size := 640 + len(r.Response.Result)
	for _, line := range r.Logs {
		size += len(line) + 8
	}
	o := newObject(make([]byte, 0, size))
	o.str("_id", r.DocumentID())
	stored := *r
	stored.Response.Result = quoteHuge(r.Response.Result)
	stored.members(&o, r.Logs, updated)
	return o.end()
}

// members appends the members that acks and documents share, in the order of the keys.
// updated is zero in an ack.
func (r *Record) members(o *object, logs []string, updated int64) {
	o.str("activationId", string(r.ActivationID))
	o.key("annotations")
	o.out = r.Annotations.append(o.out)
	o.optional("cause", string(r.Cause))
	if r.Duration != nil {
		o.int("duration", *r.Duration)
	}
	o.int("end", r.End)
	if updated != 0 {
		o.str("entityType", "activation")
	}
	o.strs("logs", logs)
	o.str("name", r.Name)
	o.str("namespace", r.Namespace)
	o.bool("publish", r.Publish)
	o.key("response")
	o.out = r.Response.append(o.out)
	o.int("start", r.Start)
	o.str("subject", r.Subject)
	if updated != 0 {
		o.int("updated", updated)
	}
	o.str("version", r.Version)
}

// DecodeRecord reads a record from an ack or from the database.
func DecodeRecord(data []byte) (*Record, error) {
	p := newParser(data)
	r := p.record()
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("decode activation record: %w", err)
	}
	return r, nil
}

func (p *parser) record() *Record {
	r := &Record{}
	p.fields(
		required("activationId", func() { r.ActivationID = p.id() }),
		required("namespace", func() { r.Namespace = p.path() }),
		required("name", func() { r.Name = p.name() }),
		required("subject", func() { r.Subject = p.subject() }),
		required("start", func() { r.Start = p.integer() }),
		required("end", func() { r.End = p.integer() }),
		required("response", func() { r.Response = p.response() }),
		required("logs", func() { r.Logs = p.strings() }),
		required("version", func() { r.Version = p.version() }),
		required("publish", func() { r.Publish = p.bool() }),
		required("annotations", func() { r.Annotations = p.annotations() }),
		optional("cause", func() { r.Cause = p.id() }),
		optional("duration", func() { r.Duration = new(p.integer()) }),
	)
	return r
}
