package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestImageRunsEveryCommand: the entry point of the invoker's image runs gpuwhisk for every
// command that the help shows, and any other program as it is named.
func TestImageRunsEveryCommand(t *testing.T) {
	script, err := os.ReadFile("../../../docker/invoker/entrypoint.sh")
	check.NoError(t, err)
	file := filepath.Join(t.TempDir(), "entrypoint.sh")
	check.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(script), "/usr/bin/gpuwhisk", "echo gpuwhisk")), 0o600))
	run := func(args ...string) string {
		out, err := exec.Command("sh", append([]string{file}, args...)...).CombinedOutput()
		check.NoError(t, err, "%q: %s", args, out)
		return strings.TrimSpace(string(out))
	}
	for _, command := range model(t).Model.Children {
		if !command.Hidden {
			check.Equal(t, run(command.Name, "--json"), "gpuwhisk "+command.Name+" --json")
		}
	}
	check.Equal(t, run("--version"), "gpuwhisk --version")
	check.Equal(t, run("help", "sim"), "gpuwhisk help sim")
	check.Equal(t, run("/bin/sh", "-c", "echo as OpenWhisk starts it"), "as OpenWhisk starts it")
}
