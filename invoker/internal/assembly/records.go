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
func (db *stores) openRecordStore(ctx context.Context) (hooks, error) {
	store, err := clients.Records(db.c, db.recordsConfig(), db.Log)
	if err != nil || store == nil {
		return hooks{}, err
	}
	db.records = store
	return hooks{flush: store.Flush, close: closer(store.Close), status: db.recordStoreStatus, gauges: recordStoreGauges},
		db.await(ctx, db.c.Records.Store, store.Probe, anyError)
}

func (db *stores) recordStoreStatus(s *status) {
	h := db.records.Health()
	s.Records = &recordsStatus{db.c.Records.Store, h}
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
func (db *stores) recordsConfig() records.Config {
	r := db.c.Records
	cfg := records.Config{
		Requests:  r.Requests,
		BatchDocs: r.Batch, BatchBytes: int(r.BatchSize),
		BufferDocs: r.Buffer, BufferBytes: int(r.BufferSize),
		Linger: r.Linger,
	}
	db.state.into(&cfg)
	return cfg
}

// databaseConfig returns the settings of CouchDB. If records go to another store, CouchDB gets
// no spool and no dead letters.
func (db *stores) databaseConfig() couchdb.Config {
	cfg := clients.CouchDB(db.c, db.Log)
	cfg.Steps = db.steps.Begin
	if db.bucket != nil {
		cfg.Bucket = db.bucket
	}
	if cfg.Activations != "" {
		cfg.Records = db.recordsConfig()
	}
	return cfg
}

// recordStore returns the store of the records.
func (db *stores) recordStore() invoker.Records {
	switch {
	case db.c.Records.Discard:
		return discard{}
	case db.records != nil:
		return recordSink{db.records, db.steps}
	}
	return recordSink{db.store, db.steps}
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
