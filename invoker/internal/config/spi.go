package config

import (
	"fmt"
	"slices"
	"strings"
)

// Providers are the simple class names of those OpenWhisk service providers that this
// invoker supports.
type Providers struct {
	Invoker     string `key:"whisk.spi.InvokerProvider" class:",InvokerReactive,FPCInvokerReactive" doc:"InvokerReactive: classic mode, FPCInvokerReactive: scheduler mode; empty: scheduler mode where whisk.etcd.hosts is set"`
	Server      string `key:"whisk.spi.InvokerServerProvider" class:",DefaultInvokerServer,FPCInvokerServer" doc:"accepted without effect: the mode decides the HTTP endpoints"`
	Messaging   string `key:"whisk.spi.MessagingProvider" default:"KafkaMessagingProvider" class:"KafkaMessagingProvider" doc:"message bus"`
	Artifacts   string `key:"whisk.spi.ArtifactStoreProvider" default:"CouchDbStoreProvider" class:"CouchDbStoreProvider" doc:"store of actions and records"`
	Attachments string `key:"whisk.spi.AttachmentStoreProvider" class:",S3AttachmentStoreProvider" doc:"where actions' code is: in the database where empty, or in whisk.s3"`
	Activations string `key:"whisk.spi.ActivationStoreProvider" default:"ArtifactActivationStoreProvider" class:"ArtifactActivationStoreProvider,NoopActivationStoreProvider,ElasticSearchActivationStoreProvider" doc:"store of activation records; the Noop one drops them"`
	Logs        string `key:"whisk.spi.LogStoreProvider" default:"DockerToActivationLogStoreProvider" class:"DockerToActivationLogStoreProvider,DockerToActivationFileLogStoreProvider,LogDriverLogStoreProvider" doc:"where action logs go: into the record; also into files; or left to the engine"`
	Containers  string `key:"whisk.spi.ContainerFactoryProvider" default:"DockerContainerFactoryProvider" class:"DockerContainerFactoryProvider" doc:"where action containers run"`
}

// instead maps OpenWhisk's other providers to advice on a replacement.
var instead = map[string]string{
	"LeanMessagingProvider":                          "for one process without Kafka use gpuwhisk standalone",
	"MongoDBArtifactStoreProvider":                   "MongoDB is not served; use CouchDB",
	"CosmosDBArtifactStoreProvider":                  "Cosmos DB is not served; use CouchDB",
	"MemoryArtifactStoreProvider":                    "for one process without a database use gpuwhisk standalone",
	"AzureBlobAttachmentStoreProvider":               "code in Azure cannot be read; keep attachments in CouchDB or S3",
	"MemoryAttachmentStoreProvider":                  "code in another process's memory cannot be read; keep attachments in CouchDB or S3",
	"ArtifactWithFileStorageActivationStoreProvider": "records are not written to files; they go to CouchDB",
	"SplunkLogStoreProvider":                         "Splunk is queried by the controller; give the invoker LogDriverLogStoreProvider and a log driver that feeds it",
	"ElasticSearchLogStoreProvider":                  "Elasticsearch is queried by the controller; give the invoker LogDriverLogStoreProvider and a log driver that feeds it",
	"KubernetesContainerFactoryProvider":             "this invoker makes no pods. It runs actions on the containerd or Docker of its own node: install its Helm chart (docs/kubernetes.md), or set CONFIG_whisk_spi_ContainerFactoryProvider=DockerContainerFactoryProvider, which overrides INVOKER_OPTS",
}

// class returns the value of a class name that must be one of served. Only the last part
// of the name counts, because packages moved between releases.
func class(at *string, served ...string) value {
	return withOwnDescription(field(at, "class name ending in "+strings.TrimPrefix(strings.Join(served, " | "), " | "), func(s string) (string, error) {
		s = strings.TrimSuffix(strings.TrimSpace(s), "$")
		simple := s[strings.LastIndexByte(s, '.')+1:]
		if why, ok := instead[simple]; ok {
			return "", fmt.Errorf("not served: %s", why)
		}
		if !slices.Contains(served, simple) {
			return "", errBad
		}
		return simple, nil
	}, unchanged))
}

// provide applies the settings that follow from the providers.
func (c *Config) provide() {
	p := c.Providers
	c.Scheduler.Enabled = p.Invoker == "FPCInvokerReactive" || p.Invoker == "" && len(c.Scheduler.Etcd.Hosts) > 0
	c.S3.Enabled = p.Attachments == "S3AttachmentStoreProvider"
	c.Logs.OutOfBand = p.Logs == "LogDriverLogStoreProvider"
	c.Logs.Files.Enabled = p.Logs == "DockerToActivationFileLogStoreProvider"
	c.Records.Discard = p.Activations == "NoopActivationStoreProvider"
	switch {
	case c.Records.Store != "":
	case p.Activations == "ElasticSearchActivationStoreProvider":
		c.Records.Store = StoreElasticsearch
	default:
		c.Records.Store = StoreCouchDB
	}
}
