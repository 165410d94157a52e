package assembly

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/clients"
)

// Records go to another store if one is configured, together with the open files, and CouchDB
// needs no database of records. /status shows errors of the store.
func TestRecordsOutsideCouchDB(t *testing.T) {
	a := withState(config.State{Dir: t.TempDir()})
	a.steps = invoker.NewStepObserver(prometheus.NewRegistry())
	check.NoError(t, a.state.open())
	defer func() { _ = a.state.close() }()
	a.c.CouchDB.Activations = "activations"
	a.c.Records.Store = config.StoreCouchDB
	_, err := a.stores.openRecordStore(t.Context())
	check.NoError(t, err, "without a choice")
	check.That(t, a.stores.records == nil, "without a choice")
	cfg := a.stores.databaseConfig()
	check.That(t, cfg.Records.Spool != nil, "without a choice")
	check.That(t, cfg.Activations != "", "without a choice")
	a.c.Records.Store = config.StoreCouchbase
	a.c.Couchbase = config.Couchbase{Connection: "couchbase://127.0.0.1:1", Username: "u", Password: "p", Bucket: "b"}
	a.stores.records, err = clients.Records(a.c, a.stores.recordsConfig(), quiet)
	check.NoError(t, err)
	check.That(check.Must(t), a.stores.records != nil)
	cfg = a.stores.databaseConfig()
	check.That(t, cfg.Records.Spool == nil, "with couchbase")
	check.Equal(t, cfg.Activations, "", "with couchbase")
	check.NoError(t, a.stores.recordStore().Put(t.Context(), "guest/1", []byte(`{}`), func(int, error) {}))
	check.NoError(t, a.stores.records.Close())
	check.Equal(t, a.state.spool.Documents(), 1, "of a cluster that never came")
	var s status
	away := &stores{base: a.base, records: awayStore{a.stores.records}}
	away.recordStoreStatus(&s)
	check.Contains(t, strings.Join(s.Reasons, "; "), "writing records: away")
	a.c.Records.Discard = true
	check.Equal(t, a.stores.databaseConfig().Activations, "", "where records are dropped")
	store, err := clients.Records(a.c, a.stores.recordsConfig(), nil)
	check.NoError(t, err)
	check.That(t, store == nil, "where records are dropped")
}

// awayStore is a store that does not take records.
type awayStore struct{ clients.Store }

func (s awayStore) Health() records.Health {
	h := s.Store.Health()
	h.Writes.LastError = "away"
	return h
}
