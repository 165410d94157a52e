package config

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// full returns the smallest environment with which the invoker starts, and more.
func full(more ...string) []string {
	return append([]string{
		"KAFKA_HOSTS=kafka:9092", "RUNTIMES_MANIFEST={}", "WHISK_API_HOST_NAME=api",
		"CONFIG_whisk_couchdb_protocol=http", "CONFIG_whisk_couchdb_host=db", "CONFIG_whisk_couchdb_port=5984",
		"CONFIG_whisk_couchdb_username=u", "CONFIG_whisk_couchdb_password=very-secret-1", "CONFIG_whisk_couchdb_databases_WhiskAuth=subjects",
		"CONFIG_whisk_couchdb_databases_WhiskEntity=whisks", "CONFIG_whisk_couchdb_databases_WhiskActivation=activations",
	}, more...)
}

// loaded returns the configuration of the smallest environment and more.
func loaded(t *testing.T, more ...string) *Config {
	t.Helper()
	c, err := Load(Input{Environ: full(more...), Args: []string{"--id", "0"}})
	check.NoError(t, err)
	return c
}

// refused checks that the smallest environment and more is refused with an error that
// contains want. It returns the error.
func refused(t *testing.T, want string, more ...string) error {
	t.Helper()
	_, err := Load(Input{Environ: full(more...), Args: []string{"--id", "0"}})
	check.ErrorContains(t, err, want, "%q", more)
	return err
}

// show returns the value and the source of one setting.
func show(c *Config, name string) string {
	for _, s := range c.settings {
		if s.Name == name {
			return s.Value + " from " + s.Source
		}
	}
	return "no such setting"
}

