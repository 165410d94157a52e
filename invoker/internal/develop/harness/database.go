package harness

import (
	"context"
	"errors"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// Database is the database of an installation. A test uses it as a controller does.
// Actions and records belong to the namespace guest.
type Database struct{ *couchdb.Client }

// OpenDatabase connects to a database until the end of the test.
func OpenDatabase(t testing.TB, cfg couchdb.Config) Database {
	t.Helper()
	c, err := couchdb.New(cfg)
	check.NoError(t, err)
	t.Cleanup(c.Close)
	return Database{c}
}

// StoreAction stores an action and returns its revision.
func (d Database) StoreAction(t testing.TB, a Action) (revision string) {
	t.Helper()
	return d.Store(t, d.Names().Whisks, "guest/"+a.Name, a.Document(t))
}

// Store stores a document and returns its revision.
func (d Database) Store(t testing.TB, db, id string, doc []byte) (revision string) {
	t.Helper()
	revision, err := d.Put(context.Background(), db, id, doc)
	check.NoError(t, err, "store %s", id)
	return revision
}

// StoredRecord returns the stored record of an activation, or nil if there is none.
func (d Database) StoredRecord(t testing.TB, id string) []byte {
	t.Helper()
	doc, err := d.Get(context.Background(), d.Names().Activations, "guest/"+id)
	if errors.Is(err, couchdb.ErrNotFound) {
		return nil
	}
	check.NoError(t, err)
	return doc
}

// AwaitRecord blocks until the record of an activation is stored, and returns it.
func (d Database) AwaitRecord(t testing.TB, id activation.ID) (r *activation.Record) {
	t.Helper()
	peertest.Until(t, "the record of "+string(id), func() string {
		doc := d.StoredRecord(t, string(id))
		if doc == nil {
			return "is not written"
		}
		var err error
		r, err = activation.DecodeRecord(doc)
		check.NoError(t, err, "record %s", id)
		return ""
	})
	return r
}
