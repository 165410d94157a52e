package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
)

func brokerFails(text string) func(*fake) {
	return func(f *fake) {
		f.Broker = func(context.Context, string) (kafka.ClusterInfo, error) { return kafka.ClusterInfo{}, errors.New(text) }
	}
}

func TestKafkaChecks(t *testing.T) {
	two := func(f *fake) {
		f.Config.Kafka.Hosts = []string{"a:1", "b:1"}
		f.Broker = func(_ context.Context, at string) (kafka.ClusterInfo, error) {
			if at == "a:1" {
				return kafka.ClusterInfo{}, errors.New("refused")
			}
			return f.kafka, nil
		}
	}
	runTrials(t, []trial{
		{"short memory", func(f *fake) {
			f.kafka.Topics["invoker0"], f.kafka.Retention = 1, map[string]time.Duration{"invoker0": time.Minute}
		}, "Kafka/topics", Warn, "keeps messages for 1m0s, less than", "retention.ms"},
		{"long memory", func(f *fake) {
			f.kafka.Topics["invoker0"], f.kafka.Retention = 1, map[string]time.Duration{"invoker0": time.Hour}
		}, "Kafka/topics", OK, "keeps messages for 1h0m0s", ""},
		{"forwarding to no invoker", func(f *fake) { f.Config.GPU.ForwardTo = []string{"invoker9"} }, "Kafka/topics", Fail, "forwarded to invoker9: no such topic", "CONFIG_whisk_gpu_forwardTo"},
		{"forwarding", func(f *fake) { f.Config.GPU.ForwardTo, f.kafka.Topics["invoker9"] = []string{"invoker9"}, 1 }, "Kafka/topics", OK, "forwarded to invoker9", ""},
		{"", nil, "Kafka/brokers", OK, "kafka:9092 answers in plain text", ""},
		{"TLS", func(f *fake) { f.Config.Kafka.SecurityProtocol = "SSL" }, "Kafka/brokers", OK, "over TLS", ""},
		{"login", func(f *fake) { logIn(f, "SASL_SSL") }, "Kafka/brokers", OK, "over TLS, as user whisk by SCRAM-SHA-512", ""},
		{"login in plain text", func(f *fake) { logIn(f, "SASL_PLAINTEXT") }, "Kafka/brokers", OK, "in plain text, as user whisk by SCRAM-SHA-512", ""},
		{"wrong login", func(f *fake) {
			logIn(f, "SASL_SSL")
			brokerFails("log in to broker kafka:9092 as \"whisk\": EOF")(f)
		}, "Kafka/brokers", Fail, "log in to broker", "_saslJaasConfig"},
		{"none given", func(f *fake) { f.Config.Kafka.Hosts = nil }, "Kafka/brokers", Skip, "not configured", "KAFKA_HOSTS"},
		{"away", brokerFails("connection refused"), "Kafka/brokers", Fail, "connection refused", "firewall"},
		{"plain to TLS", brokerFails("read: EOF"), "Kafka/brokers", Fail, "EOF", "=SSL"},
		{"certificate", brokerFails("x509: unknown authority"), "Kafka/brokers", Fail, "x509", "trust and key store"},
		{"TLS to plain", func(f *fake) {
			brokerFails("tls: first record does not look like a TLS handshake")(f)
			f.Config.Kafka.SecurityProtocol = "SSL"
		}, "Kafka/brokers", Fail, "first record", "PLAINTEXT"},
		{"one of two", two, "Kafka/brokers", Warn, "a:1 does not answer", "KAFKA_HOSTS"},
		{"the other of two", two, "Kafka/brokers", OK, "b:1 answers", ""},

		{"", nil, "Kafka/addresses", OK, "kafka:9092", ""},
		{"unreachable", func(f *fake) {
			f.kafka.Brokers = []string{"inner:9092"}
			f.Reach = func(_ context.Context, at string) error { return fmt.Errorf("no such host") }
		}, "Kafka/addresses", Fail, "inner:9092 (no such host)", "advertised.listeners"},

		{"", nil, "Kafka/topics", OK, "health, completed0", ""},
		{"own", nil, "Kafka/topics", OK, "invoker0 exists", ""},
		{"no controller", func(f *fake) { f.kafka.Topics = nil }, "Kafka/topics", Warn, "no controller", "CONFIG_whisk_kafka_topics_prefix"},
		{"new invoker", func(f *fake) { delete(f.kafka.Topics, "invoker0") }, "Kafka/topics", OK, "the invoker creates it", ""},
		{"prefix", func(f *fake) {
			f.Config.Kafka.TopicPrefix = "p-"
			f.kafka.Topics = map[string]int{"p-health": 1, "p-completed1": 1, "p-invoker0": 1}
		}, "Kafka/topics", OK, "p-completed1", ""},
		{"partitions", func(f *fake) { f.kafka.Topics["invoker0"] = 3 }, "Kafka/topics", Fail, "3 partitions", "delete"},
		{"scheduler", func(f *fake) { f.kafka.Topics["creationAck0"] = 1 }, "Kafka/topics", Warn, "creationAck0", "scheduler_enable=false"},
		{"forwarded", func(f *fake) { f.Config.GPU.ForwardTo, f.Config.Scheduler.Enabled = []string{"invoker9"}, true }, "Kafka/topics", Warn, "no effect in scheduler mode", "invoker-resources"},
		{"scheduler mode", func(f *fake) { f.kafka.Topics["creationAck0"], f.Config.Scheduler.Enabled = 1, true }, "Kafka/topics", OK, "topics of controllers exist", ""},
	})
}

