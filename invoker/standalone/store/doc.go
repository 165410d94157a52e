package store

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// record is one stored revision of a document: the only one, since older ones
// are not kept. A deleted document leaves a record without a body, so that its
// next life goes on counting revisions.
type record struct {
	rev  string
	atts map[string]stub
	body []byte // the JSON object without _id, _rev, _attachments, _deleted
}

// deleted tells a tombstone from a document.
func (r *record) deleted() bool { return len(r.body) == 0 }

// A record on disk is three lines: revision, attachment stubs, body. Neither
// of the first two contains a line break, being made here.
func (r *record) encode() []byte {
	var stubs []byte
	if len(r.atts) > 0 {
		stubs, _ = json.Marshal(r.atts) // a map of plain structs always encodes
	}
	b := make([]byte, 0, len(r.rev)+len(stubs)+len(r.body)+2)
	b = append(append(b, r.rev...), '\n')
	b = append(append(b, stubs...), '\n')
	return append(b, r.body...)
}

// decodeRecord reads a stored record. The body aliases raw.
func decodeRecord(raw []byte) (*record, error) {
	rev, rest, ok := bytes.Cut(raw, []byte{'\n'})
	if !ok {
		return nil, fmt.Errorf("stored document is cut off")
	}
	stubs, body, ok := bytes.Cut(rest, []byte{'\n'})
	if !ok {
		return nil, fmt.Errorf("stored document is cut off")
	}
	r := &record{rev: string(rev), body: body}
	if len(stubs) > 0 {
		if err := json.Unmarshal(stubs, &r.atts); err != nil {
			return nil, fmt.Errorf("decode attachment stubs: %w", err)
		}
	}
	return r, nil
}

// generation is the number before the dash of a revision, 0 for none.
func generation(rev string) int {
	n, _, _ := strings.Cut(rev, "-")
	g, err := strconv.Atoi(n)
	if err != nil || g < 0 {
		return 0
	}
	return g
}

// nextRev derives the revision that follows prev for what is now stored, as
// CouchDB does: a counter and a digest of the content.
func nextRev(prev string, r *record) string {
	h := md5.New()
	h.Write([]byte(prev))
	h.Write([]byte{0})
	h.Write(r.body)
	if len(r.atts) > 0 {
		stubs, _ := json.Marshal(r.atts)
		h.Write(stubs)
	}
	return strconv.Itoa(generation(prev)+1) + "-" + hex.EncodeToString(h.Sum(nil))
}

// incoming is a document as a client sent it, taken apart.
type incoming struct {
	id      string
	rev     string // the revision the client believes to replace
	deleted bool
	atts    map[string]incomingAtt
	body    []byte
}

// incomingAtt is an attachment inside a document: a stub that keeps what is
// stored, or new content.
type incomingAtt struct {
	ContentType string `json:"content_type"`
	Data        []byte `json:"data"` // base64 in JSON
	Stub        bool   `json:"stub"`
	Digest      string `json:"digest"`
}

// parseDoc takes a document apart. It answers with an *apiError.
func parseDoc(raw []byte) (*incoming, error) {
	in := &incoming{body: make([]byte, 0, len(raw))}
	err := eachMember(raw, func(name string, value json.RawMessage) error {
		if strings.HasPrefix(name, "_") {
			return in.special(name, value)
		}
		in.body = appendMember(in.body, name, value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(in.body) == 0 {
		in.body = append(in.body, '{')
	}
	in.body = append(in.body, '}')
	return in, nil
}

func (in *incoming) special(name string, value json.RawMessage) error {
	var err error
	switch name {
	case "_id":
		err = json.Unmarshal(value, &in.id)
	case "_rev":
		err = json.Unmarshal(value, &in.rev)
	case "_deleted":
		err = json.Unmarshal(value, &in.deleted)
	case "_attachments":
		err = json.Unmarshal(value, &in.atts)
	case "_revisions":
	default:
		return &apiError{400, "doc_validation", "Bad special document member: " + name}
	}
	if err != nil {
		return &apiError{400, "bad_request", "Bad value of document member " + name}
	}
	return nil
}

func appendMember(b []byte, name string, value json.RawMessage) []byte {
	if len(b) == 0 {
		b = append(b, '{')
	} else {
		b = append(b, ',')
	}
	quoted, _ := json.Marshal(name)
	b = append(append(b, quoted...), ':')
	return append(b, value...)
}

// eachMember calls fn with the members of a JSON object in their order.
func eachMember(raw []byte, fn func(string, json.RawMessage) error) error {
	bad := &apiError{400, "bad_request", "invalid UTF-8 JSON"}
	if !json.Valid(raw) {
		return bad
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return &apiError{400, "bad_request", "Document must be a JSON object"}
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return bad
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return bad
		}
		if err := fn(t.(string), value); err != nil {
			return err
		}
	}
	return nil
}

// put stores the document in the transaction if its revision allows it. A
// refusal is an *apiError in the second result; the third is for storage.
func put(db *database, in *incoming) (string, *apiError, error) {
	old, err := db.record(in.id)
	if err != nil {
		return "", nil, err
	}
	if refusal := checkRev(old, in); refusal != nil {
		return "", refusal, nil
	}
	prev := ""
	if old != nil {
		prev = old.rev
	}
	next := &record{body: in.body}
	if in.deleted {
		next.body = nil
	} else if refusal, err := db.storeAtts(next, old, in); refusal != nil || err != nil {
		return "", refusal, err
	}
	next.rev = nextRev(prev, next)
	return next.rev, nil, db.replace(in.id, old, next)
}

// checkRev is CouchDB's optimistic locking: a living document is replaced only
// by one who names its revision, and a name of anything else is a conflict.
func checkRev(old *record, in *incoming) *apiError {
	conflict := &apiError{409, "conflict", "Document update conflict."}
	switch {
	case old == nil && in.rev != "":
		return conflict
	case old == nil && in.deleted:
		return &apiError{404, "not_found", "missing"}
	case old != nil && !old.deleted() && in.rev != old.rev:
		return conflict
	case old != nil && old.deleted() && in.rev != "" && in.rev != old.rev:
		return conflict
	case old != nil && old.deleted() && in.deleted:
		return &apiError{404, "not_found", "deleted"}
	}
	return nil
}

// render writes a stored document with its id, revision and stubs.
func render(id string, r *record, atts json.RawMessage) []byte {
	quoted, _ := json.Marshal(id)
	b := make([]byte, 0, len(r.body)+len(quoted)+len(r.rev)+len(atts)+48)
	b = append(append(b, `{"_id":`...), quoted...)
	b = append(append(append(b, `,"_rev":"`...), r.rev...), '"')
	if inner := r.body[1 : len(r.body)-1]; len(inner) > 0 {
		b = append(append(b, ','), inner...)
	}
	if len(atts) > 0 {
		b = append(append(b, `,"_attachments":`...), atts...)
	}
	return append(b, '}')
}

// database is one CouchDB database within a transaction.
type database struct {
	tx    *bolt.Tx
	root  *bolt.Bucket
	docs  *bolt.Bucket
	blobs *bolt.Bucket
}
