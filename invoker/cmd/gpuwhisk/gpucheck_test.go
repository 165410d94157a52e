package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// asProgram makes the test binary act as gpuwhisk: the check starts a standalone from
// it.
const asProgram = "GPUWHISK_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// gpuCheck runs the command. It returns the exit status, the output, and the written
// files by name.
func gpuCheck(t *testing.T, env []string, args ...string) (status int, output string, written map[string]string) {
	t.Helper()
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"gpu-check", "--shim", shimtest.Build(t), "--out", out}, args...)...)
	cmd.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	files, err := os.ReadDir(out)
	check.NoError(t, err)
	written = map[string]string{}
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(out, f.Name()))
		check.NoError(t, err)
		written[f.Name()] = string(content)
	}
	return cmd.ProcessState.ExitCode(), string(text), written
}

func fakeDriver(t *testing.T) string { return filepath.Join(shimtest.Build(t), "fake12") }

// TestGPUCheckEndToEnd: without a GPU, functions with their own kernels run through a
// standalone, and their memory is swapped.
func TestGPUCheckEndToEnd(t *testing.T) {
	status, output, written := gpuCheck(t, nil, "--fake-driver", fakeDriver(t), "--step", "end-to-end", "--step", "pressure", "--step", "pointers")
	check.Equal(check.Must(t), status, 0, "%s", output)
	check.Equal(check.Must(t), len(written), 2, "%v", written)
	for name, text := range written {
		check.Contains(t, name, "fake")
		check.Contains(t, text, "host-warm", "%s", name)
	}
}

func TestGPUCheckExitStatus(t *testing.T) {
	broken := []string{"FAKE_CUDA_FAIL=cuMemAllocManaged:0:2"}
	status, output, written := gpuCheck(t, broken, "--fake-driver", fakeDriver(t), "--step", "pair")
	check.Equal(t, status, 1, "broken driver: %s", output)
	check.Equal(t, len(written), 2, "broken driver: %v", written)
	status, output, written = gpuCheck(t, nil, "--fake-driver", t.TempDir(), "--step", "pair")
	check.Equal(t, status, 2, "no driver: %s", output)
	check.Equal(t, len(written), 0, "no driver: %v", written)
	check.Contains(t, output, "cannot run")
	status, output, written = gpuCheck(t, nil, "--fake-driver", fakeDriver(t), "--size", "much")
	check.Equal(t, status, 2, "an invalid size: %s", output)
	check.Equal(t, len(written), 0, "an invalid size: %v", written)
}
