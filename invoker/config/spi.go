package config

import (
	"fmt"
	"slices"
	"strings"
)

// spi is one service provider setting of OpenWhisk: which implementations this
// invoker has, by simple class name.
type spi struct {
	name, doc string
	served    []string          // the first is the default
	refused   map[string]string // simple class name -> what to do instead
	choose    func(class string)
}

func spiKeys(c *Config) []*key {
	var all []*key
	for _, s := range spis(c) {
		all = append(all, &key{name: "whisk.spi." + s.name, standard: s.served[0], value: s.value(), doc: s.doc, section: "Service providers"})
	}
	return all
}

func spis(c *Config) []spi {
	ignore := func(string) {}
	return []spi{
		{name: "InvokerProvider", doc: "InvokerReactive: classic mode, FPCInvokerReactive: scheduler mode; empty: scheduler mode where whisk.etcd.hosts is set",
			served: []string{"", "InvokerReactive", "FPCInvokerReactive"},
			choose: func(class string) { c.Scheduler.Enabled = class == "FPCInvokerReactive" }},
		{name: "InvokerServerProvider", doc: "kind of HTTP endpoints: those of the mode, whatever is named", served: []string{"", "DefaultInvokerServer", "FPCInvokerServer"}, choose: ignore},
		{name: "MessagingProvider", doc: "message bus", served: []string{"KafkaMessagingProvider"},
			refused: map[string]string{"LeanMessagingProvider": "for one process without Kafka use gpuwhisk standalone"}, choose: ignore},
		{name: "ArtifactStoreProvider", doc: "store of actions and records", served: []string{"CouchDbStoreProvider"},
			refused: map[string]string{
				"MongoDBArtifactStoreProvider":  "MongoDB is not served; use CouchDB",
				"CosmosDBArtifactStoreProvider": "Cosmos DB is not served; use CouchDB",
				"MemoryArtifactStoreProvider":   "for one process without a database use gpuwhisk standalone"}, choose: ignore},
		{name: "AttachmentStoreProvider", doc: "where actions' code is: in the database where empty, or in whisk.s3",
			served: []string{"", "S3AttachmentStoreProvider"},
			refused: map[string]string{
				"AzureBlobAttachmentStoreProvider": "code in Azure cannot be read; keep attachments in CouchDB or S3",
				"MemoryAttachmentStoreProvider":    "code in another process's memory cannot be read; keep attachments in CouchDB or S3"},
			choose: func(class string) { c.S3.Enabled = class == "S3AttachmentStoreProvider" }},
		{name: "ActivationStoreProvider", doc: "store of activation records; the Noop one drops them",
			served: []string{"ArtifactActivationStoreProvider", "NoopActivationStoreProvider", "ElasticSearchActivationStoreProvider"},
			refused: map[string]string{
				"ArtifactWithFileStorageActivationStoreProvider": "records are not written to files; they go to CouchDB"},
			choose: func(class string) {
				c.Records.Discard = class == "NoopActivationStoreProvider"
				c.Records.provided = StoreCouchDB
				if class == "ElasticSearchActivationStoreProvider" {
					c.Records.provided = StoreElasticsearch
				}
			}},
		{name: "LogStoreProvider", doc: "where action logs go: into the record; also into files; or left to the engine",
			served: []string{"DockerToActivationLogStoreProvider", "DockerToActivationFileLogStoreProvider", "LogDriverLogStoreProvider"},
			refused: map[string]string{
				"SplunkLogStoreProvider":        "Splunk is queried by the controller; give the invoker LogDriverLogStoreProvider and a log driver that feeds it",
				"ElasticSearchLogStoreProvider": "Elasticsearch is queried by the controller; give the invoker LogDriverLogStoreProvider and a log driver that feeds it"},
			choose: func(class string) {
				c.Logs.OutOfBand = class == "LogDriverLogStoreProvider"
				c.Logs.Files.Enabled = class == "DockerToActivationFileLogStoreProvider"
			}},
		{name: "ContainerFactoryProvider", doc: "where action containers run", served: []string{"DockerContainerFactoryProvider"},
			refused: map[string]string{
				"KubernetesContainerFactoryProvider": "Kubernetes pods are not served; run the invoker on hosts with Docker"}, choose: ignore},
	}
}

// value compares simple class names: packages moved between releases.
func (p spi) value() value {
	class := ""
	v := field(&class, "class name ending in "+strings.TrimPrefix(strings.Join(p.served, " | "), " | "), func(s string) (string, error) {
		s = strings.TrimSuffix(strings.TrimSpace(s), "$")
		simple := s[strings.LastIndexByte(s, '.')+1:]
		if why, ok := p.refused[simple]; ok {
			return "", fmt.Errorf("not served: %s", why)
		}
		if !slices.Contains(p.served, simple) {
			return "", errBad
		}
		p.choose(simple)
		return simple, nil
	}, unchanged)
	return own(v)
}