// wantSettings compares settings as they are printed, one by one.
func wantSettings(t *testing.T, c *Config, want map[string]string) {
	t.Helper()
	for name, value := range want {
		for _, k := range keys(c) {
			if k.name == name && k.value.text() != value {
				t.Errorf("%s is %q, want %q", name, k.value.text(), value)
			}
		}
		if show(c, name) == "no such setting" {
			t.Errorf("there is no %s", name)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := Default()
	for name, want := range map[string]string{
		"whisk.container-pool.user-memory":             "1 GiB",
		"whisk.container-proxy.timeouts.pause-grace":   "10 seconds",
		"whisk.memory.max":                             "512 MiB",
		"whisk.time-limit.max":                         "5 minutes",
		"whisk.log-limit.min":                          "0 B",
		"whisk.namespace-default-limit.time-limit.min": "100 ms",
		"whisk.gpu.policy":                             "sticky-plus",
		"whisk.gpu.tokens":                             "2",
		"whisk.gpu.overrun":                            "10 seconds",
		"whisk.transactions.header":                    "X-Request-ID",
		"port":                                         "8080",
	} {
		if got, _, _ := strings.Cut(show(c, name), " from "); got != want {
			t.Errorf("%s is %q by default, want %q", name, got, want)
		}
	}
	want := map[string]string{"segment.bytes": "536870912", "retention.bytes": "1073741824", "retention.ms": "172800000", "max.message.bytes": "1054644"}
	check.DeepEqual(t, c.Kafka.TopicConfig, want)
	if want, _ := sched.Defaults("sticky-plus"); c.GPU.Sched != want {
		t.Errorf("scheduling is %+v, want the policy's %+v", c.GPU.Sched, want)
	}
	check.Equal(t, c.GPU.Tokens, gpu.DefaultTokens())
}

// TestPrecedence: each source overrides the weaker sources.
func TestPrecedence(t *testing.T) {
	const name = "whisk.container-proxy.timeouts.pause-grace"
	env := full()
	for _, step := range []struct{ add, want string }{
		{"", "10 seconds from default"},
		{"OPENWHISK_ENCODED_CONFIG=" + base64.StdEncoding.EncodeToString([]byte(name+" = 1 s")), "1 seconds from OPENWHISK_ENCODED_CONFIG"},
		{"OPENWHISK_CONFIG=whisk { container-proxy.timeouts { pause-grace: 2 seconds } }", "2 seconds from OPENWHISK_CONFIG"},
		{"JAVA_OPTS=-Xmx1g -D" + name + "=3s", "3 seconds from -D in JAVA_OPTS"},
		{`INVOKER_OPTS=-Dx=y "-D` + name + `=9 s" '-D` + name + `=4 s'`, "4 seconds from -D in INVOKER_OPTS"},
		{"CONFIG_whisk_containerProxy_timeouts_pauseGrace=5 seconds", "5 seconds from CONFIG_whisk_containerProxy_timeouts_pauseGrace"},
	} {
		env = append(env, step.add)
		c, err := Load(Input{Environ: env, Args: []string{"--id", "0"}})
		check.NoError(t, err)
		check.Equal(t, show(c, name), step.want, "after %q", step.add)
	}
	c, err := Load(Input{Environ: env, Settings: []string{name + "=6 s", name + "=7 s", "port=8081"}, Args: []string{"--id", "0"}})
	check.NoError(t, err)
	check.Equal(t, show(c, name), "7 seconds from --set")
	check.Equal(t, show(c, "port"), "8081 from --set")
}

// TestGiven: Given lists the keys that are set, demands no other key, and refuses
// settings without an effect.
func TestGiven(t *testing.T) {
	c, given, err := Given(Input{
		Environ:  []string{"CONFIG_whisk_gpu_poolSize=3", "CONFIG_whisk_gpu_tokens="},
		Settings: []string{"whisk.gpu.weights=a=1,b=2", "kafka.hosts=h:1"},
	})
	check.NoError(t, err)
	var names []string
	for _, s := range given {
		names = append(names, s.Variable+" "+s.Value+" "+s.Source)
	}
	check.DeepEqual(t, names, []string{"KAFKA_HOSTS h:1 --set", "CONFIG_whisk_gpu_poolSize 3 CONFIG_whisk_gpu_poolSize", "CONFIG_whisk_gpu_weights a=1,b=2 --set"})
	check.Equal(t, c.GPU.Pool.Size, 3)
	for setting, want := range map[string]string{
		"whisk.gpu.pool-size=0.5":                         "allowed: integer",
		"whisk.gpu.shin.library=x":                        "the nearest is whisk.gpu.shim.library",
		"whisk.controller.actor-system=x":                 "of the controller",
		"whisk.container-factory.container-arg.network=x": "the nearest key is whisk.container-factory.container-args.network",
		"=x":                           "want KEY=VALUE",
		"whisk.gpu.couchbase.passwd=s": "no such key; the nearest is whisk.gpu.couchbase.password",
	} {
		_, _, err := Given(Input{Settings: []string{setting}})
		check.ErrorContains(t, err, want)
	}
}

func TestPrecedenceOfPlainNames(t *testing.T) {
	env := full("JAVA_OPTS=-Dwhisk-config.port=1")
	in := Input{Environ: env, Args: []string{"--id", "0"}}
	check := func(want string) {
		t.Helper()
		c, err := Load(in)
		check.NoError(t, err)
		if got := show(c, "port"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	check("1 from -D in JAVA_OPTS")
	in.Environ = slices.Concat(env, []string{"PORT= 2 "})
	check("2 from PORT")
	in.Properties, in.PropertiesPath = "# comment=1\n port = 3 \nother=x\n", "../whisk.properties"
	check("3 from ../whisk.properties")
	in.Properties = "port=\n"
	check("2 from PORT")
}

func TestVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"CONFIG_whisk_containerPool_userMemory":                        "whisk.container-pool.user-memory",
		"CONFIG_whisk_spi_LogStoreProvider":                            "whisk.spi.LogStoreProvider",
		"CONFIG_whisk_couchdb_databases_WhiskAuth":                     "whisk.couchdb.databases.WhiskAuth",
		"CONFIG_akka_remote_netty_tcp_bindPort":                        "akka.remote.netty.tcp.bind-port",
		"CONFIG_whisk_containerFactory_containerArgs_dnsServers_0":     "whisk.container-factory.container-args.dns-servers.0",
		"CONFIG_whisk_parameterStorage_aes128":                         "whisk.parameter-storage.aes128",
		"CONFIG_whisk_kafka_common_sslEndpointIdentificationAlgorithm": "whisk.kafka.common.ssl-endpoint-identification-algorithm",
		"CONFIG_a_bC_D":     "a.b-c.D",
		"CONFIG_a__b_":      "a.b",
		"CONFIG_userCPUs":   "user-cPUs",
		"CONFIG_aBcDe":      "a-bc-de",
		"CONFIG_x1Y":        "x1-y",
		"CONFIG_":           "",
		"CONFIG_whisk_x-y_": "whisk.x-y",
	} {
		check.Equal(t, property(variable), want, "%s", variable)
	}
}

func TestEmptyVariablesAndReferences(t *testing.T) {
	c := loaded(t, "CONFIG_whisk_containerPool_userMemory=", "CONFIG_whisk_memory_max=$LIMIT", "LIMIT=1g",
		"CONFIG_whisk_invoker_password=$NOT_SET", "CONFIG_whisk_invoker_username=$", "METRICS_KAMON=", "METRICS_LOG=false")
	check.Equal(t, c.Pool.UserMemory, GiB)
	check.Equal(t, c.Limits.MemoryMax, GiB, "that of LIMIT")
	check.Equal(t, c.Limits.Namespace.MemoryMax, GiB, "that of LIMIT")
	check.Equal(t, c.Admin.Password, "$NOT_SET", "the text itself")
	check.Equal(t, c.Admin.Username, "$", "the text itself")
	if c.Metrics.Kamon {
		t.Errorf("metrics are %+v", c.Metrics)
	}
}

func TestLists(t *testing.T) {
	const args = "whisk.container-factory.container-args"
	hocon := "OPENWHISK_CONFIG=" + args + ` { dns-servers: ["1.1.1.1", 8.8.8.8, 9.9.9.9], dns-search = [], extra-args { ulimit = [a, b], volume = one } }`
	c := loaded(t, hocon)
	check.EqualSlices(t, c.Containers.DNSServers, []string{"1.1.1.1", "8.8.8.8", "9.9.9.9"})
	if got := c.Containers.ExtraArgs; !maps.EqualFunc(got, map[string][]string{"ulimit": {"a", "b"}, "volume": {"one"}}, slices.Equal) {
		t.Errorf("arguments of the file: %v", got)
	}
	// Numbered variables replace the whole list of the file. The numbers order the
	// elements, and gaps close up.
	c = loaded(t, hocon, "CONFIG_whisk_containerFactory_containerArgs_dnsServers_10=b",
		"CONFIG_whisk_containerFactory_containerArgs_dnsServers_9=a",
		"CONFIG_whisk_containerFactory_containerArgs_extraEnvVars_0=__OW_ALLOW_CONCURRENT=false",
		"CONFIG_whisk_containerFactory_containerArgs_extraArgs_capDrop_0=ALL")
	check.EqualSlices(t, c.Containers.DNSServers, []string{"a", "b"})
	check.EqualSlices(t, c.Containers.ExtraEnv, []string{"__OW_ALLOW_CONCURRENT=false"})
	check.EqualSlices(t, c.Containers.ExtraArgs["cap-drop"], []string{"ALL"})
}

// TestUnknownKeysKeepTheirValues: an error about an unknown key does not repeat its value,
// whatever the name is: a misplaced key may hold a secret.
func TestUnknownKeysKeepTheirValues(t *testing.T) {
	for setting, want := range map[string]string{
		"CONFIG_whisk_gpu_couchbase_passwrd=":       "the nearest is whisk.gpu.couchbase.password",
		"CONFIG_whisk_gpu_couchbase_Password=":      "the nearest is whisk.gpu.couchbase.password",
		"CONFIG_whisk_gpu_couchdb_pasword=":         "the nearest is whisk.gpu.couchbase.password",
		"CONFIG_whisk_gpu_extraEnvVars=TOKEN=":      "whisk.gpu.extra-env-vars (from CONFIG_whisk_gpu_extraEnvVars): no such key; the nearest is",
		"CONFIG_whisk_gpu_extraEnvVars_0=TOKEN=":    "whisk.gpu.extra-env-vars.0 (from CONFIG_whisk_gpu_extraEnvVars_0): no such key; the nearest is",
		"CONFIG_whisk_gpu_tokns=":                   "the nearest is whisk.gpu.tokens",
		"OPENWHISK_CONFIG=whisk.gpu.tokns = ":       "whisk.gpu.tokns (from OPENWHISK_CONFIG): no such key",
		"OPENWHISK_CONFIG=whisk.gpu.env.TOKEN = ":   "whisk.gpu.env.TOKEN (from OPENWHISK_CONFIG): no such key",
		"JAVA_OPTS=-Dwhisk.gpu.extra-env-vars=KEY=": "whisk.gpu.extra-env-vars (from -D in JAVA_OPTS): no such key",
	} {
		err := refused(t, want, setting+"very-secret-7")
		check.Lacks(t, err.Error(), "very-secret-7")
	}
}

// TestLoginInAnAddress: an error about the address does not repeat it.
func TestLoginInAnAddress(t *testing.T) {
	err := refused(t, `whisk.etcd.hosts names "********@10.0.0.1:2379", which is not host:port`, "CONFIG_whisk_etcd_hosts=http://root:very-secret-7@10.0.0.1:2379")
	check.Lacks(t, err.Error(), "very-secret-7")
}

func TestErrorsNameKeyValueAndWhatIsAllowed(t *testing.T) {
	for setting, want := range map[string]string{
		"CONFIG_whisk_gpu_overrun=ten":                               `whisk.gpu.overrun: "ten" (from CONFIG_whisk_gpu_overrun) is not allowed; allowed: duration`,
		"CONFIG_whisk_gpu_tokens=0":                                  `whisk.gpu.tokens: "0" (from CONFIG_whisk_gpu_tokens) is not allowed; allowed: integer from 1 to 64`,
		"CONFIG_whisk_gpu_policy=lifo":                               `allowed: mqfq-sticky | sticky-plus`,
		"CONFIG_whisk_gpu_tokns=2":                                   `whisk.gpu.tokns (from CONFIG_whisk_gpu_tokns): no such key; the nearest is whisk.gpu.tokens, set by CONFIG_whisk_gpu_tokens`,
		"CONFIG_whisk_gpuTokens=2":                                   `the nearest is whisk.gpu.tokens`,
		"OPENWHISK_CONFIG=whisk.gpu.ttl.alfa = 2":                    `the nearest is whisk.gpu.ttl.alpha`,
		"CONFIG_whisk_gpu_ttl_min=1 h":                               `whisk.gpu.ttl.min 1 h is above whisk.gpu.ttl.max 10 minutes`,
		"CONFIG_whisk_containerPool_userMemory=100m":                 `whisk.container-pool.user-memory 100 MiB is below whisk.memory.min 128 MiB: no action would have room`,
		"KAFKA_HOSTS=kafka":                                          `KAFKA_HOSTS names "kafka", which is not host:port`,
		"CONFIG_whisk_memory_min=300m":                               `whisk.memory: min 300 MiB, std 256 MiB, max 512 MiB are out of order`,
		"CONFIG_whisk_couchdb_port=https":                            `allowed: integer from 1 to 65535`,
		"CONFIG_whisk_invoker_protocol=https":                        `needs whisk.invoker.https.keystore-path`,
		"CONFIG_whisk_gpu_records_store=couchbase":                   `needs whisk.gpu.couchbase.connection`,
		"CONFIG_whisk_kafka_common_securityProtocol=SSL":             `needs whisk.kafka.common.ssl-truststore-location`,
		"CONFIG_whisk_kafka_common_securityProtocol=SASL":            `allowed: PLAINTEXT | SSL | SASL_PLAINTEXT | SASL_SSL`,
		"CONFIG_whisk_kafka_common_securityProtocol=SASL_SSL":        `SASL_SSL, which needs whisk.kafka.common.ssl-truststore-location`,
		"CONFIG_whisk_kafka_common_securityProtocol=SASL_PLAINTEXT":  `needs whisk.kafka.common.sasl-mechanism: PLAIN`,
		"CONFIG_whisk_kafka_common_saslMechanism=GSSAPI":             `allowed: (empty) | PLAIN | SCRAM-SHA-256 | SCRAM-SHA-512`,
		"CONFIG_whisk_containerFactory_containerArgs_dnsServers_x=1": `"x=1"`,
		"CONFIG_whisk_gpu_weights=a=0":                               `weights above 0`,
		"CONFIG_whisk_gpu_forwardTo=invoker3,gpu":                    `"gpu" is no invoker`,
		"CONFIG_whisk_parameterStorage_aes128=short":                 `whisk.parameter-storage.aes128: "********" (from CONFIG_whisk_parameterStorage_aes128) is not allowed; allowed: base64 of 16 bytes`,
		"OPENWHISK_CONFIG=a = {":                                     `read OPENWHISK_CONFIG: line 1`,
		"OPENWHISK_ENCODED_CONFIG=%%%":                               `decode OPENWHISK_ENCODED_CONFIG`,
		"INVOKER_OPTS=-Da='b":                                        `read INVOKER_OPTS: a quote is not closed`,
	} {
		refused(t, want, setting)
	}
}

// TestUnusedStoreNeedsNothing: if records are dropped, the settings of the selected
// store are not required.
func TestUnusedStoreNeedsNothing(t *testing.T) {
	for _, store := range []string{StoreCouchbase, StoreElasticsearch} {
		c := loaded(t, "CONFIG_whisk_spi_ActivationStoreProvider=org.apache.openwhisk.core.database.NoopActivationStoreProvider", "CONFIG_whisk_gpu_records_store="+store)
		if c.RecordsOutsideCouchDB() {
			t.Errorf("records go to %s", store)
		}
	}
}

func TestEverythingMissingIsOneError(t *testing.T) {
	_, err := Load(Input{})
	if err == nil {
		t.Fatal("an empty environment was accepted")
	}
	for _, want := range []string{"KAFKA_HOSTS", "RUNTIMES_MANIFEST", "WHISK_API_HOST_NAME", "CONFIG_whisk_couchdb_password", "--id N nor --uniqueName"} {
		check.ErrorContains(t, err, want)
	}
	// A wrong value is not also reported as missing.
	_, err = Load(Input{Environ: full("CONFIG_whisk_couchdb_port=x"), Args: []string{"--id", "0"}})
	check.That(check.Must(t), err != nil)
	check.Lacks(t, err.Error(), "not set")
}

func TestIdentityNeedsZooKeeperWithoutID(t *testing.T) {
	for _, hosts := range []string{"", ":2181", "zk:"} {
		_, err := Load(Input{Environ: full("ZOOKEEPER_HOSTS=" + hosts), Args: []string{"--uniqueName", "a"}})
		check.ErrorContains(t, err, "needs ZOOKEEPER_HOSTS", "%q", hosts)
	}
}

func TestPrintMasksSecrets(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	c := loaded(t, "CONFIG_whisk_parameterStorage_aes256="+key, "CONFIG_whisk_invoker_password=very-secret-2", "CONFIG_whisk_unknown_password=very-secret-3",
		"CONFIG_whisk_kafka_common_sslKeystorePassword=very-secret-4", "CONFIG_whisk_kafka_common_securityProtocol=SASL_PLAINTEXT",
		"CONFIG_whisk_kafka_common_saslMechanism=PLAIN", "CONFIG_whisk_kafka_common_saslJaasConfig="+scramEntry,
		"CONFIG_whisk_containerFactory_containerArgs_extraEnvVars_0=DB_PASSWORD=very-secret-5", "CONFIG_whisk_containerFactory_containerArgs_extraEnvVars_1=MODE=very-secret-mode",
		"CONFIG_whisk_containerFactory_containerArgs_extraArgs_env_0=API_TOKEN=very-secret-6", "CONFIG_whisk_containerFactory_containerArgs_extraArgs_logOpt_0=splunk-token=very-secret-7",
		"CONFIG_whisk_containerFactory_containerArgs_extraArgs_ulimit_0=nofile=64", "DOCKER_HOST=tcp://me:very-secret-8@docker:2375",
		"OTEL_EXPORTER_OTLP_ENDPOINT=https://me:very-secret-9@collector:4318")
	for _, secret := range []string{"very-secret-2", "very-secret-5", "very-secret-6", "very-secret-7", "very-secret-8", "very-secret-9"} {
		check.Includes(t, c.Secrets(), secret)
	}
	var b bytes.Buffer
	check.NoError(t, c.Print(&b))
	check.NoError(t, c.PrintJSON(&b))
	got := b.String()
	check.Lacks(t, got, "very-secret")
	check.Lacks(t, got, key)
	for _, want := range []string{"whisk.invoker.password", mask, "whisk.unknown.password", "--id", "CONFIG_whisk_couchdb_host", "DB_PASSWORD=" + mask, "nofile=64", "me:" + mask + "@docker:2375"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not shown:\n%s", want, got)
		}
	}
	check.Equal(t, string(c.Actions.AES256), strings.Repeat("k", 32))
}

func TestGPUKeys(t *testing.T) {
	c := loaded(t, "CONFIG_whisk_gpu_simulated_devices=2", "CONFIG_whisk_gpu_simulated_memory=8g", "CONFIG_whisk_gpu_overrun=0",
		"CONFIG_whisk_gpu_weights=guest/infer=2, guest=0.5", "CONFIG_whisk_gpu_charge_correct=true", "CONFIG_whisk_gpu_policy=Sticky-Plus",
		"CONFIG_whisk_gpu_forwardTo=invoker9,invoker12", "CONFIG_whisk_gpu_drainDeadline=Inf")
	wantSettings(t, c, map[string]string{
		"whisk.gpu.simulated.devices": "2",
		"whisk.gpu.simulated.memory":  "8 GiB",
		"whisk.gpu.policy":            "sticky-plus",
		"whisk.gpu.forward-to":        "invoker9,invoker12",
		"whisk.gpu.overrun":           "0 seconds",
		"whisk.gpu.gap":               "0 seconds",
		"whisk.gpu.charge.correct":    "true",
		"whisk.gpu.weights":           "guest=0.5,guest/infer=2",
		"whisk.gpu.drain-deadline":    "Inf",
	})
}

func TestNamesOfOneKey(t *testing.T) {
	c := loaded(t, "CONFIG_logback_log_level=WARN", "CONFIG_whisk_runc_timeouts_pause=3 s")
	check.Equal(t, c.Logs.Level, "WARN")
	check.Equal(t, c.Docker.Timeouts.Pause, 3*time.Second)
	c = loaded(t, "CONFIG_logback_log_level=WARN", "CONFIG_whisk_gpu_log_level=debug")
	check.Equal(t, c.Logs.Level, "DEBUG")
}

func TestMaxPeek(t *testing.T) {
	c := loaded(t, "CONFIG_whisk_containerPool_userMemory=2000m", "CONFIG_whisk_concurrencyLimit_max=500")
	check.Equal(t, c.MaxPeek(), 15*500/2)
}

func TestOwnMemory(t *testing.T) {
	own := func(more ...string) int64 { return loaded(t, more...).OwnMemory() }
	small := own("CONFIG_whisk_containerPool_userMemory=2048m")
	check.AtLeast(t, small, 256<<20)
	check.AtMost(t, small, 1<<30)
	// 2,048 more activations of 3 MiB each.
	check.Equal(t, own("CONFIG_whisk_containerPool_userMemory=258g")-small, 2048*3<<20)
	check.Equal(t, own("CONFIG_whisk_containerPool_userMemory=2048m", "CONFIG_whisk_gpu_cache_size=1064m")-small, 1000<<20)
}

func TestAPIHostURL(t *testing.T) {
	for want, a := range map[string]APIHost{
		"https://host":      {"https", "Host", 443},
		"http://host":       {"http", "host", 80},
		"https://host:80":   {"https", "host", 80},
		"http://[::1]:8080": {"http", "::1", 8080},
	} {
		check.Equal(t, a.url(), want, "%+v", a)
	}
}

func TestFindProperties(t *testing.T) {
	root := fstest.MapFS{"a/whisk.properties": {Data: []byte("port=1")}, "a/b/c/x": {}}
	for dir, want := range map[string]string{"a/b/c": "a/whisk.properties", "a": "a/whisk.properties", "d/e": "", ".": ""} {
		at, text, err := FindProperties(root, dir)
		check.ErrorIs(t, err, nil, "from %s", dir)
		check.Equal(t, at, want, "from %s", dir)
		check.Equal(t, text == "", want == "", "from %s", dir)
	}
	root["a/b/whisk.properties"] = &fstest.MapFile{Mode: 0o755 | 1<<31} // a directory
	if _, _, err := FindProperties(root, "a/b"); err == nil {
		t.Error("a directory was read")
	}
}

func TestPrintJSON(t *testing.T) {
	c := loaded(t, "CONFIG_whisk_gpu_overrun=3s", "CONFIG_whisk_unknown_thing=1")
	var b bytes.Buffer
	check.NoError(t, c.PrintJSON(&b))
	var all []struct{ Key, Variable, Value, Source, Ignored string }
	if err := json.Unmarshal(b.Bytes(), &all); err != nil {
		t.Fatalf("%v in %s", err, b.String())
	}
	found := map[string]string{}
	for _, s := range all {
		found[s.Key] = s.Value + "|" + s.Source + "|" + s.Ignored
	}
	for key, want := range map[string]string{
		"whisk.gpu.overrun":   "3 seconds|CONFIG_whisk_gpu_overrun|",
		"whisk.gpu.retention": "demand|policy sticky-plus|",
		"whisk.unknown.thing": "|CONFIG_whisk_unknown_thing|not a setting of this invoker",
		"--id":                "0|command line|",
	} {
		check.Equal(t, found[key], want, "%s", key)
	}
}
