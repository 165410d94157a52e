package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// query selects rows of a view: those whose keys in the index lie in
// [from, to), where nil means unbounded.
type query struct {
	from, to    []byte
	descending  bool
	limit       int // below zero: no limit
	skip        int
	includeDocs bool
	reduce      bool
}

// parseQuery parses the parameters, which are JSON values. Unknown parameters are
// ignored. So is "stale", because the indexes are never stale.
func parseQuery(values url.Values) (*query, error) {
	q := &query{limit: -1, reduce: true}
	wrong := func(reason string) error { return &refusal{http.StatusBadRequest, "query_parse_error", reason} }
	for name, into := range map[string]any{
		"descending": &q.descending, "include_docs": &q.includeDocs, "reduce": &q.reduce, "limit": &q.limit, "skip": &q.skip,
	} {
		if text := values.Get(name); text != "" && json.Unmarshal([]byte(text), into) != nil {
			return nil, wrong("A query parameter has a value of the wrong type.")
		}
	}
	if q.skip < 0 || q.limit < 0 && values.Has("limit") {
		return nil, wrong("limit and skip must not be negative.")
	}
	var start, end []byte
	for _, name := range []string{"startkey", "endkey", "key"} {
		text := values.Get(name)
		if text == "" {
			continue
		}
		key, err := collate([]byte(text))
		if err != nil {
			return nil, wrong("Invalid JSON in a key.")
		}
		if name != "endkey" {
			start = key
		}
		if name != "startkey" {
			end = key
		}
	}
	q.from, q.to = start, end
	if q.descending {
		q.from, q.to = end, start
	}
	// The rows of a key begin with it and then have the id of a document, which
	// does not begin with this byte.
	if q.to != nil {
		q.to = append(bytes.Clone(q.to), 0xff)
	}
	return q, nil
}

// scan gives the rows of an index in range, in the order asked for.
func (q *query) scan(b *bolt.Bucket) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		if b == nil {
			return
		}
		c := b.Cursor()
		next := c.Next
		if q.descending {
			next = c.Prev
		}
		for k, v := q.first(c); k != nil && bytes.Compare(k, q.from) >= 0 && (q.to == nil || bytes.Compare(k, q.to) < 0); k, v = next() {
			if !yield(decodeRow(k, v)) {
				return
			}
		}
	}
}

func (q *query) first(c *bolt.Cursor) (k, v []byte) {
	if !q.descending {
		return c.Seek(q.from)
	}
	if q.to != nil {
		if k, _ := c.Seek(q.to); k != nil {
			return c.Prev()
		}
	}
	return c.Last()
}

// queryView answers with the rows of a view, or with their number.
func (db *database) queryView(r *request) (answer, error) {
	name := r.PathValue("design") + "/" + r.PathValue("view")
	i := slices.IndexFunc(views, func(v view) bool { return v.name == name })
	if i < 0 {
		return nil, notFound("missing_named_view")
	}
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		return nil, err
	}
	rows, found, counting := []any{}, 0, views[i].counts && q.reduce
	for r, err := range q.scan(db.root.Bucket(bucketViews).Bucket([]byte(name))) {
		if err != nil {
			return nil, err
		}
		if found++; counting || found <= q.skip {
			continue
		}
		if q.limit >= 0 && len(rows) >= q.limit {
			break
		}
		made, err := db.viewRow(views[i], r, q.includeDocs)
		if err != nil {
			return nil, err
		}
		rows = append(rows, made)
	}
	if counting && found > 0 { // no row if there are none, as CouchDB has it
		rows = append(rows, countRow{Value: found})
	}
	return map[string]any{"rows": rows}, nil
}

// countRow is the one row of a view that is reduced to a number.
type countRow struct {
	Key   any `json:"key"`
	Value int `json:"value"`
}

// viewRow is one row of an answer.
type viewRow struct {
	ID    string          `json:"id"`
	Key   json.RawMessage `json:"key"`
	Value json.RawMessage `json:"value"`
	Doc   json.RawMessage `json:"doc,omitempty"`
}

func (db *database) viewRow(v view, r row, withDoc bool) (viewRow, error) {
	out := viewRow{ID: r.id, Key: r.key, Value: r.value}
	if len(r.value) == 0 {
		out.Value = json.RawMessage("1") // of a view that only counts
	}
	if v.summary == nil && !withDoc {
		return out, nil
	}
	rec, err := db.existing(r.id)
	if err != nil {
		return out, fmt.Errorf("read document %s of index %s: %w", r.id, v.name, err)
	}
	if v.summary != nil {
		var doc members
		if err = json.Unmarshal(rec.body, &doc); err == nil {
			out.Value, err = json.Marshal(v.summary(doc))
		}
		if err != nil {
			return out, fmt.Errorf("summarise document %s: %w", r.id, err)
		}
	}
	if withDoc {
		out.Doc = rec.render(r.id)
	}
	return out, nil
}
