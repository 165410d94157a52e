package catalog

import (
	"context"
	"errors"
	"fmt"

	"encoding/json"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/couchdb"
)

// Record reads the record of an activation in a namespace.
func (c *Catalog) Record(ctx context.Context, namespace string, id activation.ID) (*activation.Record, error) {
	doc, err := c.db.Get(ctx, c.records, namespace+"/"+string(id))
	if err != nil {
		return nil, fmt.Errorf("read record %s: %w", id, err)
	}
	return activation.DecodeRecord(doc)
}

// SaveRecord writes a record; one that is there already counts as written.
func (c *Catalog) SaveRecord(ctx context.Context, r *activation.Record, now int64) error {
	_, err := c.db.Put(ctx, c.records, r.DocumentID(), r.Document(now))
	if err != nil && !errors.Is(err, couchdb.ErrConflict) {
		return fmt.Errorf("write record %s: %w", r.ActivationID, err)
	}
	return nil
}

// RecordQuery selects records of one namespace by the time they started.
type RecordQuery struct {
	Namespace   string
	Name        string // action, or package/action; empty for all
	Since, Upto int64  // epoch milliseconds, both included; 0 for no bound
	Skip, Limit int
}

func (c *Catalog) recordQuery(q RecordQuery) couchdb.Query {
	out := couchdb.Query{
		DB: c.records, Design: "whisks.v2.1.0", View: "activations", Prefix: q.Namespace,
		From: q.Since, To: q.Upto, Skip: q.Skip, Limit: q.Limit,
	}
	if q.Name != "" {
		out.Design = "whisks-filters.v2.1.1"
		out.Prefix += "/" + q.Name
	}
	return out
}

// Summaries lists records in short, the last started first.
func (c *Catalog) Summaries(ctx context.Context, q RecordQuery) ([]json.RawMessage, error) {
	return c.db.Rows(ctx, c.recordQuery(q))
}

// Records lists whole records, the last started first.
func (c *Catalog) Records(ctx context.Context, q RecordQuery) ([]*activation.Record, error) {
	query := c.recordQuery(q)
	query.Docs = true
	docs, err := c.db.Rows(ctx, query)
	if err != nil {
		return nil, err
	}
	records := make([]*activation.Record, 0, len(docs))
	for _, doc := range docs {
		r, err := activation.DecodeRecord(doc)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

// CountRecords tells how many records there are.
func (c *Catalog) CountRecords(ctx context.Context, q RecordQuery) (int, error) {
	return c.db.Count(ctx, c.recordQuery(q))
}
