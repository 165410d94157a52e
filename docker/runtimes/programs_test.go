package runtimes_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestFindProgramsAsksLaunchers: a launcher is replaced by the interpreter that it
// prints.
func TestFindProgramsAsksLaunchers(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	python := filepath.Join(dir, "python3")
	found := runtimes.FindPrograms(t.Context())
	check.That(t, found.Python == nil, "found where there is none: %q", found.Python)
	for _, c := range []struct{ name, script, want string }{
		{"launcher", "#!/bin/sh\necho /opt/python/bin/python3\n", "/opt/python/bin/python3"},
		{"launcher that fails", "#!/bin/sh\nexit 1\n", python},
		{"launcher that prints nonsense", "#!/bin/sh\necho nonsense\n", python},
	} {
		check.NoError(t, os.WriteFile(python, []byte(c.script), 0o755))
		found := runtimes.FindPrograms(t.Context())
		check.EqualSlices(t, found.Python, []string{c.want}, "%s: %q, want %q", c.name, found.Python, c.want)
	}
}

// TestFindProgramsPastALauncherThatHangs: FindPrograms does not wait for a launcher that
// hangs with a child.
func TestFindProgramsPastALauncherThatHangs(t *testing.T) {
	dir := t.TempDir()
	python, child := filepath.Join(dir, "python3"), filepath.Join(dir, "child")
	script := "#!/bin/sh\nsleep 600 &\necho $! > " + child + ".new\nmv " + child + ".new " + child + "\nwait\n"
	check.NoError(t, os.WriteFile(python, []byte(script), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Cleanup(func() {
		text, _ := os.ReadFile(child)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	check.EqualSlices(t, runtimes.FindPrograms(ctx).Python, []string{python})
}
