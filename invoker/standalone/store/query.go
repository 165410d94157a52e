package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	bolt "go.etcd.io/bbolt"
)

// query are the parameters of a view or of _all_docs. Keys are collated; nil
// means unbounded.
type query struct {
	start, end   []byte
	keys         [][]byte // exactly these, in this order
	inclusiveEnd bool
	descending   bool
	limit        int // below zero: no limit
	skip         int
	includeDocs  bool
	reduce       *bool
}

// queryFields are the parameters that are JSON values, in a URL as in a body.
type queryFields struct {
	Key          json.RawMessage   `json:"key"`
	Keys         []json.RawMessage `json:"keys"`
	StartKey     json.RawMessage   `json:"startkey"`
	StartKey2    json.RawMessage   `json:"start_key"`
	EndKey       json.RawMessage   `json:"endkey"`
	EndKey2      json.RawMessage   `json:"end_key"`
	InclusiveEnd *bool             `json:"inclusive_end"`
	Descending   bool              `json:"descending"`
	Limit        *int              `json:"limit"`
	Skip         int               `json:"skip"`
	IncludeDocs  bool              `json:"include_docs"`
	Reduce       *bool             `json:"reduce"`
}

// parseQuery reads the parameters from the URL and, for a POST, from the body,
// which has the last word. It answers with an *apiError.
func parseQuery(values url.Values, body []byte) (*query, error) {
	fields := map[string]json.RawMessage{}
	for name := range values {
		fields[name] = json.RawMessage(values.Get(name))
	}
	if len(bytes.TrimSpace(body)) > 0 {
		if err := json.Unmarshal(body, &fields); err != nil {
			return nil, &apiError{400, "bad_request", "invalid UTF-8 JSON"}
		}
	}
	for name := range fields {
		if !knownParam(name) {
			delete(fields, name) // "stale" and its like: the indexes are never stale
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, &apiError{400, "query_parse_error", "A query parameter is not valid JSON."}
	}
	var f queryFields
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, &apiError{400, "query_parse_error", "A query parameter has a value of the wrong type."}
	}
	return f.query()
}

func knownParam(name string) bool {
	switch name {
	case "key", "keys", "startkey", "start_key", "endkey", "end_key", "inclusive_end",
		"descending", "limit", "skip", "include_docs", "reduce":
		return true
	}
	return false
}

func (f *queryFields) query() (*query, error) {
	q := &query{inclusiveEnd: true, descending: f.Descending, limit: -1, skip: f.Skip,
		includeDocs: f.IncludeDocs, reduce: f.Reduce}
	if f.Limit != nil {
		q.limit = *f.Limit
	}
	if f.InclusiveEnd != nil {
		q.inclusiveEnd = *f.InclusiveEnd
	}
	if q.skip < 0 || f.Limit != nil && *f.Limit < 0 {
		return nil, &apiError{400, "query_parse_error", "limit and skip must not be negative."}
	}
	return q, f.keyRange(q)
}

func (f *queryFields) keyRange(q *query) error {
	set := func(into *[]byte, texts ...json.RawMessage) error {
		for _, text := range texts {
			if text == nil {
				continue
			}
			key, err := collate(text)
			if err != nil {
				return &apiError{400, "query_parse_error", "Invalid JSON in a key."}
			}
			*into = key
		}
		return nil
	}
	for _, text := range f.Keys {
		var key []byte
		if err := set(&key, text); err != nil {
			return err
		}
		q.keys = append(q.keys, key)
	}
	if err := set(&q.start, f.StartKey, f.StartKey2, f.Key); err != nil {
		return err
	}
	return set(&q.end, f.EndKey, f.EndKey2, f.Key)
}

// scan walks an index in the order asked for and calls fn with the rows in
// range, until it says stop.
func (q *query) scan(b *bolt.Bucket, fn func(row) (more bool, err error)) error {
	if b == nil {
		return nil
	}
	if q.keys == nil {
		return q.scanRange(b, fn)
	}
	for _, key := range q.keys {
		one := query{start: key, end: key, inclusiveEnd: true, descending: q.descending}
		if err := one.scanRange(b, fn); err != nil {
			return err
		}
	}
	return nil
}

