// Package config reads the settings of an OpenWhisk deployment (environment, command
// line, HOCON, JVM-style properties, whisk.properties) into one checked struct.
//
// It applies the precedence of the sources, parses the values and checks them. It does
// not read the environment or any file, opens no connection and starts no goroutine: the
// caller passes all text in Input. Every key is described once, in the tags of the field
// that it sets (see tagged). docs/configuration.md is generated from the tags.
package config

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"time"
)

// Forever is the value of the duration "Inf": no limit.
const Forever = time.Duration(math.MaxInt64)

// Size is a number of bytes.
type Size int64

// Binary multiples of a byte.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// Config holds every setting of the invoker, grouped by the package that uses it. Load
// and Default create it. It is not modified afterwards.
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
	Containerd    Containerd    `section:"containerd"`
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

// keys describes every setting, in the order of the fields. The values point into c.
func keys(c *Config) []*key {
	all := tagged(reflect.ValueOf(c).Elem(), "")
	policy := slices.IndexFunc(all, func(k *key) bool { return k.name == "whisk.gpu.policy" })
	all[policy].value = c.GPU.policy()
	return all
}

// Identity names this invoker among its peers.
type Identity struct {
	// ID is the number given with --id. If it is nil, ZooKeeper assigns a number to
	// UniqueName.
	ID *int
	// UniqueName is --uniqueName, empty if not given. It is part of the instance id and
	// of container names even if ID is given.
	UniqueName string
	// DisplayedName is --displayedName, empty if not given.
	DisplayedName string
	// OverwriteID is --overwriteId. It is used only if ZooKeeper assigns the id.
	OverwriteID *int
	// ZooKeeperHosts is the connect string of ZooKeeper. It is used only if ID is nil.
	ZooKeeperHosts string `key:"zookeeper.hosts,plain" env:"ZOOKEEPER_HOSTS" doc:"ZooKeeper servers host:port[,host:port...]; needed only without --id"`
	// Every ping carries Tags and DedicatedNamespaces.
	Tags                []string `key:"whisk.invoker.resource.tags" format:"quoted" doc:"resources and namespaces that pings advertise"`
	DedicatedNamespaces []string `key:"whisk.invoker.dedicated.namespaces" format:"quoted"`
}

// Admin configures the invoker's own HTTP endpoints.
type Admin struct {
	Port     int    `key:"port,plain" env:"PORT" default:"8080" range:"0..65535" doc:"port of the invoker's HTTP endpoints"`
	Protocol string `key:"whisk.invoker.protocol" default:"http" enum:"http,https" doc:"https serves the HTTP endpoints with TLS"`
	Username string `key:"whisk.invoker.username" doc:"login of the guarded endpoints; without a password only this machine is served, as invoker.user with invoker.pass"`
	Password string `key:"whisk.invoker.password,secret"`
	// TLS names the key store. It is used only with https.
	TLS               AdminTLS
	TransactionHeader string `key:"whisk.transactions.header" default:"X-Request-ID" doc:"HTTP header of the transaction id"`
	Status            bool   `key:"whisk.gpu.status.enabled" default:"true" doc:"serve /status and the console"`
}

// Login returns the user name and the password of the guarded endpoints.
func (a Admin) Login() (username, password string) {
	return cmp.Or(a.Username, "invoker.user"), cmp.Or(a.Password, "invoker.pass")
}

// WellKnown reports whether the password is the default in OpenWhisk's sources.
func (a Admin) WellKnown() bool {
	_, password := a.Login()
	return password == "invoker.pass"
}

// LocalOnly reports whether the guarded endpoints serve only this machine, which is the
// case without a password. A configured password counts even if it is well known:
// OpenWhisk's Ansible role sets it and disables invokers from other hosts.
func (a Admin) LocalOnly() bool { return a.Password == "" }

// AdminTLS names the store that serves as key store and as trust store.
type AdminTLS struct {
	KeystorePath     string `key:"whisk.invoker.https.keystore-path" doc:"store of the server's key and of trusted certificates, needed with https. The file's own format overrides flavor"`
	KeystorePassword string `key:"whisk.invoker.https.keystore-password,secret"`
	KeystoreFlavor   string `key:"whisk.invoker.https.keystore-flavor" default:"PKCS12" enum:"PKCS12,JKS"`
	ClientAuth       bool   `key:"whisk.invoker.https.client-auth" default:"false" doc:"demand a client certificate that the key store trusts"`
}
