// Package config turns what an OpenWhisk deployment gives to its invoker
// (environment, command line, HOCON, JVM-style properties, whisk.properties)
// into one checked struct.
//
// It decides which source wins, what a value means and what is allowed. It does
// not read the environment or any file, opens no connection and starts no
// goroutine: the caller passes everything in as Input. Every key is described
// once, in the tags of the field that it sets (see tagged), and
// docs/configuration.md is generated from them.
package config

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"time"
)

// Forever is what a duration of "Inf" becomes: no limit.
const Forever = time.Duration(math.MaxInt64)

// Size is a number of bytes.
type Size int64

// Binary multiples of a byte.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// Config is every setting of the invoker, by the package that uses it. Load or
// Default makes one; afterwards nothing changes it.
type Config struct {
	Identity      Identity      `section:"Identity and HTTP endpoints"`
	Admin         Admin         `section:"Identity and HTTP endpoints"`
	Scheduler     Scheduler     `section:"Scheduler mode"`
	Kafka         Kafka         `section:"Kafka"`
	CouchDB       CouchDB       `section:"CouchDB, Couchbase, Elasticsearch, S3"`
	Couchbase     Couchbase     `section:"CouchDB, Couchbase, Elasticsearch, S3"`
	Elasticsearch Elasticsearch `section:"CouchDB, Couchbase, Elasticsearch, S3"`
	S3            S3            `section:"CouchDB, Couchbase, Elasticsearch, S3"`
	Records       Records       `section:"Records and actions"`
	Actions       Actions       `section:"Records and actions"`
	Pool          Pool          `section:"Containers"`
	Proxy         Proxy         `section:"Containers"`
	Containers    Containers    `section:"Containers"`
	Docker        Docker        `section:"Docker"`
	Process       Process       `section:"Runtimes"`
	Runtimes      Runtimes      `section:"Runtimes"`
	Limits        Limits        `section:"Limits"`
	Logs          Logs          `section:"Logs, user events, blacklist"`
	Events        Events        `section:"Logs, user events, blacklist"`
	Blacklist     Blacklist     `section:"Logs, user events, blacklist"`
	Metrics       Metrics       `section:"Metrics and traces"`
	Traces        Traces        `section:"Metrics and traces"`
	GPU           GPU           `section:"GPU"`
	State         State         `section:"State on disk and the stop"`
	Drain         Drain         `section:"State on disk and the stop"`
	Providers     Providers     `section:"Service providers"`

	settings []Setting
	ignored  []Setting
}

// keys describes every setting, in the order of the fields. The values point
// into c.
func keys(c *Config) []*key {
	all := tagged(reflect.ValueOf(c).Elem(), "")
	policy := slices.IndexFunc(all, func(k *key) bool { return k.name == "whisk.gpu.policy" })
	all[policy].value = c.GPU.policy()
	return all
}

// Identity names this invoker among its peers.
type Identity struct {
	// ID is the number given with --id; nil means that ZooKeeper assigns one
	// to UniqueName.
	ID *int
	// UniqueName is --uniqueName, empty when not given. It is part of the
	// instance id and of container names even when ID is given.
	UniqueName string
	// DisplayedName is --displayedName, empty when not given.
	DisplayedName string
	// OverwriteID is --overwriteId; it has meaning only where ZooKeeper
	// assigns the id.
	OverwriteID *int
	// ZooKeeperHosts is the connect string of ZooKeeper, used only when ID is
	// nil.
	ZooKeeperHosts string `key:"zookeeper.hosts,plain" env:"ZOOKEEPER_HOSTS" doc:"ZooKeeper servers host:port[,host:port...]; needed only without --id"`
	// Tags and DedicatedNamespaces are advertised in every ping.
	Tags                []string `key:"whisk.invoker.resource.tags" format:"quoted" doc:"what pings advertise"`
	DedicatedNamespaces []string `key:"whisk.invoker.dedicated.namespaces" format:"quoted"`
}

// Admin is the invoker's own HTTP endpoints.
type Admin struct {
	Port     int    `key:"port,plain" env:"PORT" default:"8080" range:"0..65535" doc:"port of the invoker's HTTP endpoints"`
	Protocol string `key:"whisk.invoker.protocol" default:"http" enum:"http,https" doc:"https serves the HTTP endpoints with TLS"`
	Username string `key:"whisk.invoker.username" doc:"login of the guarded endpoints; without a password only this machine is served, as invoker.user with invoker.pass"`
	Password string `key:"whisk.invoker.password,secret"`
	// TLS names the key store; it matters only with https.
	TLS               AdminTLS
	TransactionHeader string `key:"whisk.transactions.header" default:"X-Request-ID" doc:"HTTP header of the transaction id"`
	Status            bool   `key:"whisk.gpu.status.enabled" default:"true" doc:"serve /status"`
}

// Login returns the user and the password of the guarded endpoints.
func (a Admin) Login() (username, password string) {
	return cmp.Or(a.Username, "invoker.user"), cmp.Or(a.Password, "invoker.pass")
}

// WellKnown reports whether the password is the one of OpenWhisk's sources.
func (a Admin) WellKnown() bool {
	_, password := a.Login()
	return password == "invoker.pass"
}

// LocalOnly reports whether the guarded endpoints serve this machine alone, because no
// password is set. One that is set counts also if it is well known: OpenWhisk's own role
// sets it, and disables invokers from other hosts.
func (a Admin) LocalOnly() bool { return a.Password == "" }

// AdminTLS names the store that is both the key and the trust store.
type AdminTLS struct {
	KeystorePath     string `key:"whisk.invoker.https.keystore-path" doc:"store of the server's key and of trusted certificates, needed with https. The file's own format goes before flavor"`
	KeystorePassword string `key:"whisk.invoker.https.keystore-password,secret"`
	KeystoreFlavor   string `key:"whisk.invoker.https.keystore-flavor" default:"PKCS12" enum:"PKCS12,JKS"`
	ClientAuth       bool   `key:"whisk.invoker.https.client-auth" default:"false" doc:"demand a client certificate that the key store trusts"`
}
