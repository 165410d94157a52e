package config

import (
	"fmt"
	"net"
	"strings"
)

// validate checks what one key alone cannot: bounds in order, and what a
// choice needs beside it.
func validate(c *Config) []error {
	var problems []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
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
	for _, host := range c.Kafka.Hosts {
		_, port, err := net.SplitHostPort(host)
		demand(err == nil && port != "", "KAFKA_HOSTS names %q, which is not host:port (several are separated by commas)", host)
	}
	ordered(&c.Limits, demand)
	demand(c.Pool.UserMemory >= c.Limits.Memory.Min,
		"whisk.container-pool.user-memory %v is below whisk.memory.min %v: no action would have room", c.Pool.UserMemory, c.Limits.Memory.Min)
	demand(c.GPU.TTL.Min <= c.GPU.TTL.Max, "whisk.gpu.ttl.min %s is above whisk.gpu.ttl.max %s",
		formatDuration(c.GPU.TTL.Min), formatDuration(c.GPU.TTL.Max))
	demand(c.GPU.SimulatedDevices == 0 || c.GPU.Devices == "auto" || c.GPU.Devices == "none",
		"whisk.gpu.devices names %q, but whisk.gpu.simulated.devices asks for simulated ones in their place", c.GPU.Devices)
	demand(c.Admin.Protocol != "https" || c.Admin.TLS.KeystorePath != "",
		"whisk.invoker.protocol is https, which needs whisk.invoker.https.keystore-path")
	demand(!c.Kafka.Encrypted() || c.Kafka.TLS.TruststoreLocation != "" || c.Kafka.TLS.EndpointIdentification != "",
		"whisk.kafka.common.security-protocol is %s, which needs whisk.kafka.common.ssl-truststore-location "+
			"(or ssl-endpoint-identification-algorithm https, to trust the authorities of the system)", c.Kafka.SecurityProtocol)
	if _, err := c.Kafka.Login(); err != nil {
		problems = append(problems, err)
	}
	c.Logs.Files.check(demand)
	if c.S3.Enabled {
		c.S3.check(demand)
	}
	if c.Records.Store == StoreElasticsearch && !c.Records.Discard {
		c.Elasticsearch.check(demand)
	}
	if c.Records.Store == StoreCouchbase {
		d := c.Couchbase
		for _, k := range []struct{ name, value string }{
			{"connection", d.Connection}, {"username", d.Username}, {"password", d.Password}, {"bucket", d.Bucket},
		} {
			demand(k.value != "", "whisk.gpu.records.store is couchbase, which needs whisk.gpu.couchbase.%s", k.name)
		}
	}
	if c.Metrics.Sent() {
		c.Metrics.StatsD.check(demand)
	}
	if err := c.Traces.validate(); err != nil {
		problems = append(problems, err)
	}
	return problems
}

// ordered checks that each limit has min <= std <= max.
func ordered(l *Limits, demand func(ok bool, format string, args ...any)) {
	const wrong = "%s: min %v, std %v, max %v are out of order"
	demand(l.Memory.Min <= l.Memory.Std && l.Memory.Std <= l.Memory.Max, wrong, "whisk.memory", l.Memory.Min, l.Memory.Std, l.Memory.Max)
	demand(l.Time.Min <= l.Time.Std && l.Time.Std <= l.Time.Max, wrong, "whisk.time-limit", l.Time.Min, l.Time.Std, l.Time.Max)
	demand(l.Log.Min <= l.Log.Std && l.Log.Std <= l.Log.Max, wrong, "whisk.log-limit", l.Log.Min, l.Log.Std, l.Log.Max)
	demand(l.Concurrency.Min <= l.Concurrency.Std && l.Concurrency.Std <= l.Concurrency.Max, wrong,
		"whisk.concurrency-limit", l.Concurrency.Min, l.Concurrency.Std, l.Concurrency.Max)
	demand(l.Payload.Truncation <= l.Payload.Max, "whisk.activation.payload.truncation %v is above whisk.activation.payload.max %v",
		l.Payload.Truncation, l.Payload.Max)
}
