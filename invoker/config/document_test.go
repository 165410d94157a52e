package config

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

func TestDocument(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "configuration.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(page, []byte(Document()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Document() {
		t.Error("docs/configuration.md is not generated from these keys; run go test ./invoker/config -run TestDocument -update")
	}
}

func TestKeysAreDescribedAndDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, k := range Keys() {
		if k.Doc == "" || k.Allowed() == "" || k.section == "" {
			t.Errorf("%s lacks a description", k.Name)
		}
		for _, name := range append(k.names(), k.Variable()) {
			if by, twice := seen[name]; twice {
				t.Errorf("%s is a name of %s and of %s", name, by, k.Name)
			}
			seen[name] = k.Name
		}
		if k.required && k.Default != "" {
			t.Errorf("%s is required and has a default", k.Name)
		}
		// Where credentials come from is none, though its name has the word.
		named := secretName(k.Name) && !strings.HasSuffix(k.Name, "credentials.provider")
		if k.Secret != (named || strings.Contains(k.Name, "aes")) {
			t.Errorf("%s: is it a secret?", k.Name)
		}
	}
}

// A variable must lead back to its key, or setting it has no effect.
func TestVariablesLeadToTheirKeys(t *testing.T) {
	for _, k := range Keys() {
		if k.Env != "" || k.open() {
			continue
		}
		if back := property(k.Variable()); !slices.Contains(k.names(), back) {
			t.Errorf("%s is set by %s, which means %s", k.Name, k.Variable(), back)
		}
	}
}
