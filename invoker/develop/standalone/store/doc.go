package store

import (
	"bytes"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// record is one stored revision of a document: the only one, since older ones
// are not kept. A deleted document leaves a record without a body, so that its
// next life goes on counting revisions.
type record struct {
	rev  string
	atts map[string]stub
	body []byte // the JSON object without _id, _rev, _attachments, _deleted
}

// stub describes an attachment in its document. The content is stored separately, so
// that reading a document does not read the attachment.
type stub struct {
	ContentType string `json:"content_type"`
	RevPos      int    `json:"revpos"`
	Digest      string `json:"digest"`
	Length      int    `json:"length"`
	Stub        bool   `json:"stub"`
}

// blobKey separates id and name by a zero byte, which neither may contain
// (see validID), so that no two attachments share a key.
func blobKey(id, name string) []byte { return []byte(id + "\x00" + name) }

// deleted reports whether this is a tombstone.
func (r *record) deleted() bool { return len(r.body) == 0 }

func (r *record) stubs() []byte {
	if len(r.atts) == 0 {
		return nil
	}
	text, _ := json.Marshal(r.atts) // a map of plain structs always encodes
	return text
}

// A record on disk is three lines: revision, attachment stubs, body. Neither
// of the first two contains a line break, being made here.
func (r *record) encode() []byte {
	return bytes.Join([][]byte{[]byte(r.rev), r.stubs(), r.body}, []byte{'\n'})
}

// decodeRecord reads a stored record. The body aliases raw.
func decodeRecord(raw []byte) (*record, error) {
	parts := bytes.SplitN(raw, []byte{'\n'}, 3)
	if len(parts) < 3 {
		return nil, errors.New("stored document is cut off")
	}
	r := &record{rev: string(parts[0]), body: parts[2]}
	if len(parts[1]) > 0 {
		if err := json.Unmarshal(parts[1], &r.atts); err != nil {
			return nil, fmt.Errorf("decode attachment stubs: %w", err)
		}
	}
	return r, nil
}

// render writes a stored document with its id, revision and stubs.
func (r *record) render(id string) []byte {
	quoted, _ := json.Marshal(id)
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"_id":%s,"_rev":"%s"`, quoted, r.rev)
	if inner := r.body[1 : len(r.body)-1]; len(inner) > 0 {
		b.WriteByte(',')
		b.Write(inner)
	}
	if stubs := r.stubs(); stubs != nil {
		b.WriteString(`,"_attachments":`)
		b.Write(stubs)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// generation is the number before the dash of a revision, 0 for none.
func generation(rev string) int {
	n, _, _ := strings.Cut(rev, "-")
	g, _ := strconv.Atoi(n)
	return max(g, 0)
}

// nextRev returns the revision after prev: a counter and a unique suffix.
func nextRev(prev string) string {
	return strconv.Itoa(generation(prev)+1) + "-" + strings.ToLower(rand.Text())
}

// incoming is a document as a client sent it, taken apart.
type incoming struct {
	ID          string                    `json:"_id"`
	Rev         string                    `json:"_rev"` // the revision the client believes to replace
	Deleted     bool                      `json:"_deleted"`
	Attachments map[string]map[string]any `json:"_attachments"`
	Revisions   json.RawMessage           `json:"_revisions"` // of a replication; not kept

	body []byte
}

// parseDoc takes a document apart. Its members keep their order and text.
func parseDoc(raw []byte) (*incoming, error) {
	if !json.Valid(raw) {
		return nil, badRequest("invalid UTF-8 JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, badRequest("Document must be a JSON object")
	}
	body, special := []byte{'{'}, []byte{'{'}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			return nil, badRequest("invalid UTF-8 JSON")
		}
		quoted, _ := json.Marshal(name)
		member := append(append(append(quoted, ':'), value...), ',')
		if strings.HasPrefix(name.(string), "_") {
			special = append(special, member...)
		} else {
			body = append(body, member...)
		}
	}
	in := &incoming{body: closed(body)}
	dec = json.NewDecoder(bytes.NewReader(closed(special)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(in); err != nil {
		return nil, &refusal{http.StatusBadRequest, "doc_validation", "Bad special document member: " + err.Error()}
	}
	return in, nil
}

// closed ends an object in which each member is followed by a comma.
func closed(object []byte) []byte { return append(bytes.TrimSuffix(object, []byte{','}), '}') }

// validID refuses the ids that CouchDB refuses, and ids with a zero byte, because a zero
// byte separates attachment keys.
func validID(id string) error {
	illegal := func(reason string) error { return &refusal{http.StatusBadRequest, "illegal_docid", reason} }
	switch {
	case id == "":
		return illegal("Document id must not be empty")
	case strings.HasPrefix(id, "_") && !strings.HasPrefix(id, "_design/"):
		return illegal("Only reserved document ids may start with underscore.")
	case strings.ContainsRune(id, 0):
		return illegal("Document id must not contain a zero byte")
	case len(id) > 8192: // bbolt's keys end at 32 KiB, and index keys hold more than the id
		return illegal("Document id is too long")
	}
	return nil
}

// replaceable returns the document that a change replaces. It implements CouchDB's
// optimistic locking: a change must name the document's current revision, and any other
// revision is a conflict.
func (db *database) replaceable(id, rev string, deletes bool) (*record, error) {
	old, err := db.record(id)
	switch {
	case err != nil:
		return nil, err
	case rev != old.rev && (rev != "" || !old.deleted()):
		return nil, &refusal{http.StatusConflict, "conflict", "Document update conflict."}
	case old.deleted() && deletes:
		return nil, notFound("missing")
	}
	return old, nil
}

// put stores the document if its revision allows it, with the attachments of
// which it has stubs, and returns the new revision.
func (db *database) put(in *incoming) (string, error) {
	old, err := db.replaceable(in.ID, in.Rev, in.Deleted)
	if err != nil {
		return "", err
	}
	next := &record{body: in.body, atts: map[string]stub{}}
	if in.Deleted {
		next.body = nil
	}
	for name, att := range in.Attachments {
		if att["stub"] != true {
			return "", notServed() // contents come by requests of their own
		}
		if old.atts[name] == (stub{}) {
			return "", &refusal{http.StatusPreconditionFailed, "missing_stub", "Invalid attachment stub in " + in.ID + " for " + name}
		}
		next.atts[name] = old.atts[name]
	}
	return db.replace(in.ID, old, next)
}

// attach stores an attachment as a new revision of its document, which is
// created when there is none.
func (db *database) attach(id, rev, name, contentType string, data []byte) (string, error) {
	old, err := db.replaceable(id, rev, false)
	if err != nil {
		return "", err
	}
	next := &record{body: []byte("{}"), atts: map[string]stub{}}
	maps.Copy(next.atts, old.atts)
	if !old.deleted() {
		next.body = bytes.Clone(old.body)
	}
	sum := md5.Sum(data)
	next.atts[name] = stub{
		ContentType: contentType, RevPos: generation(old.rev) + 1, Length: len(data), Stub: true,
		Digest: "md5-" + base64.StdEncoding.EncodeToString(sum[:]),
	}
	if err := db.blobs.Put(blobKey(id, name), data); err != nil {
		return "", fmt.Errorf("store attachment %s of %s: %w", name, id, err)
	}
	return db.replace(id, old, next)
}
