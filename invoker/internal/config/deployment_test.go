package config

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestAnsibleEnvironment: the environment of OpenWhisk's Ansible role is accepted as it
// is, with its oddities.
func TestAnsibleEnvironment(t *testing.T) {
	c, err := Load(Input{Args: []string{"--id", "3", "--uniqueName", "3"}, Environ: full(
		"JAVA_OPTS=-Xmx1g -Dconfig.file=/conf/x.conf", "INVOKER_OPTS=", "PORT=8080", "TZ=UTC", "ZOOKEEPER_HOSTS=zk:2181",
		"OPENWHISK_ENCODED_CONFIG="+base64.StdEncoding.EncodeToString([]byte("include classpath(\"application.conf\")\n")),
		"WHISK_API_HOST_PROTO=http", "WHISK_API_HOST_PORT=10001", "WHISK_API_HOST_NAME=172.17.0.1",
		"CONFIG_whisk_containerPool_userMemory=2048m", "CONFIG_whisk_containerPool_userCpus=", "CONFIG_whisk_docker_containerFactory_useRunc=true",
		"CONFIG_whisk_invoker_resource_tags= '' ", "CONFIG_whisk_invoker_dedicated_namespaces= 'a, b' ",
		"CONFIG_whisk_kakfa_topics_invoker_segmentBytes=1", "CONFIG_whisk_kafka_topics_invoker_retentionMs=1000",
		"CONFIG_whisk_kafka_common_securityProtocol=PLAINTEXT", "CONFIG_whisk_kafka_common_sslTruststoreLocation=/conf/kafka-keystore.jks",
		"CONFIG_whisk_kafka_common_sslTruststorePassword=openwhisk", "CONFIG_whisk_db_subjectsDdoc=",
		"CONFIG_whisk_spi_LogStoreProvider=org.apache.openwhisk.core.containerpool.logging.DockerToActivationLogStoreProvider",
		"CONFIG_whisk_invoker_protocol=https", "CONFIG_whisk_invoker_https_keystorePath=/conf/invoker-openwhisk-keystore.p12",
		"CONFIG_whisk_invoker_https_keystorePassword=openwhisk", "CONFIG_whisk_invoker_https_keystoreFlavor=PKCS12", "CONFIG_whisk_invoker_https_clientAuth=true",
		"CONFIG_kamon_statsd_hostname=", "CONFIG_kamon_statsd_port=8125", "CONFIG_logback_log_level=INFO", "METRICS_KAMON=false")})
	check.NoError(t, err)
	check.Equal(t, *c.Identity.ID, 3)
	check.Equal(t, c.Identity.UniqueName, "3")
	wantSettings(t, c, map[string]string{"whisk.invoker.resource.tags": "", "whisk.invoker.dedicated.namespaces": "a,b"})
	check.Equal(t, c.Runtimes.API.url(), "http://172.17.0.1:10001")
	check.Equal(t, c.MaxPeek(), 16)
	check.Equal(t, c.Kafka.TopicConfig["retention.ms"], "1000")
	check.Equal(t, c.Kafka.TopicConfig["segment.bytes"], "536870912")
	check.That(t, c.Admin.TLS.ClientAuth)
	check.Equal(t, c.Admin.TLS.KeystorePassword, "openwhisk")
	if c.Metrics.Sent() {
		t.Error("metrics are sent to a StatsD without a name")
	}
	ignored := map[string]string{}
	for _, s := range c.Ignored() {
		ignored[s.Name] = s.Ignored
	}
	for _, name := range []string{"whisk.kakfa.topics.invoker.segment-bytes", "whisk.docker.container-factory.use-runc", "config.file"} {
		if ignored[name] == "" {
			t.Errorf("%s is not listed as ignored: %v", name, ignored)
		}
	}
}

// TestKubeEnvironment: the environment of OpenWhisk's Helm chart, for hosts with Docker,
// is accepted.
func TestKubeEnvironment(t *testing.T) {
	c, err := Load(Input{Args: []string{"--uniqueName", "node-7"}, Environ: full(
		"INVOKER_OPTS=-Dkubernetes.master=https://10.0.0.1 -Dwhisk.spi.ContainerFactoryProvider=org.apache.openwhisk.core.containerpool.docker.DockerContainerFactoryProvider",
		"ZOOKEEPER_HOSTS=zk-0:2181,zk-1:2181", "METRICS_KAMON=true", "OPENWHISK_CONFIG=include classpath(\"application.conf\")\nwhisk { metrics { prometheus-enabled = true } }",
		"CONFIG_whisk_gpu_metrics_enabled=false")})
	check.NoError(t, err)
	check.Equal(t, c.Identity.ID, nil)
	check.Equal(t, c.Identity.UniqueName, "node-7")
	check.Equal(t, c.Identity.ZooKeeperHosts, "zk-0:2181,zk-1:2181")
	if !c.Metrics.Served() {
		t.Errorf("metrics %+v are not served", c.Metrics)
	}
}

