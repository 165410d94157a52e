// Package config turns what an OpenWhisk deployment hands to its invoker
// (environment, command line, HOCON, JVM-style properties, whisk.properties)
// into one checked struct.
//
// It decides which source wins, what a value means and what is allowed; it
// does not read the environment or any file itself, opens no connection and
// starts no goroutine: the caller passes everything in as Input. Every key is
// described once, in the list below the struct whose field it sets; that text is
// the field's, too, and docs/configuration.md is generated from it.
package config

import (
	"math"
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
	Identity      Identity
	Admin         Admin
	Kafka         Kafka
	CouchDB       CouchDB
	Couchbase     Couchbase
	Elasticsearch Elasticsearch
	S3            S3
	Records       Records
	Actions       Actions
	Pool          Pool
	Proxy         Proxy
	Containers    Containers
	Docker        Docker
	Process       Process
	Runtimes      Runtimes
	Limits        Limits
	Logs          Logs
	Events        Events
	Blacklist     Blacklist
	Metrics       Metrics
	Traces        Traces
	GPU           GPU
	State         State
	Drain         Drain

	settings []Setting
	ignored  []Setting
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
	ZooKeeperHosts string
	// Tags and DedicatedNamespaces are advertised in every ping.
	Tags                []string
	DedicatedNamespaces []string
}

func identityKeys(c *Config) []*Key {
	return []*Key{
		{Name: "zookeeper.hosts", Env: "ZOOKEEPER_HOSTS", legacy: true, value: text(&c.Identity.ZooKeeperHosts),
			Doc: "ZooKeeper connect string host:port[,host:port...]; needed only when no --id is given"},
		{Name: "whisk.invoker.resource.tags", value: stringList(&c.Identity.Tags),
			Doc: "resource tags advertised in pings"},
		{Name: "whisk.invoker.dedicated.namespaces", value: stringList(&c.Identity.DedicatedNamespaces),
			Doc: "namespaces advertised as dedicated in pings"},
	}
}

// keys describes every setting, in the order in which the documentation lists
// them. The values point into c.
func keys(c *Config) []*Key {
	var all []*Key
	for _, section := range []struct {
		section string
		keys    func(*Config) []*Key
	}{
		{"Identity", identityKeys},
		{"HTTP endpoints", adminKeys},
		{"Kafka", kafkaKeys},
		{"CouchDB", couchdbKeys},
		{"Couchbase", couchbaseKeys},
		{"Elasticsearch", elasticsearchKeys},
		{"Code in S3", s3Keys},
		{"Activation records", recordKeys},
		{"Actions", actionKeys},
		{"Container pool", poolKeys},
		{"Container life", proxyKeys},
		{"Action containers", containerKeys},
		{"Docker", dockerKeys},
		{"Processes", processKeys},
		{"Runtimes", runtimeKeys},
		{"Limits", limitKeys},
		{"Logs", logKeys},
		{"User events", eventKeys},
		{"Blacklist", blacklistKeys},
		{"Metrics", metricKeys},
		{"Traces", traceKeys},
		{"GPU", gpuKeys},
		{"State on disk", stateKeys},
		{"Shutdown", drainKeys},
		{"Service providers", spiKeys},
	} {
		for _, k := range section.keys(c) {
			k.section = section.section
			all = append(all, k)
		}
	}
	return all
}

// Admin is the invoker's own HTTP endpoints.
type Admin struct {
	Port     int
	Protocol string
	Username string
	Password string
	// TLS names the key store; it matters only with https.
	TLS               AdminTLS
	TransactionHeader string
	Status            bool
}

// AdminTLS names the store that is both the key and the trust store.
type AdminTLS struct {
	KeystorePath     string
	KeystorePassword string
	KeystoreFlavor   string
	ClientAuth       bool
}

func adminKeys(c *Config) []*Key {
	a := &c.Admin
	return []*Key{
		{Name: "port", Env: "PORT", legacy: true, Default: "8080", value: integer(&a.Port, 0, 65535),
			Doc: "port of the invoker's HTTP endpoints (ping, metrics, status, enable, disable)"},
		{Name: "whisk.invoker.protocol", Default: "http", value: choice(&a.Protocol, "http", "https"),
			Doc: "whether the HTTP endpoints speak TLS"},
		{Name: "whisk.invoker.username", Default: "invoker.user", value: text(&a.Username),
			Doc: "user of the guarded endpoints"},
		{Name: "whisk.invoker.password", Default: "invoker.pass", Secret: true, value: exact(&a.Password),
			Doc: "password of the guarded endpoints"},
		{Name: "whisk.invoker.https.keystore-path", value: text(&a.TLS.KeystorePath),
			Doc: "key store that holds the server's key and the certificates it trusts; needed with https"},
		{Name: "whisk.invoker.https.keystore-password", Secret: true, value: exact(&a.TLS.KeystorePassword),
			Doc: "password of that key store"},
		{Name: "whisk.invoker.https.keystore-flavor", Default: "PKCS12", value: choice(&a.TLS.KeystoreFlavor, "PKCS12", "JKS"),
			Doc: "declared format of that key store; the real one is recognised from its first bytes"},
		{Name: "whisk.invoker.https.client-auth", Default: "false", value: boolean(&a.TLS.ClientAuth),
			Doc: "demand a client certificate that the key store trusts"},
		{Name: "whisk.transactions.header", Default: "X-Request-ID", value: text(&a.TransactionHeader),
			Doc: "HTTP header that carries the transaction id"},
		{Name: "whisk.gpu.status.enabled", Default: "true", value: boolean(&a.Status),
			Doc: "serve /status (health with reasons, flows, containers, last errors)"},
	}
}
