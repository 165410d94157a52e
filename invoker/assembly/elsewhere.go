package assembly

import (
	"context"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/stores"
)

// recordsStatus is what /status shows of a store of records that is not CouchDB.
type recordsStatus struct {
	Store string `json:"store"`
	records.Health
}

// openElsewhere opens the store of records where that is not CouchDB, and waits
// for it.
func (a *assembly) openElsewhere(ctx context.Context) (err error) {
	if a.elsewhere, err = stores.Records(a.c, a.recordsConfig(), a.Log); err != nil || a.elsewhere == nil {
		return err
	}
	return a.await(ctx, a.c.Records.Store, a.elsewhere.Probe)
}

func (a *assembly) flushElsewhere(ctx context.Context) error {
	if a.elsewhere == nil {
		return nil
	}
	return a.elsewhere.Flush(ctx)
}

func (a *assembly) closeElsewhere(context.Context) error {
	if a.elsewhere == nil {
		return nil
	}
	return a.elsewhere.Close()
}

// recordsConfig is the way of records, with what is open on disk.
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

// databaseConfig is CouchDB's. Where records go elsewhere it has no database of
// them, and nothing of theirs on disk.
func (a *assembly) databaseConfig() couchdb.Config {
	cfg := couchConfig(a.c, a.Log)
	cfg.Steps = a.steps
	if a.bucket != nil {
		cfg.Bucket = a.bucket
	}
	if a.elsewhere != nil {
		cfg.Activations = ""
		return cfg
	}
	cfg.Records = a.recordsConfig()
	return cfg
}

// recordStore is where records go.
func (a *assembly) recordStore() invoker.Records {
	switch {
	case a.c.Records.Discard:
		return discard{}
	case a.elsewhere != nil:
		return sink{a.elsewhere, a.steps, a.c.Records.Store}
	}
	return sink{a.store, a.steps, a.c.CouchDB.Activations}
}
