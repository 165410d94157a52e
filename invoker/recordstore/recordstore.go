// Package recordstore opens the store of activation records that a configuration
// names, where that is not CouchDB. It decides nothing else: how records travel
// is activation/records, how a store is spoken to is its adapter.
package recordstore

import (
	"context"
	"log/slog"

	"github.com/gpuwhisk/gpuwhisk/activation/couchbase"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// Store takes records.
type Store interface {
	// PutDocument hands over the document of a record.
	PutDocument(ctx context.Context, doc records.Document) error
	// Probe asks whether records can be written, and writes none.
	Probe(ctx context.Context) error
	Flush(ctx context.Context) error
	Health() records.Health
	Close() error
}

// Open opens the configured store; nil where records go to CouchDB or nowhere.
// It does not wait for it.
func Open(c *config.Config, way records.Config, log *slog.Logger) (Store, error) {
	if !c.RecordsElsewhere() {
		return nil, nil
	}
	d := c.Couchbase
	s, err := couchbase.Open(couchbase.Config{
		Connection: d.Connection, Username: d.Username, Password: d.Password,
		Bucket: d.Bucket, Scope: d.Scope, Collection: d.Collection, Certificate: d.Certificate,
		Records: way, Log: log,
	})
	if err != nil {
		return nil, err // a typed nil would be a Store
	}
	return s, nil
}
