package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestKubernetesPage: the page's settings are a complete configuration, and its
// statements about the settings of pods are true.
func TestKubernetesPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/kubernetes.md")
	check.NoError(t, err)
	block := regexp.MustCompile("(?s)```\n(KAFKA_HOSTS=.*?)```").FindSubmatch(page)
	check.That(check.Must(t), block != nil, "the page has no settings")
	environ := strings.Split(strings.TrimSpace(string(block[1])), "\n")
	load := func(more ...string) (*Config, error) {
		return Load(Input{Environ: append(environ, more...), Args: []string{"--uniqueName", "gpu1"}})
	}
	c, err := load()
	check.NoError(t, err)
	check.Equal(t, c.Scheduler.Enabled, false, "scheduler mode")
	check.Equal(t, c.Admin.WellKnown(), false, "the login is well known")
	check.Equal(t, len(c.Ignored()), 0, "settings without effect")
	check.Equal(t, c.Runtimes.API.url(), "https://openwhisk.example.org")
	m, err := c.Runtimes.ParseManifest()
	check.NoError(t, err)
	_, ok := m.Runtime("nodejs:default")
	check.That(t, ok, "the manifest has no default for the controllers' test action")
	c, err = load("CONFIG_whisk_kubernetes_userPodNodeAffinity_enabled=true")
	check.NoError(t, err)
	check.Equal(t, len(c.Ignored()), 1, "settings of pods are ignored")
	_, err = load("CONFIG_whisk_spi_ContainerFactoryProvider=org.apache.openwhisk.core.containerpool.kubernetes.KubernetesContainerFactoryProvider")
	check.ErrorContains(t, err, "KubernetesContainerFactoryProvider")
}
