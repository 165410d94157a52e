package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	bolt "go.etcd.io/bbolt"
)

// query is what is asked of a view. Keys are collated; nil means unbounded.
type query struct {
	start, end   []byte
	inclusiveEnd bool
	descending   bool
	limit        int // below zero: no limit
	skip         int
	includeDocs  bool
	reduce       bool
}

// parseQuery reads the parameters, which are JSON values. Others, such as
// "stale", make no difference here: the indexes are never stale.
func parseQuery(values url.Values) (*query, error) {
	q := &query{inclusiveEnd: true, limit: -1, reduce: true}
	wrong := func(reason string) error { return &refusal{http.StatusBadRequest, "query_parse_error", reason} }
	for name, into := range map[string]any{
		"inclusive_end": &q.inclusiveEnd, "descending": &q.descending, "include_docs": &q.includeDocs,
		"reduce": &q.reduce, "limit": &q.limit, "skip": &q.skip,
	} {
		if text := values.Get(name); text != "" && json.Unmarshal([]byte(text), into) != nil {
			return nil, wrong("A query parameter has a value of the wrong type.")
		}
	}
	if q.skip < 0 || q.limit < 0 && values.Has("limit") {
		return nil, wrong("limit and skip must not be negative.")
	}
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
			q.start = key
		}
		if name != "startkey" {
			q.end = key
		}
	}
	return q, nil
}

// scan walks an index in the order asked for and calls fn with the rows in
// range, until it returns false.
func (q *query) scan(b *bolt.Bucket, fn func(row) (more bool, err error)) error {
	if b == nil {
		return nil
	}
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

func (s *Store) queryView(r *request, name string) error {
	v, ok := findView(name)
	if !ok {
		return notFound("missing_named_view")
	}
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		return err
	}
	return s.view(r, func(db *database) error {
		index := db.root.Bucket(bucketViews).Bucket([]byte(name))
		if v.counts && q.reduce {
			n, err := q.count(index)
			if err != nil {
				return err
			}
			return r.reply(http.StatusOK, map[string]any{"rows": n})
		}
		rows, err := db.rows(v, q, index)
		if err != nil {
			return err
		}
		total := uint64(0)
		if index != nil {
			total = index.Sequence()
		}
		return r.reply(http.StatusOK, map[string]any{"total_rows": total, "offset": q.skip, "rows": rows})
	})
}

// countRow is the one row of a view that is reduced to a number.
type countRow struct {
	Key   any `json:"key"`
	Value int `json:"value"`
}

// count reduces a view: every value that is summed here is 1. No row is no
// answer, as CouchDB has it.
func (q *query) count(index *bolt.Bucket) ([]countRow, error) {
	n := 0
	err := q.scan(index, func(row) (bool, error) {
		n++
		return true, nil
	})
	if n == 0 {
		return []countRow{}, err
	}
	return []countRow{{Value: n}}, err
}

// viewRow is one row of an answer.
type viewRow struct {
	ID    string          `json:"id"`
	Key   json.RawMessage `json:"key"`
	Value json.RawMessage `json:"value"`
	Doc   json.RawMessage `json:"doc,omitempty"`
}

// rows answers a view without reducing.
func (db *database) rows(v view, q *query, index *bolt.Bucket) ([]viewRow, error) {
	out := []viewRow{}
	skip := q.skip
	err := q.scan(index, func(r row) (bool, error) {
		if q.limit >= 0 && len(out) >= q.limit {
			return false, nil
		}
		if skip > 0 {
			skip--
			return true, nil
		}
		made, err := db.viewRow(v, r, q.includeDocs)
		out = append(out, made)
		return true, err
	})
	return out, err
}

func (db *database) viewRow(v view, r row, withDoc bool) (viewRow, error) {
	out := viewRow{ID: r.id, Key: r.text, Value: r.value}
	if v.value == nil && !withDoc {
		return out, nil
	}
	rec, err := db.existing(r.id)
	if err != nil {
		return out, fmt.Errorf("read document %s of index %s: %w", r.id, v.name, err)
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
		out.Doc = rec.render(r.id)
	}
	return out, nil
}