func TestServiceProviders(t *testing.T) {
	c := loaded(t, "CONFIG_whisk_spi_LogStoreProvider=org.apache.openwhisk.core.containerpool.logging.DockerToActivationFileLogStoreProvider")
	check.Equal(t, c.Logs.Files, LogFiles{Enabled: true, Dir: "/logs", Size: 100 * MiB})
	if c.Logs.OutOfBand {
		t.Error("the file log store leaves logs to the engine")
	}
	c = loaded(t, "CONFIG_whisk_spi_LogStoreProvider=whisk.core.containerpool.logging.LogDriverLogStoreProvider",
		"CONFIG_whisk_spi_ActivationStoreProvider=org.apache.openwhisk.core.database.memory.NoopActivationStoreProvider")
	check.That(t, c.Logs.OutOfBand)
	check.That(t, c.Records.Discard)
	for setting, want := range map[string]string{
		"InvokerProvider=org.apache.openwhisk.core.invoker.FPCInvokerReactive":                                           "whisk.etcd.hosts",
		"ContainerFactoryProvider=org.apache.openwhisk.core.containerpool.kubernetes.KubernetesContainerFactoryProvider": "Kubernetes",
		"ActivationStoreProvider=org.apache.openwhisk.core.database.elasticsearch.ElasticSearchActivationStoreProvider":  "needs whisk.activation-store.elasticsearch.hosts",
		"AttachmentStoreProvider=org.apache.openwhisk.core.database.s3.S3AttachmentStoreProvider":                        "needs whisk.s3.bucket",
		"LogStoreProvider=org.apache.openwhisk.core.containerpool.logging.SplunkLogStoreProvider":                        "Splunk",
		"ArtifactStoreProvider=org.apache.openwhisk.core.database.mongodb.MongoDBArtifactStoreProvider":                  "MongoDB",
		"MessagingProvider=org.apache.openwhisk.connector.lean.LeanMessagingProvider":                                    "standalone",
		"LogStoreProvider=com.example.Mine": "DockerToActivationLogStoreProvider | DockerToActivationFileLogStoreProvider | LogDriverLogStoreProvider",
	} {
		refused(t, want, "CONFIG_whisk_spi_"+setting)
	}
}

// TestElasticsearchAsTheRoleSetsIt: the role's settings for Elasticsearch suffice, and
// whisk.gpu.records.store overrides the service provider.
func TestElasticsearchAsTheRoleSetsIt(t *testing.T) {
	role := []string{
		"CONFIG_whisk_activationStore_elasticsearch_protocol=http",
		"CONFIG_whisk_activationStore_elasticsearch_hosts=172.17.0.1:9200,172.17.0.2:9201",
		"CONFIG_whisk_activationStore_elasticsearch_indexPattern=openwhisk-%s",
		"CONFIG_whisk_activationStore_elasticsearch_username=admin",
		"CONFIG_whisk_activationStore_elasticsearch_password=of a test",
		"CONFIG_whisk_spi_ActivationStoreProvider=org.apache.openwhisk.core.database.elasticsearch.ElasticSearchActivationStoreProvider",
	}
	c := loaded(t, role...)
	if !c.RecordsOutsideCouchDB() {
		t.Errorf("records go to %s", c.Records.Store)
	}
	wantSettings(t, c, map[string]string{
		"whisk.gpu.records.store":                            StoreElasticsearch,
		"whisk.activation-store.elasticsearch.hosts":         "172.17.0.1:9200,172.17.0.2:9201",
		"whisk.activation-store.elasticsearch.index-pattern": "openwhisk-%s",
		"whisk.activation-store.elasticsearch.username":      "admin",
		"whisk.activation-store.elasticsearch.password":      "of a test",
	})
	check.Includes(t, c.Secrets(), "of a test")
	var names strings.Builder
	check.NoError(t, c.Print(&names))
	check.Lacks(t, names.String(), "of a test")
	if c := loaded(t, append(role, "CONFIG_whisk_gpu_records_store=couchdb")...); c.RecordsOutsideCouchDB() {
		t.Error("whisk.gpu.records.store does not count before the service provider")
	}
	c = loaded(t)
	check.Equal(t, c.Records.Store, StoreCouchDB, "without a choice")
	check.That(t, !c.RecordsOutsideCouchDB(), "without a choice")
}

