package config

import (
	"strings"
	"time"
)

// CouchDB configures the database of actions and records.
type CouchDB struct {
	Protocol    string `key:"whisk.couchdb.protocol,required" enum:"http,https" doc:"address of CouchDB, and the login"`
	Host        string `key:"whisk.couchdb.host,required"`
	Port        int    `key:"whisk.couchdb.port,required" range:"1..65535"`
	Username    string `key:"whisk.couchdb.username,required"`
	Password    string `key:"whisk.couchdb.password,required,secret"`
	Provider    string `key:"whisk.couchdb.provider" default:"CouchDB" enum:"CouchDB,Cloudant" doc:"kind of server; both are used alike"`
	Subjects    string `key:"whisk.couchdb.databases.WhiskAuth,required" doc:"databases of subjects (read for the blacklist), actions (read only) and activation records"`
	Entities    string `key:"whisk.couchdb.databases.WhiskEntity,required"`
	Activations string `key:"whisk.couchdb.databases.WhiskActivation,required"`
}

// Records selects the activation records to store, and how they are stored.
type Records struct {
	// Discard drops all records (the Noop activation store).
	Discard bool
	// Store is the name of the record store.
	Store            string        `key:"whisk.gpu.records.store" enum:"couchdb,couchbase,elasticsearch" doc:"record store; empty: as whisk.spi.ActivationStoreProvider says"`
	BlockingLevel    string        `key:"whisk.activation.store-blocking-result-level" default:"STORE_ALWAYS" enum:"STORE_ALWAYS,STORE_FAILURES,STORE_FAILURES_NOT_APPLICATION_ERRORS" doc:"which activations leave a record"`
	NonBlockingLevel string        `key:"whisk.activation.store-non-blocking-result-level" default:"STORE_ALWAYS" enum:"STORE_ALWAYS,STORE_FAILURES,STORE_FAILURES_NOT_APPLICATION_ERRORS"`
	UnstoredLogs     bool          `key:"whisk.activation.unstored-logs-enabled" default:"false" doc:"log a line for each record that is not stored"`
	Requests         int           `key:"whisk.gpu.records.requests" default:"4" range:"1..128" doc:"writes under way at once"`
	Batch            int           `key:"whisk.gpu.records.batch" default:"500" range:"1..10000" doc:"most records, and bytes, in one write; a single record may be larger"`
	BatchSize        Size          `key:"whisk.gpu.records.batch-size" default:"4 MiB" min:"1 KiB"`
	Linger           time.Duration `key:"whisk.gpu.records.linger" default:"50 ms" doc:"longest wait for a batch to fill while others are under way"`
	Buffer           int           `key:"whisk.gpu.records.buffer" default:"20000" range:"1..10000000" doc:"records, and their bytes, that may wait for the store"`
	BufferSize       Size          `key:"whisk.gpu.records.buffer-size" default:"32 MiB" min:"1 KiB"`
}

// Actions configures the cache of actions and the keys for their parameters.
type Actions struct {
	CacheBytes Size          `key:"whisk.gpu.cache.size" default:"64 m" doc:"memory for cached actions and their code; how long an unused action stays cached"`
	CacheTTL   time.Duration `key:"whisk.gpu.cache.ttl" default:"5 minutes"`
	// AES128 and AES256 decrypt parameters. They are nil if not configured.
	AES128 []byte `key:"whisk.parameter-storage.aes-128,secret" also:"whisk.parameter-storage.aes128" bytes:"16" doc:"keys that unlock parameters"`
	AES256 []byte `key:"whisk.parameter-storage.aes-256,secret" also:"whisk.parameter-storage.aes256" bytes:"32"`
}

// Blacklist configures the list of blocked namespaces.
type Blacklist struct {
	PollInterval time.Duration `key:"whisk.blacklist.poll-interval" default:"5 minutes" doc:"how often the list of blocked namespaces is read"`
}

// Values of whisk.gpu.records.store.
const (
	StoreCouchDB       = "couchdb"
	StoreCouchbase     = "couchbase"
	StoreElasticsearch = "elasticsearch"
)

// Couchbase configures the record store Couchbase.
type Couchbase struct {
	Connection  string `key:"whisk.gpu.couchbase.connection" doc:"servers (couchbase://host[,host...], or couchbases:// with TLS), a login that may write there, and the bucket; needed where whisk.gpu.records.store is couchbase"`
	Username    string `key:"whisk.gpu.couchbase.username"`
	Password    string `key:"whisk.gpu.couchbase.password,secret"`
	Bucket      string `key:"whisk.gpu.couchbase.bucket"`
	Scope       string `key:"whisk.gpu.couchbase.scope" default:"_default" doc:"scope and collection of the bucket for records; they must exist"`
	Collection  string `key:"whisk.gpu.couchbase.collection" default:"_default"`
	Certificate string `key:"whisk.gpu.couchbase.certificate" doc:"PEM file of authorities; empty: the system's"`
}

