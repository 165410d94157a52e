package config

import (
	"strings"
	"time"
)

// CouchDB is where actions are read and records are written.
type CouchDB struct {
	Protocol    string
	Host        string
	Port        int
	Username    string
	Password    string
	Provider    string
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
	// service provider of OpenWhisk has it.
	Store            string
	provided         string
	BlockingLevel    string
	NonBlockingLevel string
	UnstoredLogs     bool
	Requests         int
	Batch            int
	BatchSize        Size
	Linger           time.Duration
	Buffer           int
	BufferSize       Size
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
			Doc: "where records go; actions are read from CouchDB in any case; empty means as whisk.spi.ActivationStoreProvider says"},
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
	CacheBytes Size
	CacheTTL   time.Duration
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
	PollInterval time.Duration
}

func blacklistKeys(c *Config) []*Key {
	return []*Key{
		{Name: "whisk.blacklist.poll-interval", Default: "5 minutes", value: duration(&c.Blacklist.PollInterval),
			Doc: "how often the list of blocked namespaces is read"},
	}
}

// Values of whisk.gpu.records.store.
const (
	StoreCouchDB       = "couchdb"
	StoreCouchbase     = "couchbase"
	StoreElasticsearch = "elasticsearch"
)

// Couchbase is where records go that do not go to CouchDB.
type Couchbase struct {
	Connection        string
	Username          string
	Password          string
	Bucket            string
	Scope, Collection string
	Certificate       string
}

// RecordsOutsideCouchDB reports whether records go to another store than CouchDB.
func (c *Config) RecordsOutsideCouchDB() bool {
	return !c.Records.Discard && c.Records.Store != "" && c.Records.Store != StoreCouchDB
}

func couchbaseKeys(c *Config) []*Key {
	d := &c.Couchbase
	return []*Key{
		{Name: "whisk.gpu.couchbase.connection", value: text(&d.Connection),
			Doc: "couchbase://host[,host...], or couchbases:// with TLS; needed with records.store couchbase, as are username, password and bucket"},
		{Name: "whisk.gpu.couchbase.username", value: text(&d.Username), Doc: "user at Couchbase, who may write to the collection"},
		{Name: "whisk.gpu.couchbase.password", Secret: true, value: exact(&d.Password), Doc: "password at Couchbase"},
		{Name: "whisk.gpu.couchbase.bucket", value: text(&d.Bucket), Doc: "bucket of activation records"},
		{Name: "whisk.gpu.couchbase.scope", Default: "_default", value: text(&d.Scope), Doc: "scope in the bucket"},
		{Name: "whisk.gpu.couchbase.collection", Default: "_default", value: text(&d.Collection),
			Doc: "collection in the scope; it must exist"},
		{Name: "whisk.gpu.couchbase.certificate", value: text(&d.Certificate),
			Doc: "PEM file of the authorities that sign Couchbase's certificates; empty means the system's"},
	}
}

// Elasticsearch is where records go that do not go to CouchDB, in the form and
// under the keys that OpenWhisk has for it.
type Elasticsearch struct {
	Protocol           string // "http" or "https"
	Hosts              []string
	Index              string
	Username, Password string
	KeepAlive          time.Duration
	Certificate        string
}

func elasticsearchKeys(c *Config) []*Key {
	d := &c.Elasticsearch
	const under = "whisk.activation-store.elasticsearch."
	return []*Key{
		{Name: under + "protocol", Default: "http", value: choice(&d.Protocol, "http", "https"), Doc: "how Elasticsearch is reached"},
		{Name: under + "hosts", value: commaList(&d.Hosts),
			Doc: "servers of Elasticsearch, each host:port; needed where records go there"},
		{Name: under + "index-pattern", Default: "openwhisk-%s", value: text(&d.Index),
			Doc: "index of a namespace, which stands for %s in lower case; without %s all share one"},
		{Name: under + "username", value: text(&d.Username), Doc: "user at Elasticsearch; empty means without a login"},
		{Name: under + "password", Secret: true, value: exact(&d.Password), Doc: "password at Elasticsearch"},
		{Name: under + "keep-alive", Default: "13 minutes", value: duration(&d.KeepAlive), Doc: "how long an idle connection stays open"},
		{Name: "whisk.gpu.elasticsearch.certificate", value: text(&d.Certificate),
			Doc: "PEM file of the authorities that sign Elasticsearch's certificates; empty means the system's"},
	}
}

