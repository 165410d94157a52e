package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

func TestDocument(t *testing.T) {
	page := filepath.Join("..", "..", "..", "docs", "configuration.md")
	if *update {
		check.NoError(t, os.MkdirAll(filepath.Dir(page), 0o755))
		check.NoError(t, os.WriteFile(page, []byte(document()), 0o644))
	}
	got, err := os.ReadFile(page)
	check.NoError(t, err)
	if string(got) != document() {
		t.Error("docs/configuration.md is not generated from these keys; run go test ./invoker/internal/config -run TestDocument -update")
	}
}

func TestKeysAreDescribedAndDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, k := range keys(new(Config)) {
		check.That(t, k.doc != "", "%s", k.name)
		check.That(t, k.value.allowed != "", "%s", k.name)
		check.That(t, k.section != "", "%s", k.name)
		for _, name := range append(k.names(), k.variable()) {
			if by, twice := seen[name]; twice {
				t.Errorf("%s is a name of %s and of %s", name, by, k.name)
			}
			seen[name] = k.name
		}
		if k.required && k.standard != "" {
			t.Errorf("%s is required and has a default", k.name)
		}
		// The name of a credentials provider is not a secret, although the key's name
		// contains "credentials".
		named := secretName(k.name) && !strings.HasSuffix(k.name, "credentials.provider")
		check.Equal(t, k.secret, named || strings.Contains(k.name, "aes"), "%s", k.name)
	}
}

// TestVariablesLeadToTheirKeys: each variable maps back to its key. Otherwise setting
// the variable would have no effect.
func TestVariablesLeadToTheirKeys(t *testing.T) {
	for _, k := range keys(new(Config)) {
		if k.env != "" || k.open() {
			continue
		}
		check.Includes(t, k.names(), property(k.variable()), "%s", k.name)
	}
}