// outsideCouchDB configures Couchbase as the record store, with this answer.
func outsideCouchDB(err error) func(*fake) {
	return func(f *fake) {
		f.Config.Records.Store = config.StoreCouchbase
		f.couch.Activations = couchdb.Database{}
		f.Records = func(context.Context) error { return err }
	}
}

// bucket configures S3 for code, with this answer.
func bucket(err error) func(*fake) {
	return func(f *fake) {
		f.Config.S3 = config.S3{Enabled: true, Bucket: "whisk-code"}
		f.Bucket = func(context.Context) error { return err }
	}
}

func TestStoreChecks(t *testing.T) {
	runTrials(t, []trial{
		{"well", outsideCouchDB(nil), "Stores/records", OK, "couchbase takes records", ""},
		{"not well", outsideCouchDB(errors.New("reach bucket whisk: refused")), "Stores/records", Fail, "reach bucket whisk", "CONFIG_whisk_gpu_couchbase_connection"},
		{"bucket", bucket(nil), "Stores/code", OK, "bucket whisk-code", ""},
		{"no bucket", bucket(errors.New("Access Denied")), "Stores/code", Fail, "Access Denied", "CONFIG_whisk_s3_bucket"},
		{"no database of records", outsideCouchDB(nil), "CouchDB/databases", OK, "subjects", ""},
	})
	f := healthy()
	outsideCouchDB(nil)(f)
	for _, r := range Examine(t.Context(), f.Machine, time.Minute) {
		if r.Group == "CouchDB" && r.Status != OK {
			t.Errorf("%s %s: %s", r.Group, r.Check, r.Found)
		}
	}
}

// logIn configures a login at the brokers.
func logIn(f *fake, protocol string) {
	f.Config.Kafka.SecurityProtocol, f.Config.Kafka.SASL.Mechanism = protocol, "SCRAM-SHA-512"
	f.Config.Kafka.SASL.JAAS = `org.apache.kafka.common.security.scram.ScramLoginModule required username=whisk password="jaas-s3cret";`
}

func couchFails(err error) func(*fake) {
	return func(f *fake) {
		f.Couch = func(context.Context) (couchdb.Survey, error) { return couchdb.Survey{}, err }
	}
}