// check names what is wrong with an Elasticsearch that records shall go to.
func (d Elasticsearch) check(demand func(ok bool, format string, args ...any)) {
	demand(len(d.Hosts) > 0, "records go to Elasticsearch, which needs whisk.activation-store.elasticsearch.hosts")
	for _, host := range d.Hosts {
		demand(!strings.ContainsAny(host, "/@ "), "whisk.activation-store.elasticsearch.hosts names a host that is not host:port "+
			"(the protocol, the user and the password have keys of their own)")
	}
	demand((d.Username == "") == (d.Password == ""),
		"whisk.activation-store.elasticsearch.username and .password belong together: give both or neither")
}

// S3 is where controllers keep the code of actions beside the database, under
// the keys that OpenWhisk has for it.
type S3 struct {
	Enabled                     bool
	Bucket                      string
	Prefix                      string
	Endpoint                    string
	PathStyle                   bool
	Credentials                 string
	AccessKey, SecretKey, Token string
	Region                      string
	CloudFront                  string
	Certificate                 string
}

func s3Keys(c *Config) []*Key {
	d := &c.S3
	const now, before = "whisk.s3.pekko-connectors.", "whisk.s3.alpakka."
	key := func(name, standard, doc string, v value) *Key {
		return &Key{Name: now + name, also: []string{before + name}, Default: standard, Doc: doc, value: v}
	}
	access := key("aws.credentials.access-key-id", "", "access key, with provider static", text(&d.AccessKey))
	secret := key("aws.credentials.secret-access-key", "", "secret of that key", exact(&d.SecretKey))
	token := key("aws.credentials.token", "", "session token that goes with that key, if any", exact(&d.Token))
	access.Secret, secret.Secret, token.Secret = true, true, true
	return []*Key{
		{Name: "whisk.s3.bucket", value: text(&d.Bucket),
			Doc: "bucket that controllers keep code in; needed with whisk.spi.AttachmentStoreProvider S3AttachmentStoreProvider"},
		{Name: "whisk.s3.prefix", value: text(&d.Prefix), Doc: "folder in the bucket"},
		{Name: "whisk.s3.cloud-front-config.domain-name", value: text(&d.CloudFront),
			Doc: "must be empty: code is read from the bucket itself"},
		key("endpoint-url", "", "http(s)://host:port of an S3 that is not AWS", text(&d.Endpoint)),
		key("path-style-access", "true", "name the bucket in the path of a request; false: in its host", boolean(&d.PathStyle)),
		key("aws.credentials.provider", "default", "static: the key below; anon: none; default: as AWS's programs do", choice(&d.Credentials, "default", "static", "anon")),
		access, secret, token,
		key("aws.region.default-region", "", "region of the bucket; empty: the server is asked", text(&d.Region)),
		{Name: "whisk.gpu.s3.certificate", value: text(&d.Certificate),
			Doc: "PEM file of the authorities that sign the certificate of S3; empty means the system's"},
	}
}

func (d S3) check(demand func(ok bool, format string, args ...any)) {
	demand(d.Bucket != "", "code is kept in S3, which needs whisk.s3.bucket")
	demand(d.CloudFront == "", "whisk.s3.cloud-front-config is not served: code is read from the bucket itself; leave it away and give this invoker credentials that may read the bucket")
	demand(d.Credentials != "static" || d.AccessKey != "" && d.SecretKey != "",
		"whisk.s3.pekko-connectors.aws.credentials.provider is static, which needs access-key-id and secret-access-key beside it")
}
