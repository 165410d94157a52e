package runtimes_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
)

// A Python that is a launcher is asked for the one behind it, and taken as it is
// where it does not say.
func TestFindProgramsAsksLaunchers(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	python := filepath.Join(dir, "python3")
	if found := runtimes.FindPrograms(t.Context()); found.Python != nil {
		t.Errorf("found where there is none: %q", found.Python)
	}
	for _, c := range []struct{ name, script, want string }{
		{"launcher", "#!/bin/sh\necho /opt/python/bin/python3\n", "/opt/python/bin/python3"},
		{"launcher that fails", "#!/bin/sh\nexit 1\n", python},
		{"launcher that says nonsense", "#!/bin/sh\necho nonsense\n", python},
	} {
		if err := os.WriteFile(python, []byte(c.script), 0o755); err != nil {
			t.Fatal(err)
		}
		if found := runtimes.FindPrograms(t.Context()); !slices.Equal(found.Python, []string{c.want}) {
			t.Errorf("%s: %q, want %q", c.name, found.Python, c.want)
		}
	}
}