func TestCouchChecks(t *testing.T) {
	runTrials(t, []trial{
		{"", nil, "CouchDB/server", OK, "CouchDB 3.3.3 at http://db:5984 knows user whisk", ""},
		{"none given", func(f *fake) { f.Config.CouchDB.Host = "" }, "CouchDB/server", Skip, "not configured", "CONFIG_whisk_couchdb"},
		{"away", couchFails(errors.New("refused")), "CouchDB/server", Fail, "refused", "_host"},
		{"password", couchFails(couchdb.ErrUnauthorized), "CouchDB/server", Fail, "not accepted", "_password"},

		{"", nil, "CouchDB/databases", OK, "activations, 7 documents", ""},
		{"writable", nil, "CouchDB/databases", OK, "records may be written", ""},
		{"absent", func(f *fake) { f.couch.Whisks.Read = couchdb.ErrNoDatabase }, "CouchDB/databases", Fail, "whisks does not exist", "WhiskEntity"},
		{"closed", func(f *fake) { f.couch.Subjects.Read = couchdb.ErrForbidden }, "CouchDB/databases", Fail, "subjects may not be read", "member"},
		{"broken", func(f *fake) { f.couch.Subjects.Read = errors.New("status 500") }, "CouchDB/databases", Fail, "status 500", "log"},
		{"read only", func(f *fake) { f.couch.Activations.Write = couchdb.ErrForbidden }, "CouchDB/databases", Fail, "cannot be written", "right to write"},

		{"", nil, "CouchDB/views", OK, "all design documents", ""},
		{"missing", func(f *fake) { f.couch.Subjects.Lacking = []string{"namespaceThrottlings"} }, "CouchDB/views", Warn, "subjects/namespaceThrottlings", "recreateViews"},
	})
}

func byName(f *fake) {
	f.Config.Identity.ID = nil
	f.Config.Identity.UniqueName = "mine"
	f.Config.Identity.ZooKeeperHosts = "zk:2181"
}

func TestZooKeeperChecks(t *testing.T) {
	runTrials(t, []trial{
		{"", nil, "ZooKeeper/numbers", OK, "not needed: --id 0", ""},
		{"no name", func(f *fake) { f.Config.Identity.ID = nil }, "ZooKeeper/numbers", Skip, "neither --id nor --uniqueName", "arguments"},
		{"no hosts", func(f *fake) { byName(f); f.Config.Identity.ZooKeeperHosts = "" }, "ZooKeeper/numbers", Fail, "needs ZooKeeper", "ZOOKEEPER_HOSTS"},
		{"known", func(f *fake) { byName(f); f.zoo = map[string]int{"mine": 4} }, "ZooKeeper/numbers", OK, "mine has the number 4", ""},
		{"new", func(f *fake) { byName(f); f.zoo = map[string]int{"other": 0} }, "ZooKeeper/numbers", OK, "1 invoker(s) have one", ""},
		{"away", func(f *fake) {
			byName(f)
			f.ZooKeeper = func(context.Context) (map[string]int, error) { return nil, errors.New("away") }
		}, "ZooKeeper/numbers", Fail, "zk:2181: away", "--id"},
	})
}

func TestSettingChecks(t *testing.T) {
	spi := func(key, class string) func(*fake) {
		return func(f *fake) { f.Environ = []string{"CONFIG_whisk_spi_" + key + "=org.apache.openwhisk.core." + class} }
	}
	runTrials(t, []trial{
		{"", nil, "Settings/configuration", OK, "complete", ""},
		{"problems", func(f *fake) { f.ConfigErr = config.Problems{errors.New("not set: PORT"), errors.New("bad X")} }, "Settings/configuration", Fail, "bad X", "docs/configuration.md"},
		{"no sources", func(f *fake) { f.ConfigErr = errors.New("read properties: permission denied") }, "Settings/configuration", Fail, "permission denied", "docs/configuration.md"},
		{"one problem", func(f *fake) { f.ConfigErr = config.Problems{errors.New("bad Y")} }, "Settings/configuration", Fail, "bad Y", "docs/configuration.md"},

		{"", func(f *fake) { f.Config.Admin.Username, f.Config.Admin.Password = "ops", "s3cret" }, "Settings/admin login", OK, "not the login", ""},
		{"no login", func(f *fake) { f.Config.Admin.Username, f.Config.Admin.Password = "", "" }, "Settings/admin login", OK, "only to this machine", ""},
		{"well known", func(f *fake) { f.Config.Admin.Username, f.Config.Admin.Password = "invoker.user", "invoker.pass" }, "Settings/admin login", Warn, "OpenWhisk's sources", "docs/operating.md"},

		{"", nil, "Settings/mode", OK, "classic mode", ""},
		{"classic", spi("LoadBalancerProvider", "loadBalancer.ShardingContainerPoolBalancer"), "Settings/mode", OK, "classic mode", ""},
		{"scheduler", spi("LoadBalancerProvider", "loadBalancer.FPCPoolBalancer"), "Settings/mode", Fail, "FPCPoolBalancer", "scheduler_enable"},
		{"scheduled", func(f *fake) { f.Config.Scheduler.Enabled = true }, "Settings/mode", OK, "scheduler mode", ""},
		{"mixed", func(f *fake) {
			f.Config.Scheduler.Enabled = true
			spi("LoadBalancerProvider", "loadBalancer.ShardingContainerPoolBalancer")(f)
		}, "Settings/mode", Fail, "which means classic mode", "FPCInvokerReactive"},
		{"another", spi("EntitlementSpiProvider", "entitlement.Mine"), "Settings/mode", Warn, "Mine", "LocalEntitlementProvider"},
	})
}

