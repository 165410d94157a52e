package store

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
)

// docResult is CouchDB's answer for one written document.
type docResult struct {
	OK     bool   `json:"ok,omitempty"`
	ID     string `json:"id"`
	Rev    string `json:"rev,omitempty"`
	Error  string `json:"error,omitempty"`
	Reason string `json:"reason,omitempty"`
}

func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails, see crypto/rand
	return hex.EncodeToString(b)
}

// bulkDocs writes many documents in one commit, each accepted or refused by
// itself.
func (s *Store) bulkDocs(r *request) error {
	if r.Method != http.MethodPost {
		return notAllowed()
	}
	raw, err := r.body()
	if err != nil {
		return err
	}
	docs, err := parseBulk(raw)
	if err != nil {
		return err
	}
	results := make([]docResult, len(docs))
	err = s.change(r, func(db *database) (*apiError, error) {
		for i, in := range docs {
			rev, refusal, err := put(db, in)
			if err != nil {
				return nil, err
			}
			results[i] = resultOf(in.id, rev, refusal)
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	return r.reply(http.StatusCreated, results)
}

func parseBulk(raw []byte) ([]*incoming, error) {
	var request struct {
		Docs     []json.RawMessage `json:"docs"`
		NewEdits *bool             `json:"new_edits"`
	}
	if err := json.Unmarshal(raw, &request); err != nil {
		return nil, &apiError{400, "bad_request", "invalid UTF-8 JSON"}
	}
	if request.Docs == nil {
		return nil, &apiError{400, "bad_request", "POST body must include `docs` parameter."}
	}
	if request.NewEdits != nil && !*request.NewEdits {
		return nil, notServed() // replication
	}
	docs := make([]*incoming, len(request.Docs))
	for i, doc := range request.Docs {
		in, err := parseDoc(doc)
		if err != nil {
			return nil, err
		}
		if in.id == "" {
			in.id = newID()
		}
		if refusal := validID(in.id); refusal != nil {
			return nil, refusal
		}
		docs[i] = in
	}
	return docs, nil
}

func resultOf(id, rev string, refusal *apiError) docResult {
	if refusal != nil {
		return docResult{ID: id, Error: refusal.word, Reason: refusal.reason}
	}
	return docResult{OK: true, ID: id, Rev: rev}
}

// allDocs lists documents by id. Ids are keys there, so ranges work as in a
// view, over the bare bytes of the id.
func (s *Store) allDocs(r *request) error {
	q, err := r.rows()
	if err != nil {
		return err
	}
	var text []byte
	err = s.view(r, func(db *database) error {
		rows, err := db.allRows(q)
		if err != nil {
			return err
		}
		text, err = json.Marshal(map[string]any{"total_rows": db.docs.Sequence(), "offset": q.skip, "rows": rows})
		return err
	})
	if err != nil {
		return err
	}
	return r.replyRaw(http.StatusOK, text)
}

// allRow is a row of _all_docs; a key that was asked for and is not there has
// an error instead of a value.
type allRow struct {
	ID    string          `json:"id,omitempty"`
	Key   string          `json:"key"`
	Value any             `json:"value,omitempty"`
	Doc   json.RawMessage `json:"doc,omitempty"`
	Error string          `json:"error,omitempty"`
}

func (db *database) allRows(q *query) ([]allRow, error) {
	rows := []allRow{}
	add := func(id string) (bool, error) {
		row, found, err := db.allRow(id, q.includeDocs)
		if err != nil {
			return false, err
		}
		if found || q.keys != nil {
			rows = append(rows, row)
		}
		return q.limit < 0 || len(rows) < q.skip+q.limit, nil
	}
	err := db.eachID(q, add)
	if err != nil {
		return nil, err
	}
	rows = rows[min(q.skip, len(rows)):]
	if q.limit >= 0 && len(rows) > q.limit {
		rows = rows[:q.limit]
	}
	return rows, nil
}

func (db *database) allRow(id string, withDoc bool) (allRow, bool, error) {
	rec, err := db.record(id)
	if err != nil {
		return allRow{}, false, err
	}
	if rec == nil || rec.deleted() {
		return allRow{Key: id, Error: "not_found"}, false, nil
	}
	row := allRow{ID: id, Key: id, Value: map[string]string{"rev": rec.rev}}
	if withDoc {
		row.Doc, err = db.rendered(id, rec, false)
	}
	return row, true, err
}

// eachID calls fn with the ids in range, in order, until it says stop.
func (db *database) eachID(q *query, fn func(string) (bool, error)) error {
	if q.keys != nil {
		for _, key := range q.keys {
			if more, err := fn(rawID(key)); err != nil || !more {
				return err
			}
		}
		return nil
	}
	low, high := q.start, q.end
	c := db.docs.Cursor()
	k, _ := c.First()
	step := c.Next
	switch {
	case q.descending && low != nil:
		if k, _ = c.Seek(append([]byte(rawID(low)), 0)); k == nil {
			k, _ = c.Last()
		} else {
			k, _ = c.Prev()
		}
	case q.descending:
		k, _ = c.Last()
	case low != nil:
		k, _ = c.Seek([]byte(rawID(low)))
	}
	if q.descending {
		step = c.Prev
	}
	for ; k != nil; k, _ = step() {
		if high != nil && q.beyond(appendKey(nil, string(k))) {
			return nil
		}
		if more, err := fn(string(k)); err != nil || !more {
			return err
		}
	}
	return nil
}

// rawID turns a collated key back into an id. What is no string sorts below
// every id when it is less than one, and above them all otherwise.
func rawID(key []byte) string {
	if len(key) == 0 || key[0] < markString {
		return ""
	}
	if key[0] > markString {
		return "\xff\xff\xff\xff"
	}
	body := key[1 : len(key)-1]
	return string(bytes.ReplaceAll(body, []byte{markEnd, 0xff}, []byte{markEnd}))
}