func (q *query) scanRange(b *bolt.Bucket, fn func(row) (bool, error)) error {
	c := b.Cursor()
	step := c.Next
	if q.descending {
		step = c.Prev
	}
	for k, v := q.first(c); k != nil; k, v = step() {
		r, err := decodeRow(k, v)
		if err != nil {
			return err
		}
		if q.before(r.collated) {
			continue
		}
		if q.beyond(r.collated) {
			return nil
		}
		if more, err := fn(r); err != nil || !more {
			return err
		}
	}
	return nil
}

// first positions the cursor at or shortly before the first row in range.
func (q *query) first(c *bolt.Cursor) ([]byte, []byte) {
	switch {
	case q.start == nil && q.descending:
		return c.Last()
	case q.start == nil:
		return c.First()
	case !q.descending:
		return c.Seek(q.start)
	}
	// Rows of the start key itself follow it in the index, their document ids
	// behind the key: seek past them all.
	if k, _ := c.Seek(append(bytes.Clone(q.start), 0xff, 0xff, 0xff, 0xff)); k == nil {
		return c.Last()
	}
	return c.Prev()
}

func (q *query) before(key []byte) bool {
	if q.start == nil {
		return false
	}
	order := bytes.Compare(key, q.start)
	return order < 0 && !q.descending || order > 0 && q.descending
}

func (q *query) beyond(key []byte) bool {
	if q.end == nil {
		return false
	}
	order := bytes.Compare(key, q.end)
	if order == 0 {
		return !q.inclusiveEnd
	}
	return order > 0 != q.descending
}

// viewRow is one row of an answer.
type viewRow struct {
	ID    string          `json:"id"`
	Key   json.RawMessage `json:"key"`
	Value json.RawMessage `json:"value"`
	Doc   json.RawMessage `json:"doc,omitempty"`
}

// rows answers a view without reducing.
func (db *database) rows(v view, q *query) ([]viewRow, error) {
	out := []viewRow{}
	skip := q.skip
	err := q.scan(db.viewBucket(v.name), func(r row) (bool, error) {
		if q.limit >= 0 && len(out) >= q.limit {
			return false, nil
		}
		if skip > 0 {
			skip--
			return true, nil
		}
		made, err := db.viewRow(v, r, q.includeDocs)
		if err != nil {
			return false, err
		}
		out = append(out, made)
		return true, nil
	})
	return out, err
}

func (db *database) viewBucket(name string) *bolt.Bucket {
	return db.root.Bucket(bucketViews).Bucket([]byte(name))
}

func (db *database) viewRow(v view, r row, withDoc bool) (viewRow, error) {
	out := viewRow{ID: r.id, Key: bytes.Clone(r.text), Value: bytes.Clone(r.value)}
	if v.value == nil && !withDoc {
		return out, nil
	}
	rec, err := db.record(r.id)
	if err != nil {
		return out, err
	}
	if rec == nil || rec.deleted() {
		return out, fmt.Errorf("index %s names document %s, which is gone", v.name, r.id)
	}
	if v.value != nil {
		var doc indexed
		if err := json.Unmarshal(rec.body, &doc); err != nil {
			return out, fmt.Errorf("summarise document %s: %w", r.id, err)
		}
		if out.Value, err = json.Marshal(v.value(&doc)); err != nil {
			return out, fmt.Errorf("summarise document %s: %w", r.id, err)
		}
	}
	if withDoc {
		if out.Doc, err = db.rendered(r.id, rec, false); err != nil {
			return out, err
		}
	}
	return out, nil
}

// count reduces a view: every value that is summed here is 1.
func (db *database) count(v view, q *query) (int, error) {
	n := 0
	err := q.scan(db.viewBucket(v.name), func(row) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}

func (db *database) rendered(id string, r *record, withData bool) ([]byte, error) {
	atts, err := db.inlineAtts(id, r, withData)
	if err != nil {
		return nil, fmt.Errorf("render attachments of %s: %w", id, err)
	}
	return render(id, r, atts), nil
}

// reduced tells whether the answer is a single number.
func (q *query) reduced(v view) bool {
	return v.reduce != "" && (q.reduce == nil || *q.reduce)
}

func countBody(n int) []byte {
	if n == 0 {
		return []byte(`{"rows":[]}`)
	}
	return []byte(`{"rows":[{"key":null,"value":` + strconv.Itoa(n) + `}]}`)
}
