package config

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
	// Certificate is a PEM file, empty for the system's authorities.
	Certificate string
}

// RecordsElsewhere tells whether records go to another store than CouchDB.
func (c *Config) RecordsElsewhere() bool {
	return !c.Records.Discard && c.Records.Store != "" && c.Records.Store != StoreCouchDB
}

func couchbaseKeys(c *Config) []*Key {
	d := &c.Couchbase
	return []*Key{
		{Name: "whisk.gpu.couchbase.connection", value: text(&d.Connection),
			Doc: "connection string of Couchbase: couchbase://host[,host...], or couchbases:// with TLS; needed with whisk.gpu.records.store couchbase, as are username, password and bucket"},
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
