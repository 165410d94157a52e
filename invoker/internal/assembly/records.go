package assembly

import (
	"context"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/clients"
)

// recordsStatus is the part of /status about a store of records other than CouchDB.
type recordsStatus struct {
	Store string `json:"store"`
	records.Health
}

// openRecordStore opens the store of records if it is not CouchDB. It blocks until the store
// answers.
func (a *assembly) openRecordStore(ctx context.Context) (hooks, error) {
	store, err := clients.Records(a.c, a.recordsConfig(), a.Log)
	if err != nil || store == nil {
		return hooks{}, err
	}
	a.records = store
	return hooks{flush: store.Flush, close: closer(store.Close), status: a.recordStoreStatus, gauges: recordStoreGauges},
		a.await(ctx, a.c.Records.Store, store.Probe, anyError)
}

func (a *assembly) recordStoreStatus(s *status) {
	h := a.records.Health()
	s.Records = &recordsStatus{a.c.Records.Store, h}
	s.because("writing records", h.Writes.LastError)
	s.because("spooling records", h.Spool.LastError)
}

func recordStoreGauges(s *status, m sink) { recordGauges(s.Records.Health, m) }

// recordGauges exports the gauges of any store of records.
func recordGauges(h records.Health, m sink) {
	m.gauge("records_waiting", "Activation records in memory that are not written yet.", float64(h.BufferedDocs))
	m.gauge("records_refused", "Activation records in the queue that the store refused or failed on, and that are tried again.", float64(h.Refused))
}

// recordsConfig returns the settings for batching and buffering records, with the open files.
func (a *assembly) recordsConfig() records.Config {
	r := a.c.Records
	cfg := records.Config{
		Requests:  r.Requests,
		BatchDocs: r.Batch, BatchBytes: int(r.BatchSize),
		BufferDocs: r.Buffer, BufferBytes: int(r.BufferSize),
		Linger: r.Linger,
	}
	a.state.into(&cfg)
	return cfg
}

// databaseConfig returns the settings of CouchDB. If records go to another store, CouchDB gets
// no spool and no dead letters.
func (a *assembly) databaseConfig() couchdb.Config {
	cfg := clients.CouchDB(a.c, a.Log)
	cfg.Steps = a.steps.Begin
	if a.bucket != nil {
		cfg.Bucket = a.bucket
	}
	if cfg.Activations != "" {
		cfg.Records = a.recordsConfig()
	}
	return cfg
}

// recordStore returns the store of the records.
func (a *assembly) recordStore() invoker.Records {
	switch {
	case a.c.Records.Discard:
		return discard{}
	case a.records != nil:
		return recordSink{a.records, a.steps}
	}
	return recordSink{a.store, a.steps}
}

// recordSink writes records to a store.
type recordSink struct {
	store interface {
		PutDocument(ctx context.Context, doc records.Document) error
	}
	steps *invoker.StepObserver
}

func (s recordSink) Put(ctx context.Context, id string, doc []byte, stored func(batch int, err error)) error {
	ended := s.steps.Begin("database_saveDocument", 0)
	return s.store.PutDocument(ctx, records.Document{ID: id, Body: doc, Stored: func(batch int, err error) {
		ended(err)
		stored(batch, err)
	}})
}

// discard is the store of a deployment without records.
type discard struct{}

func (discard) Put(_ context.Context, _ string, _ []byte, stored func(batch int, err error)) error {
	stored(0, nil)
	return nil
}