func TestContainerChecks(t *testing.T) {
	starts := func(argv ...string) func(*fake) {
		return func(f *fake) { f.images[pythonImage] = docker.Image{Cmd: argv} }
	}
	processes := func(f *fake) { f.Config.Runtimes.Kind = "process" }
	runTrials(t, []trial{
		{"", nil, "Containers/engine", OK, "Docker 28.3, API 1.51, 8 CPUs, 16 GiB", ""},
		{"away", func(f *fake) {
			f.Docker = func(context.Context) (docker.Survey, error) { return docker.Survey{}, errors.New("no socket") }
		}, "Containers/engine", Fail, "no socket", "DOCKER_HOST"},
		{"old", func(f *fake) { f.docker.API = "1.38" }, "Containers/engine", Fail, "too old", "19.03"},
		{"processes", processes, "Containers/engine", Warn, "without any isolation", "CONFIG_whisk_gpu_runtime"},

		{"", nil, "Containers/storage", OK, "overlay2", ""},
		{"slow", func(f *fake) { f.docker.Storage = "vfs" }, "Containers/storage", Warn, "vfs", "overlay2"},

		{"", nil, "Containers/logs", OK, "read at /var/lib/docker/containers", ""},
		{"mounted", func(f *fake) { f.files["containers/.any"] = text("") }, "Containers/logs", OK, "read at /containers", ""},
		{"unreadable", func(f *fake) { delete(f.files, "var/lib/docker/containers/.any") }, "Containers/logs", Warn, "cannot be read", "mount"},
		{"bound", nil, "Containers/logs", OK, "3 files of 11 MB a container; for other containers Docker's default, json-file, max-file 3, max-size 10m", ""},
		{"bound by the extra arguments", func(f *fake) {
			f.Config.Containers.ExtraArgs = map[string][]string{"log-driver": {"json-file"}, "log-opt": {"max-size=1m", "max-file=2"}}
		}, "Containers/logs", OK, "with log-driver json-file, log-opt max-size=1m, log-opt max-file=2 of the extra arguments; for", ""},
		{"no bound by default", func(f *fake) { f.logs.Options = nil }, "Containers/logs", OK, "json-file without max-size: these logs grow without bound", ""},
		{"by dockerd's file", func(f *fake) {
			f.images = nil
			f.files["etc/docker/daemon.json"] = text(`{"log-opts":{"max-size":"7m"}}`)
		}, "Containers/logs", OK, "Docker's default, json-file, max-size 7m", ""},
		{"by the file of another dockerd", func(f *fake) {
			f.images = nil
			f.files["etc/docker/daemon.json"] = text(`{"log-driver":"local","log-opts":{"max-size":"7m"}}`)
		}, "Containers/logs", OK, "Docker's default, json-file, whose limits Docker shows only with an image of the manifest", ""},
		{"not shown", func(f *fake) {
			f.DefaultLogs = func(context.Context, string) (docker.LogSettings, error) {
				return docker.LogSettings{}, errors.New("away")
			}
		}, "Containers/logs", OK, "3 files of 11 MB a container; for other containers Docker's default, json-file, whose limits Docker shows only", ""},
		{"unreadable and bound", func(f *fake) { delete(f.files, "var/lib/docker/containers/.any") }, "Containers/logs", Warn, "3 files of 11 MB a container; for other containers Docker's default", "mount"},
		{"elsewhere", func(f *fake) { f.Config.Logs.OutOfBand = true }, "Containers/logs", OK, "left to Docker's default, json-file, max-file 3, max-size 10m; records have no logs", ""},
		{"elsewhere without bound", func(f *fake) {
			f.Config.Logs.OutOfBand = true
			f.logs.Options = nil
		}, "Containers/logs", Warn, "left to Docker's default, json-file without max-size", "max-size"},
		{"elsewhere by the extra arguments", func(f *fake) {
			f.Config.Logs.OutOfBand = true
			f.Config.Containers.ExtraArgs = map[string][]string{"log-driver": {"journald"}}
		}, "Containers/logs", OK, "left to Docker's driver, with log-driver journald of the extra arguments; records", ""},

		{"", nil, "Containers/runtimes", OK, "for GPUs python:3-gpu", ""},
		{"none given", func(f *fake) { f.Config.Runtimes.Manifest = "" }, "Containers/runtimes", Skip, "not configured", "RUNTIMES_MANIFEST"},
		{"broken", func(f *fake) { f.Config.Runtimes.Manifest = "{" }, "Containers/runtimes", Fail, "parse runtimes manifest", "controllers"},
		{"no runtimes", func(f *fake) { f.Config.Runtimes.Manifest = `{"runtimes":{}}` }, "Containers/runtimes", Fail, "has no runtime", "same value as on the controllers"},
		{"nothing", func(f *fake) { f.Config.Runtimes.Manifest = `{}` }, "Containers/runtimes", Fail, "missing runtimes", "controllers"},
		{"no GPU kinds", func(f *fake) { f.Config.Runtimes.Manifest = `{"runtimes":{"a":[{"kind":"a:1","image":{"name":"a"}}]}}` }, "Containers/runtimes", Warn, "no kind is for GPUs", "python:3-gpu"},

		{"", nil, "Containers/images", OK, pythonImage, ""},
		{"absent", func(f *fake) { f.images = nil }, "Containers/images", Warn, "not on this host", "docker pull " + pythonImage},
		{"refused", func(f *fake) {
			f.Image = func(context.Context, string) (docker.Image, bool, error) {
				return docker.Image{}, false, errors.New("broken")
			}
		}, "Containers/images", Warn, "broken", "docker image inspect"},
		{"stock CUDA", func(f *fake) {
			f.images[pythonImage] = docker.Image{Entrypoint: []string{"/opt/nvidia/nvidia_entrypoint.sh"}, Cmd: []string{"/bin/bash"},
				Labels: map[string]string{"maintainer": "NVIDIA CORPORATION"}}
		}, "Containers/images", Fail, "has no /init and /run: it is a stock CUDA image", "BASE=" + pythonImage},
		{"shell", starts("/bin/bash"), "Containers/images", Fail, "listens on no port", "docker build"},
		{"interpreter", starts("python3"), "Containers/images", Fail, "listens on no port", "docker build"},
		{"nothing", starts(), "Containers/images", Fail, "starts nothing", "docker build"},
		{"own program", starts("/srv/model-server", "--port", "8080"), "Containers/images", Warn, "may have no /init", "--probe " + pythonImage},

		{"works", func(f *fake) { f.ProbeImages = []string{"i:1"} }, "Containers/probe", OK, "i:1: answers /init", ""},
		{"fails", func(f *fake) {
			f.ProbeImages = []string{"i:1"}
			f.Probe = func(context.Context, string) (string, error) { return "", errors.New("nothing answers") }
		}, "Containers/probe", Fail, "i:1 does not speak", "docker run"},
	})
}