// TestS3AsTheOriginalHasIt: code in S3 is read with OpenWhisk's keys, in the names of
// this release and of the previous one. Unsupported settings are refused.
func TestS3AsTheOriginalHasIt(t *testing.T) {
	for _, library := range []string{"pekkoConnectors", "alpakka"} {
		given := []string{
			"CONFIG_whisk_spi_AttachmentStoreProvider=org.apache.openwhisk.core.database.s3.S3AttachmentStoreProvider",
			"CONFIG_whisk_s3_bucket=code", "CONFIG_whisk_s3_prefix=dev",
			"CONFIG_whisk_s3_" + library + "_endpointUrl=http://minio:9000",
			"CONFIG_whisk_s3_" + library + "_aws_credentials_provider=static",
			"CONFIG_whisk_s3_" + library + "_aws_credentials_accessKeyId=AKIDEXAMPLE",
			"CONFIG_whisk_s3_" + library + "_aws_credentials_secretAccessKey=of a test",
			"CONFIG_whisk_s3_" + library + "_aws_region_defaultRegion=eu-west-1",
			"CONFIG_whisk_s3_" + library + "_buffer=disk",
		}
		c := loaded(t, given...)
		want := S3{Enabled: true, Bucket: "code", Prefix: "dev", Endpoint: "http://minio:9000", PathStyle: true,
			Credentials: "static", AccessKey: "AKIDEXAMPLE", SecretKey: "of a test", Region: "eu-west-1"}
		check.Equal(t, c.S3, want, "%s", library)
		var names strings.Builder
		check.NoError(t, c.PrintJSON(&names))
		check.Lacks(t, names.String(), "of a test")
		check.Lacks(t, names.String(), "AKIDEXAMPLE")
		for setting, want := range map[string]string{
			"CONFIG_whisk_s3_cloudFrontConfig_domainName=x.cloudfront.net":     "read from the bucket itself",
			"CONFIG_whisk_s3_" + library + "_aws_credentials_secretAccessKey=": "needs access-key-id and secret-access-key",
			"CONFIG_whisk_s3_bucket=": "needs whisk.s3.bucket",
		} {
			refused(t, want, append(slices.Clone(given), setting)...)
		}
	}
}

// TestMode: the service provider selects the mode. Without a provider, the mode is the
// scheduler mode if etcd is configured.
func TestMode(t *testing.T) {
	const (
		provider = "CONFIG_whisk_spi_InvokerProvider=org.apache.openwhisk.core.invoker."
		etcd     = "CONFIG_whisk_etcd_hosts=10.0.0.1:2379,10.0.0.2:2380"
	)
	for _, c := range []struct {
		environ   []string
		scheduled bool
		source    string
	}{
		{nil, false, "default"},
		{[]string{etcd}, true, "as whisk.etcd.hosts"},
		{[]string{etcd, "CONFIG_whisk_spi_InvokerProvider="}, true, "as whisk.etcd.hosts"},
		{[]string{etcd, provider + "InvokerReactive"}, false, "as whisk.spi.InvokerProvider"},
		{[]string{etcd, provider + "FPCInvokerReactive"}, true, "as whisk.spi.InvokerProvider"},
		{[]string{provider + "InvokerReactive"}, false, "as whisk.spi.InvokerProvider"},
	} {
		got := loaded(t, c.environ...)
		check.Equal(t, got.Scheduler.Enabled, c.scheduled, "%q", c.environ)
		if printed, want := got.mode(), (Setting{Name: "mode", Value: map[bool]string{false: "classic", true: "scheduler"}[c.scheduled], Source: c.source}); printed != want {
			t.Errorf("%q: printed as %+v, want %+v", c.environ, printed, want)
		}
	}
	refused(t, "not host:port", "CONFIG_whisk_etcd_hosts=10.0.0.1")
}

// TestSchedulerModeAsTheRoleSetsIt: the role's environment for the scheduler mode is
// accepted as it is.
func TestSchedulerModeAsTheRoleSetsIt(t *testing.T) {
	c := loaded(t, "CONFIG_whisk_etcd_hosts=10.0.0.1:2379", "CONFIG_whisk_etcd_lease_timeout=10", "CONFIG_whisk_etcd_pool_threads=10",
		"CONFIG_whisk_scheduler_dataManagementService_retryInterval=1 second", "CONFIG_whisk_invoker_containerCreation_maxPeek=500",
		"CONFIG_whisk_spi_InvokerProvider=org.apache.openwhisk.core.invoker.FPCInvokerReactive",
		"CONFIG_whisk_spi_InvokerServerProvider=org.apache.openwhisk.core.invoker.FPCInvokerServer",
		"CONFIG_whisk_cluster_name=whisk", "CONFIG_whisk_containerPool_memorySyncInterval=1 second",
		"CONFIG_whisk_containerProxy_timeouts_keepingDuration=10 minutes", "CONFIG_whisk_invoker_resource_tags= 'v1,gpu' ",
		"CONFIG_whisk_invoker_dedicated_namespaces= '' ")
	if !c.Scheduler.Enabled {
		t.Error("it is not scheduler mode")
	}
	want := Scheduler{
		Enabled: true, Cluster: "whisk", Keeping: 10 * time.Minute, MemorySync: time.Second, JobTime: 20 * time.Second, BlackboxMultiple: 15,
		Etcd: Etcd{Hosts: []string{"10.0.0.1:2379"}, LeaseTimeout: 10, RetryInterval: time.Second},
	}
	check.DeepEqual(t, c.Scheduler, want)
	check.EqualSlices(t, c.Identity.Tags, []string{"v1", "gpu"})
	check.Equal(t, len(c.Identity.DedicatedNamespaces), 0)
	for _, s := range c.Ignored() {
		if strings.HasPrefix(s.Name, "whisk.etcd.") && s.Name != "whisk.etcd.pool.threads" {
			t.Errorf("%s has no effect", s.Name)
		}
	}
}
