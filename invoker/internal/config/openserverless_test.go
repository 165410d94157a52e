package config

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestOpenServerless: the variables of OpenServerless' own invoker start this one, except
// for the demand to run actions in pods. The refusal names the variable that helps.
//
// The file has the variables of the operator's template of July 2026 with its default
// values, a private registry, and a shortened manifest.
func TestOpenServerless(t *testing.T) {
	text, err := os.ReadFile("testdata/openserverless.env")
	check.NoError(t, err)
	environ := strings.Split(strings.TrimSpace(string(text)), "\n")
	check.Equal(t, len(environ), 83, "variables")
	// The kubelet adds the services of the pod's namespace.
	environ = append(environ, "KUBERNETES_SERVICE_HOST=10.43.0.1", "KUBERNETES_SERVICE_PORT=443",
		"KAFKA_SERVICE_HOST=10.43.0.7", "KAFKA_SERVICE_PORT=9092", "KAFKA_PORT=tcp://10.43.0.7:9092", "INVOKER_PORT=tcp://10.43.0.8:8080")
	load := func(more ...string) (*Config, error) {
		return Load(Input{Environ: append(environ, more...), Args: []string{"--uniqueName", "invoker-0"}})
	}
	_, err = load()
	const variable = "CONFIG_whisk_spi_ContainerFactoryProvider=DockerContainerFactoryProvider"
	for _, want := range []string{"KubernetesContainerFactoryProvider", "INVOKER_OPTS", "docs/kubernetes.md", variable} {
		check.ErrorContains(t, err, want)
	}
	c, err := load(variable)
	check.NoError(t, err)
	check.Equal(t, c.Scheduler.Enabled, false, "scheduler mode")
	check.Equal(t, c.Identity.ZooKeeperHosts, "zookeeper-0.zookeeper:2181")
	check.Equal(t, c.Runtimes.API.url(), "http://controller.nuvolaris.svc.cluster.local:3233")
	wantSettings(t, c, map[string]string{
		"whisk.kafka.topics.prefix":                      "",
		"whisk.couchdb.databases.WhiskEntity":            "nuvolaris_whisks",
		"whisk.memory.max":                               "512 MiB",
		"whisk.time-limit.max":                           "5 minutes",
		"whisk.container-pool.user-memory":               "2 GiB",
		"whisk.container-factory.container-args.network": "bridge",
	})
	m, err := c.Runtimes.ParseManifest()
	check.NoError(t, err)
	_, ok := m.Runtime("nodejs:default")
	check.That(t, ok, "the manifest has no default for the controllers' test action")
	for _, s := range c.Ignored() {
		check.That(t, !strings.HasPrefix(s.Name, "whisk.couchdb.databases") && !strings.HasPrefix(s.Name, "whisk.kafka"), "%s has no effect", s.Name)
	}
}