// TestKnownProxies: the start commands of OpenWhisk's own images are recognised.
func TestKnownProxies(t *testing.T) {
	for _, i := range []docker.Image{
		{Entrypoint: []string{"/bin/proxy"}},
		{Cmd: []string{"node", "--expose-gc", "app.js"}},
		{Cmd: []string{"/bin/bash", "-c", "cd actionProxy && python -u actionproxy.py"}},
		{Entrypoint: []string{"/run.sh"}, Env: []string{"OW_EXECUTION_ENV=openwhisk/action-golang-v1.20"}},
		{Entrypoint: []string{"/proxy/gpuwhisk-native"}},
	} {
		if _, why := lacksProxy(i); why != "" {
			t.Errorf("%+v: %s", i, why)
		}
	}
}

func TestHostChecks(t *testing.T) {
	busy := func(f *fake) {
		f.Listen = func(context.Context, int) error { return errors.New("address already in use") }
	}
	runTrials(t, []trial{
		{"", nil, "Host/port", OK, "8080 is free", ""},
		{"taken", busy, "Host/port", Fail, "8080: address already in use", "PORT"},
		{"by an invoker", func(f *fake) {
			busy(f)
			f.Ping = func(context.Context, config.Admin) (int, string, error) { return 200, "pong", nil }
		}, "Host/port", OK, "an invoker answers on 8080", ""},

		{"", nil, "Host/memory", OK, "1 GiB of 16 GiB", ""},
		{"too much", func(f *fake) { f.Config.Pool.UserMemory = 32 << 30 }, "Host/memory", Fail, "32 GiB of 16 GiB", "lower"},
		{"nearly all", func(f *fake) { f.Config.Pool.UserMemory = 16 << 30 }, "Host/memory", Warn, "16 GiB of 16 GiB", "leave"},
		{"without Docker", func(f *fake) { f.docker.MemoryBytes = 0 }, "Host/memory", OK, "of 16 GiB", ""},

		{"", nil, "Host/disk", OK, "100 GiB of 200 GiB free at /var/lib/docker", ""},
		{"low", func(f *fake) { f.space.Free = 4 << 30 }, "Host/disk", Warn, "4 GiB of", "prune"},
		{"full", func(f *fake) { f.space.Free = 1 << 20 }, "Host/disk", Fail, "1 MiB of", "prune"},
		{"processes", func(f *fake) { f.Config.Runtimes.Kind, f.Config.Process.Dir = "process", "/var/actions" }, "Host/disk", OK, "at /var/actions", ""},
		{"elsewhere", func(f *fake) {
			f.Disk = func(context.Context, string) (Space, error) { return Space{}, errors.New("no such directory") }
		}, "Host/disk", Warn, "no such directory", "elsewhere"},

		{"", nil, "Host/state", OK, "journal: /var/lib/gpuwhisk/invoker0/journal can be written, 100 GiB of 200 GiB free", ""},
		{"", nil, "Host/state", OK, "waiting records: /var/lib/gpuwhisk/invoker0/records can be written", ""},
		{"", nil, "Host/state", OK, "dead letters: /var/lib/gpuwhisk/invoker0/dead-letters can be written", ""},
		{"small", func(f *fake) { f.space.Free = 8 << 30 }, "Host/state", Warn, "waiting records: /var/lib/gpuwhisk/invoker0/records can be written, 8 GiB of 200 GiB free; up to 12 GiB more", "whisk.gpu.records.spool-size"},
		{"small, and used", func(f *fake) {
			f.space.Free = 16 << 20
			f.files["var/lib/gpuwhisk/invoker0/journal/x"] = text(strings.Repeat("x", 1<<20))
		}, "Host/state", Fail, "journal: /var/lib/gpuwhisk/invoker0/journal can be written, 16 MiB of 200 GiB free; on a full disk no activations are pulled", "room"},
		{"foreign", func(f *fake) {
			f.Writable = func(context.Context, string) (string, error) { return "/var/lib", errors.New("permission denied") }
		}, "Host/state", Fail, "journal: /var/lib cannot be written: permission denied", "whisk.gpu.state"},
		{"none", func(f *fake) { f.Config.State.Dir = "none" }, "Host/state", OK, "no state survives", ""},
	})
}
