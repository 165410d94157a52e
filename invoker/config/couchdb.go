package config

import "time"

// CouchDB is where actions are read and records are written.
type CouchDB struct {
	// Protocol is "http" or "https".
	Protocol string
	Host     string
	Port     int
	Username string
	Password string
	// Provider is "CouchDB" or "Cloudant"; both speak the same protocol.
	Provider string
	// Subjects, Entities and Activations are database names.
	Subjects    string
	Entities    string
	Activations string
}

func couchdbKeys(c *Config) []*Key {
	d := &c.CouchDB
	return []*Key{
		{Name: "whisk.couchdb.protocol", required: true, value: choice(&d.Protocol, "http", "https"),
			Doc: "how CouchDB is reached"},
		{Name: "whisk.couchdb.host", required: true, value: text(&d.Host), Doc: "host of CouchDB"},
		{Name: "whisk.couchdb.port", required: true, value: integer(&d.Port, 1, 65535), Doc: "port of CouchDB"},
		{Name: "whisk.couchdb.username", required: true, value: text(&d.Username), Doc: "user at CouchDB"},
		{Name: "whisk.couchdb.password", required: true, Secret: true, value: exact(&d.Password), Doc: "password at CouchDB"},
		{Name: "whisk.couchdb.provider", Default: "CouchDB", value: choice(&d.Provider, "CouchDB", "Cloudant"),
			Doc: "declared kind of database server; both are spoken to alike"},
		{Name: "whisk.couchdb.databases.WhiskAuth", required: true, value: text(&d.Subjects),
			Doc: "database of subjects, read for the blacklist"},
		{Name: "whisk.couchdb.databases.WhiskEntity", required: true, value: text(&d.Entities),
			Doc: "database of actions, read only"},
		{Name: "whisk.couchdb.databases.WhiskActivation", required: true, value: text(&d.Activations),
			Doc: "database of activation records, written"},
	}
}

// Records is which activation records are stored, and how.
type Records struct {
	// Discard drops all records (the Noop activation store).
	Discard bool
	// Store is where records go: one of the stores. provided is what the
	// service provider of OpenWhisk says of it.
	Store    string
	provided string
	// BlockingLevel and NonBlockingLevel say which outcomes are stored:
	// STORE_ALWAYS, STORE_FAILURES or STORE_FAILURES_NOT_APPLICATION_ERRORS.
	BlockingLevel    string
	NonBlockingLevel string
	// UnstoredLogs writes a log line for a record that is not stored.
	UnstoredLogs bool
	// Requests is how many writes may be under way at once.
	Requests int
	// Batch and BatchSize bound one request; Linger is how long a batch may
	// wait to fill while others are under way.
	Batch     int
	BatchSize Size
	Linger    time.Duration
	// Buffer and BufferSize bound what may wait for CouchDB.
	Buffer     int
	BufferSize Size
}

func recordKeys(c *Config) []*Key {
	r := &c.Records
	levels := []string{"STORE_ALWAYS", "STORE_FAILURES", "STORE_FAILURES_NOT_APPLICATION_ERRORS"}
	return []*Key{
		{Name: "whisk.activation.store-blocking-result-level", Default: levels[0], value: choice(&r.BlockingLevel, levels...),
			Doc: "which blocking activations leave a record"},
		{Name: "whisk.activation.store-non-blocking-result-level", Default: levels[0], value: choice(&r.NonBlockingLevel, levels...),
			Doc: "which non-blocking activations leave a record"},
		{Name: "whisk.activation.unstored-logs-enabled", Default: "false", value: boolean(&r.UnstoredLogs),
			Doc: "write a log line for each record that is not stored"},
		{Name: "whisk.gpu.records.store", value: choice(&r.Store, StoreCouchDB, StoreCouchbase, StoreElasticsearch),
			Doc: "where records go: couchdb, couchbase by whisk.gpu.couchbase, or elasticsearch by whisk.activation-store.elasticsearch; actions are read from CouchDB in any case; empty means as whisk.spi.ActivationStoreProvider says"},
		{Name: "whisk.gpu.records.requests", Default: "4", value: integer(&r.Requests, 1, 128),
			Doc: "record writes under way at once"},
		{Name: "whisk.gpu.records.batch", Default: "500", value: integer(&r.Batch, 1, 10_000),
			Doc: "most records in one write"},
		{Name: "whisk.gpu.records.batch-size", Default: "4 MiB", value: size(&r.BatchSize, int64(KiB)),
			Doc: "most bytes in one write, a single larger record aside"},
		{Name: "whisk.gpu.records.linger", Default: "50 ms", value: duration(&r.Linger),
			Doc: "longest wait for a batch to fill while others are under way; nothing waits when idle"},
		{Name: "whisk.gpu.records.buffer", Default: "20000", value: integer(&r.Buffer, 1, 10_000_000),
			Doc: "records that may wait for the store"},
		{Name: "whisk.gpu.records.buffer-size", Default: "32 MiB", value: size(&r.BufferSize, int64(KiB)),
			Doc: "bytes of records that may wait for the store"},
	}
}

// Actions is how fetched actions are kept and their parameters unlocked.
type Actions struct {
	// CacheBytes bounds the actions and code kept in memory.
	CacheBytes Size
	// CacheTTL is how long an unused action is kept.
	CacheTTL time.Duration
	// AES128 and AES256 unlock encrypted parameters; nil when not configured.
	AES128 []byte
	AES256 []byte
}

func actionKeys(c *Config) []*Key {
	a := &c.Actions
	return []*Key{
		{Name: "whisk.gpu.cache.size", Default: "64 m", value: size(&a.CacheBytes, 0),
			Doc: "memory for cached actions and their code"},
		{Name: "whisk.gpu.cache.ttl", Default: "5 minutes", value: duration(&a.CacheTTL),
			Doc: "how long an action that is not used stays cached"},
		{Name: "whisk.parameter-storage.aes-128", also: []string{"whisk.parameter-storage.aes128"}, Secret: true,
			value: secretBytes(&a.AES128, 16), Doc: "base64 of the 16-byte key that unlocks aes-128 parameters"},
		{Name: "whisk.parameter-storage.aes-256", also: []string{"whisk.parameter-storage.aes256"}, Secret: true,
			value: secretBytes(&a.AES256, 32), Doc: "base64 of the 32-byte key that unlocks aes-256 parameters"},
	}
}

// Blacklist is the list of blocked namespaces.
type Blacklist struct {
	// PollInterval is how often it is read again.
	PollInterval time.Duration
}

func blacklistKeys(c *Config) []*Key {
	return []*Key{
		{Name: "whisk.blacklist.poll-interval", Default: "5 minutes", value: duration(&c.Blacklist.PollInterval),
			Doc: "how often the list of blocked namespaces is read"},
	}
}