// check demands the settings that a record store in Couchbase needs.
func (d Couchbase) check(demand demand) {
	for _, k := range []struct{ name, value string }{
		{"connection", d.Connection}, {"username", d.Username}, {"password", d.Password}, {"bucket", d.Bucket},
	} {
		demand(k.value != "", "whisk.gpu.records.store is couchbase, which needs whisk.gpu.couchbase.%s", k.name)
	}
}

// RecordsOutsideCouchDB reports whether records are stored outside CouchDB.
func (c *Config) RecordsOutsideCouchDB() bool {
	return !c.Records.Discard && c.Records.Store != "" && c.Records.Store != StoreCouchDB
}

// Elasticsearch configures the record store Elasticsearch, with OpenWhisk's keys and
// document format.
type Elasticsearch struct {
	Protocol    string        `key:"whisk.activation-store.elasticsearch.protocol" default:"http" enum:"http,https" doc:"protocol of Elasticsearch"`
	Hosts       []string      `key:"whisk.activation-store.elasticsearch.hosts" doc:"servers host:port; needed where records go there"`
	Index       string        `key:"whisk.activation-store.elasticsearch.index-pattern" default:"openwhisk-%s" doc:"index, %s for the namespace in lower case; without %s all share one"`
	Username    string        `key:"whisk.activation-store.elasticsearch.username" doc:"login; empty means none"`
	Password    string        `key:"whisk.activation-store.elasticsearch.password,secret"`
	KeepAlive   time.Duration `key:"whisk.activation-store.elasticsearch.keep-alive" default:"13 minutes" doc:"how long an idle connection stays open"`
	Certificate string        `key:"whisk.gpu.elasticsearch.certificate" doc:"PEM file of authorities; empty: the system's"`
}

// check demands the settings that a record store in Elasticsearch needs.
func (d Elasticsearch) check(demand demand) {
	demand(len(d.Hosts) > 0, "records go to Elasticsearch, which needs whisk.activation-store.elasticsearch.hosts")
	for _, host := range d.Hosts {
		demand(!strings.ContainsAny(host, "/@ "), "whisk.activation-store.elasticsearch.hosts names a host that is not host:port "+
			"(the protocol, the user and the password have keys of their own)")
	}
	demand((d.Username == "") == (d.Password == ""),
		"whisk.activation-store.elasticsearch.username and .password belong together: give both or neither")
}

// S3 configures the bucket in which controllers store the code of actions, with
// OpenWhisk's keys.
type S3 struct {
	Enabled     bool
	Bucket      string `key:"whisk.s3.bucket" doc:"bucket that controllers keep code in; needed with S3AttachmentStoreProvider"`
	Prefix      string `key:"whisk.s3.prefix" doc:"folder in the bucket"`
	CloudFront  string `key:"whisk.s3.cloud-front-config.domain-name" doc:"must be empty: code is read from the bucket itself"`
	Endpoint    string `key:"whisk.s3.pekko-connectors.endpoint-url" also:"whisk.s3.alpakka.endpoint-url" doc:"http(s)://host:port of an S3 that is not AWS"`
	PathStyle   bool   `key:"whisk.s3.pekko-connectors.path-style-access" also:"whisk.s3.alpakka.path-style-access" default:"true" doc:"name the bucket in the path of a request; false: in its host"`
	Credentials string `key:"whisk.s3.pekko-connectors.aws.credentials.provider" also:"whisk.s3.alpakka.aws.credentials.provider" default:"default" enum:"default,static,anon" doc:"static: the login below; anon: none; default: as AWS's programs do"`
	AccessKey   string `key:"whisk.s3.pekko-connectors.aws.credentials.access-key-id,secret" also:"whisk.s3.alpakka.aws.credentials.access-key-id" format:"trimmed" doc:"login of provider static; the token, if any"`
	SecretKey   string `key:"whisk.s3.pekko-connectors.aws.credentials.secret-access-key,secret" also:"whisk.s3.alpakka.aws.credentials.secret-access-key"`
	Token       string `key:"whisk.s3.pekko-connectors.aws.credentials.token,secret" also:"whisk.s3.alpakka.aws.credentials.token"`
	Region      string `key:"whisk.s3.pekko-connectors.aws.region.default-region" also:"whisk.s3.alpakka.aws.region.default-region" doc:"region; empty: the server is asked"`
	Certificate string `key:"whisk.gpu.s3.certificate" doc:"PEM file of authorities; empty: the system's"`
}

func (d S3) check(demand demand) {
	demand(d.Bucket != "", "code is kept in S3, which needs whisk.s3.bucket")
	demand(d.CloudFront == "", "whisk.s3.cloud-front-config is not served: code is read from the bucket itself; leave it away and give this invoker credentials that may read the bucket")
	demand(d.Credentials != "static" || d.AccessKey != "" && d.SecretKey != "",
		"whisk.s3.pekko-connectors.aws.credentials.provider is static, which needs access-key-id and secret-access-key beside it")
}
