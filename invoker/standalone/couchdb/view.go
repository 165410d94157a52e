package couchdb

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// Query asks a view for the rows with keys [Prefix, From] to [Prefix, To],
// newest first. The views of a deployment are keyed by namespace and time.
type Query struct {
	DB, Design, View string
	Prefix           string
	From             int64
	To               int64 // 0: no upper end
	Skip, Limit      int   // Limit 0: all
	Docs             bool  // whole documents instead of summaries
}

func (q Query) values() url.Values {
	low, _ := json.Marshal([]any{q.Prefix, q.From})
	var top any = map[string]any{} // an object sorts above every number
	if q.To > 0 {
		top = q.To
	}
	high, _ := json.Marshal([]any{q.Prefix, top})
	return url.Values{"startkey": {string(high)}, "endkey": {string(low)}, "descending": {"true"}}
}

func (q Query) path() []string { return []string{q.DB, "_design", q.Design, "_view", q.View} }

// Rows returns the summaries, or the documents, of the rows in range.
func (c *Client) Rows(ctx context.Context, q Query) ([]json.RawMessage, error) {
	values := q.values()
	values.Set("reduce", "false")
	if q.Skip > 0 {
		values.Set("skip", strconv.Itoa(q.Skip))
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Docs {
		values.Set("include_docs", "true")
	}
	body, err := c.do(ctx, request{method: http.MethodGet, path: q.path(), query: values})
	if err != nil {
		return nil, fmt.Errorf("query view %s: %w", q.View, err)
	}
	var answer struct {
		Rows []struct{ Value, Doc json.RawMessage } `json:"rows"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("decode view %s: %w", q.View, err)
	}
	out := make([]json.RawMessage, 0, len(answer.Rows))
	for _, row := range answer.Rows {
		if q.Docs {
			out = append(out, row.Doc)
		} else {
			out = append(out, row.Value)
		}
	}
	return out, nil
}

// Count returns how many rows are in range.
func (c *Client) Count(ctx context.Context, q Query) (int, error) {
	body, err := c.do(ctx, request{method: http.MethodGet, path: q.path(), query: q.values()})
	if err != nil {
		return 0, fmt.Errorf("count view %s: %w", q.View, err)
	}
	var answer struct {
		Rows []struct{ Value int } `json:"rows"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, fmt.Errorf("decode view %s: %w", q.View, err)
	}
	if len(answer.Rows) == 0 {
		return 0, nil
	}
	return answer.Rows[0].Value, nil
}

// IdentityRow is a namespace with its key, as the subjects database lists it.
type IdentityRow struct {
	Subject   string `json:"-"`
	Namespace string `json:"namespace"`
	UUID      string `json:"uuid"`
	Key       string `json:"key"`
}

// Identity finds the namespace of a key: [uuid, secret], or [namespace].
func (c *Client) Identity(ctx context.Context, key ...string) (*IdentityRow, error) {
	text, _ := json.Marshal(key)
	body, err := c.do(ctx, request{
		method: http.MethodGet,
		path:   []string{c.cfg.Names.Subjects, "_design", "subjects.v2.0.0", "_view", "identities"},
		query:  url.Values{"key": {string(text)}, "limit": {"2"}},
	})
	if err != nil {
		return nil, fmt.Errorf("look identity up: %w", err)
	}
	var answer struct {
		Rows []struct {
			ID    string
			Value IdentityRow
		} `json:"rows"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("decode identity: %w", err)
	}
	if len(answer.Rows) != 1 {
		return nil, ErrNotFound // none, or a key that two share and nobody may use
	}
	row := answer.Rows[0].Value
	row.Subject = answer.Rows[0].ID
	return &row, nil
}
