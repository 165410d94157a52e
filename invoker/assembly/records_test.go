package assembly

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/peer/clients"
)

// Records go to another store where that is chosen, with what is open on disk,
// and CouchDB needs no database of records; /status shows what is wrong.
func TestRecordsOutsideCouchDB(t *testing.T) {
	a := withState(config.State{Dir: t.TempDir()})
	if err := a.openState(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.state.close() }()
	a.c.CouchDB.Activations = "activations"
	a.c.Records.Store = config.StoreCouchDB
	if _, err := a.openRecordStore(t.Context()); err != nil || a.records != nil {
		t.Errorf("without a choice: %v, %v", err, a.records)
	}
	if cfg := a.databaseConfig(); cfg.Records.Spool == nil || cfg.Activations == "" {
		t.Errorf("without a choice: %+v", cfg)
	}
	a.c.Records.Store = config.StoreCouchbase
	a.c.Couchbase = config.Couchbase{Connection: "couchbase://127.0.0.1:1", Username: "u", Password: "p", Bucket: "b"}
	var err error
	if a.records, err = clients.Records(a.c, a.recordsConfig(), quiet); err != nil || a.records == nil {
		t.Fatalf("with couchbase: %v, %v", a.records, err)
	}
	if cfg := a.databaseConfig(); cfg.Records.Spool != nil || cfg.Activations != "" {
		t.Errorf("with couchbase: %+v", cfg)
	}
	if err := a.recordStore().Put(t.Context(), "guest/1", []byte(`{}`), func(int, error) {}); err != nil {
		t.Error(err)
	}
	if err := a.records.Close(); err != nil {
		t.Error(err)
	}
	if n := a.state.spool.Documents(); n != 1 {
		t.Errorf("%d records in the spool of a cluster that never came, want 1", n)
	}
	var s status
	away := &assembly{c: a.c, records: awayStore{a.records}}
	away.recordStoreStatus(&s)
	if why := strings.Join(s.Reasons, "; "); !strings.Contains(why, "writing records: away") {
		t.Errorf("reasons %s", why)
	}
	a.c.Records.Discard = true
	if cfg := a.databaseConfig(); cfg.Activations != "" {
		t.Errorf("where records are dropped: %+v", cfg)
	}
	if s, err := clients.Records(a.c, a.recordsConfig(), nil); s != nil || err != nil {
		t.Errorf("where records are dropped: %v, %v", s, err)
	}
}

// awayStore is a store that does not take records.
type awayStore struct{ clients.Store }

func (s awayStore) Health() records.Health {
	h := s.Store.Health()
	h.Writes.LastError = "away"
	return h
}
