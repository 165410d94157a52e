package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// asProgram makes the test binary the program itself: a check starts a
// standalone of its own from it.
const asProgram = "GPUWHISK_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	code := m.Run()
	if shimAt != "" {
		_ = os.RemoveAll(shimAt)
	}
	os.Exit(code)
}

// shimAt is where the shim was built, empty while no test has needed it.
var shimAt string

// shimBuilt makes the shim, its fake driver and the check's programs, once.
var shimBuilt = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gpuwhisk-test-")
	if err != nil {
		return "", err
	}
	shimAt = dir
	for _, args := range [][]string{
		{"-s", "-C", "../../../shim", "OUT=" + dir, filepath.Join(dir, "libgpuwhisk.so"), filepath.Join(dir, "fake12/libcuda.so.1")},
		{"-s", "-C", "../../../shim/check", "OUT=" + dir},
	} {
		if out, err := exec.Command("make", args...).CombinedOutput(); err != nil {
			return dir, errors.New(string(out))
		}
	}
	return dir, nil
})

// shimDir is where they lie. The test is skipped where they cannot be made,
// unless they must be.
func shimDir(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"make", "cc", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("GPUWHISK_REQUIRE_PEERS") == "1" {
				t.Fatalf("%s is needed to run the check on the fake driver", tool)
			}
			t.Skipf("no %s on this machine: the check cannot run on the fake driver", tool)
		}
	}
	dir, err := shimBuilt()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// gpuCheck runs the command and returns its exit status, what it output, and
// what it wrote, by the files' names.
func gpuCheck(t *testing.T, env []string, args ...string) (status int, output string, written map[string]string) {
	t.Helper()
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"gpu-check", "--shim", shimDir(t), "--out", out}, args...)...)
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

func fakeDriver(t *testing.T) string { return filepath.Join(shimDir(t), "fake12") }

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
