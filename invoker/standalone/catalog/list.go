package catalog

import (
	"context"
	"encoding/json"

	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/couchdb"
)

// View is one of the lists that the database keeps of entities.
type View string

// Views of entities, by the path they lie under.
const (
	Actions        View = "actions"
	Packages       View = "packages"
	PublicPackages View = "packages-public"
	Triggers       View = "triggers"
	Rules          View = "rules"
)

func (c *Catalog) query(v View, path string) couchdb.Query {
	return couchdb.Query{DB: c.whisks, Design: "whisks.v2.1.0", View: string(v), Prefix: path}
}

// List gives summaries (for rules: documents) of entities under a path, the
// last updated first. limit 0 means all.
func (c *Catalog) List(ctx context.Context, v View, path string, skip, limit int) ([]json.RawMessage, error) {
	q := c.query(v, path)
	q.Skip, q.Limit, q.Docs = skip, limit, v == Rules
	return c.db.Rows(ctx, q)
}

// Count tells how many there are.
func (c *Catalog) Count(ctx context.Context, v View, path string) (int, error) {
	return c.db.Count(ctx, c.query(v, path))
}
