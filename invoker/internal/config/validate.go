package config

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// demand reports a problem if the condition is not met.
type demand func(met bool, format string, args ...any)

// hostPorts demands that each address has a port.
func (d demand) hostPorts(name string, addresses []string) {
	for _, at := range addresses {
		_, port, err := net.SplitHostPort(at)
		if login := strings.LastIndexByte(at, '@'); login >= 0 {
			at = mask + at[login:]
		}
		d(err == nil && port != "", "%s names %q, which is not host:port (several are separated by commas)", name, at)
	}
}

// validate checks conditions over several keys: the order of bounds, and the settings
// that a choice requires.
func validate(c *Config) []error {
	var problems []error
	var demand demand = func(met bool, format string, args ...any) {
		if !met {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	id := c.Identity
	demand(id.ID != nil || id.UniqueName != "",
		"neither --id N nor --uniqueName S is given: the invoker needs a number, or a name for which ZooKeeper keeps one")
	if id.ID == nil && id.UniqueName != "" {
		zk := id.ZooKeeperHosts
		demand(zk != "" && !strings.HasPrefix(zk, ":") && !strings.HasSuffix(zk, ":"),
			"--uniqueName %s without --id needs ZOOKEEPER_HOSTS (host:port), which is %q", id.UniqueName, zk)
	}
	demand.hostPorts("KAFKA_HOSTS", c.Kafka.Hosts)
	c.Limits.check(demand)
	demand(c.Pool.UserMemory >= c.Limits.MemoryMin,
		"whisk.container-pool.user-memory %v is below whisk.memory.min %v: no action would have room", c.Pool.UserMemory, c.Limits.MemoryMin)
	demand(c.GPU.Sched.TTLMin <= c.GPU.Sched.TTLMax, "whisk.gpu.ttl.min %s is above whisk.gpu.ttl.max %s",
		formatDuration(c.GPU.Sched.TTLMin), formatDuration(c.GPU.Sched.TTLMax))
	demand(c.GPU.SimulatedDevices == 0 || c.GPU.Devices == "auto" || c.GPU.Devices == None,
		"whisk.gpu.devices names %q, but whisk.gpu.simulated.devices asks for simulated ones in their place", c.GPU.Devices)
	demand(c.Admin.Protocol != "https" || c.Admin.TLS.KeystorePath != "",
		"whisk.invoker.protocol is https, which needs whisk.invoker.https.keystore-path")
	demand(!c.Kafka.Encrypted() || c.Kafka.TLS.TruststoreLocation != "" || c.Kafka.TLS.EndpointIdentification != "",
		"whisk.kafka.common.security-protocol is %s, which needs whisk.kafka.common.ssl-truststore-location "+
			"(or ssl-endpoint-identification-algorithm https, to trust the authorities of the system)", c.Kafka.SecurityProtocol)
	if _, err := c.Kafka.Login(); err != nil {
		problems = append(problems, err)
	}
	if c.Scheduler.Enabled {
		c.Scheduler.check(demand)
	}
	c.Logs.Files.check(demand)
	if c.S3.Enabled {
		c.S3.check(demand)
	}
	switch {
	case !c.RecordsOutsideCouchDB():
	case c.Records.Store == StoreElasticsearch:
		c.Elasticsearch.check(demand)
	default:
		c.Couchbase.check(demand)
	}
	if c.Metrics.Sent() {
		c.Metrics.StatsD.check(demand)
	}
	if c.Traces.On() {
		c.Traces.check(demand)
	}
	return problems
}

// ours is the prefix of this project's keys. Unknown keys below it are errors.
const ours = "whisk.gpu"

// leftOver lists the paths that no key has used. Paths below whisk.gpu are mistakes;
// other paths belong to parts of OpenWhisk that this invoker does not have.
func leftOver(all []*key, tree *node) (problems []error, ignored []Setting) {
	tree.walk("", func(path string, v *node) {
		switch {
		case v.used || strings.HasPrefix(path, plainPrefix):
		case strings.HasPrefix(path, ours):
			problems = append(problems, unknown(all, path, v.source))
		default:
			ignored = append(ignored, Setting{Name: path, Variable: variable(path), Ignored: reason(path), Source: v.source})
		}
	})
	return problems, ignored
}

// without gives the reason why some settings of deployments have no effect. A name that
// ends in a dot matches everything below.
var without = []struct{ name, why string }{
	{"whisk.docker.container-factory.use-runc", "the engine pauses containers, with the same effect"},
	{"whisk.docker.client.mask-docker-run-args", "arguments of containers are never logged"},
	{"whisk.docker.client.timeouts.version", "no docker program is started"},
	{"whisk.container-pool.pekko-client", "one HTTP client has the limits of both"},
	{"whisk.container-pool.akka-client", "one HTTP client has the limits of both"},
	{"whisk.activation.disable-store-result", "a store level is always given"},
	{"whisk.activation-store.retry-config.max-tries", "a record is written again until it is stored"},
	{"whisk.s3.pekko-connectors.", "the one S3 client only reads, directly and in memory"},
	{"whisk.s3.alpakka.", "the one S3 client only reads, directly and in memory"},
	{"whisk.kafka.common.", "not a property of this Kafka client"},
	{"whisk.kafka.producer.", "acks and timeouts are as OpenWhisk ships them"},
	{"whisk.kafka.consumer.", "partitions are read by assignment, without a group session"},
	{"whisk.container-proxy.action-health-check.", "a container that fails is replaced when it is used"},
	{"whisk.db.", "those views are not queried"},
	{"whisk.scheduler.grpc.tls", "schedulers serve gRPC without TLS"},
	{"whisk.scheduler.", "of the scheduler"},
	{"whisk.etcd.pool.threads", "the client of etcd needs none"},
	{"whisk.invoker.container-creation.max-peek", "orders are taken one by one"},
	{"whisk.controller.", "of the controller"},
	{"whisk.loadbalancer.", "of the controller"},
}

// reason returns why a path is ignored.
func reason(path string) string {
	for _, w := range without {
		if path == w.name || strings.HasSuffix(w.name, ".") && strings.HasPrefix(path, w.name) {
			return w.why
		}
	}
	return "not a setting of this invoker"
}

// nearest returns the key whose name has the most in common with a path at its beginning
// and end. The first of equal keys wins.
func nearest(all []*key, path string) *key {
	return slices.MaxFunc(all, func(a, b *key) int { return alike(path, a.name) - alike(path, b.name) })
}

// unknown returns the error for an unknown path below whisk.gpu. It leaves out the value:
// nothing tells whether a misspelled or misplaced key holds a secret.
func unknown(all []*key, path, source string) error {
	own := slices.DeleteFunc(slices.Clone(all), func(k *key) bool { return !strings.HasPrefix(k.name, ours) })
	near := nearest(own, path)
	return fmt.Errorf("%s (from %s): no such key; the nearest is %s, set by %s; all keys: gpuwhisk invoker --print-config",
		path, source, near.name, variable(near.name))
}

// alike counts the equal bytes at the beginning and at the end, minus the bytes that
// differ.
func alike(a, b string) int {
	n, short := 0, min(len(a), len(b))
	for n < short && a[n] == b[n] {
		n++
	}
	end := 0
	for end < short-n && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return n + end - max(len(a), len(b))
}
