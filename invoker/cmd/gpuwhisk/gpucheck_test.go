package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
)

// asProgram makes the test binary the program itself: a check starts a
// standalone of its own from it.
const asProgram = "GPUWHISK_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// gpuCheck runs the command and returns its exit status, what it output, and
// what it wrote, by the files' names.
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
	if err != nil {
		t.Fatal(err)
	}
	written = map[string]string{}
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(out, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		written[f.Name()] = string(content)
	}
	return cmd.ProcessState.ExitCode(), string(text), written
}

func fakeDriver(t *testing.T) string { return filepath.Join(shimtest.Build(t), "fake12") }

// Functions with kernels of their own go through a standalone, and their
// memory is swapped: the whole way, without a GPU.
func TestGPUCheckEndToEnd(t *testing.T) {
	status, output, written := gpuCheck(t, nil, "--fake-driver", fakeDriver(t), "--step", "end-to-end", "--step", "pointers")
	if status != 0 || len(written) != 2 {
		t.Fatalf("exit status %d:\n%s\n%v", status, output, written)
	}
	for name, text := range written {
		if !strings.Contains(name, "fake") || !strings.Contains(text, "host-warm") {
			t.Errorf("%s does not name the fake driver, or has no swap:\n%s", name, text)
		}
	}
}

func TestGPUCheckExitStatus(t *testing.T) {
	broken := []string{"FAKE_CUDA_FAIL=cuMemAllocManaged:0:2"}
	status, output, written := gpuCheck(t, broken, "--fake-driver", fakeDriver(t), "--step", "pair")
	if status != 1 || len(written) != 2 {
		t.Errorf("broken driver: exit status %d:\n%s\n%v", status, output, written)
	}
	status, output, written = gpuCheck(t, nil, "--fake-driver", t.TempDir(), "--step", "pair")
	if status != 2 || len(written) != 0 || !strings.Contains(output, "cannot run") {
		t.Errorf("no driver: exit status %d:\n%s\n%v", status, output, written)
	}
	status, output, written = gpuCheck(t, nil, "--fake-driver", fakeDriver(t), "--size", "much")
	if status != 2 || len(written) != 0 {
		t.Errorf("a size that is none: exit status %d:\n%s", status, output)
	}
}
