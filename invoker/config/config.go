// Package config turns what an OpenWhisk deployment hands to its invoker
// (environment, command line, HOCON, JVM-style properties, whisk.properties)
// into one checked struct.
//
// It decides which source wins, what a value means and what is allowed; it
// does not read the environment or any file itself, opens no connection and
// starts no goroutine: the caller passes everything in as Input. Every key is
// described once, beside the field it fills, and docs/configuration.md is
// generated from those descriptions.
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

// Identity says who this invoker is among its peers.
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
		{Name: "whisk.invoker.resource.tags", value: words(&c.Identity.Tags),
			Doc: "comma-separated resource tags advertised in pings; blanks and single quotes around them are dropped"},
		{Name: "whisk.invoker.dedicated.namespaces", value: words(&c.Identity.DedicatedNamespaces),
			Doc: "comma-separated namespaces advertised as dedicated in pings; blanks and single quotes around them are dropped"},
	}
}

// keys describes every setting, in the order in which the documentation lists
// them. The values point into c.
func keys(c *Config) []*Key {
	var all []*Key
	for _, room := range []struct {
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
		for _, k := range room.keys(c) {
			k.section = room.section
			all = append(all, k)
		}
	}
	return all
}
