package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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

// withFunction is a directory of the shim with another function in the place of gpufunc.py.
func withFunction(t *testing.T, code string) string {
	t.Helper()
	dir, built := t.TempDir(), shimtest.Build(t)
	check.NoError(t, os.Mkdir(filepath.Join(dir, "check"), 0o755))
	for _, name := range []string{"libgpuwhisk.so", "nvml", "check/worker", "check/pointers", "check/functions.py", "check/lines.py"} {
		check.NoError(t, os.Symlink(filepath.Join(built, name), filepath.Join(dir, name)))
	}
	check.NoError(t, os.WriteFile(filepath.Join(dir, "check/gpufunc.py"), []byte(code), 0o600))
	return dir
}

func fakeDriver(t *testing.T) string { return filepath.Join(shimtest.Build(t), "fake12") }

// TestGPUCheckEndToEnd: without a GPU, functions with their own kernels run through a
// standalone, and their memory is swapped.
func TestGPUCheckEndToEnd(t *testing.T) {
	status, output, written := gpuCheck(t, nil, "--fake-driver", fakeDriver(t), "--only", "end-to-end", "--only", "pressure", "--only", "pointers")
	check.Equal(check.Must(t), status, 0, "%s", output)
	check.Equal(check.Must(t), len(written), 2, "%v", written)
	for name, text := range written {
		check.Contains(t, name, "fake")
		check.Contains(t, text, "host-warm", "%s", name)
	}
}

// TestGPUCheckInterrupted: a signal ends the check, and the results so far are written.
func TestGPUCheckInterrupted(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		out := t.TempDir()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "gpu-check", "--shim", shimtest.Build(t), "--out", out,
			"--fake-driver", fakeDriver(t), "--only", "pointers", "--only", "swap")
		cmd.Env = append(os.Environ(), asProgram+"=1", "FAKE_CUDA_BANDWIDTH=1000") // the swap would take hours
		progress, err := cmd.StderrPipe()
		check.NoError(t, err)
		check.NoError(t, cmd.Start())
		for lines := bufio.NewScanner(progress); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "swap") && strings.HasSuffix(lines.Text(), "...") {
				check.NoError(t, cmd.Process.Signal(signal))
			}
		}
		_ = cmd.Wait()
		check.Equal(t, cmd.ProcessState.ExitCode(), 1, "%v", signal)
		files, err := filepath.Glob(filepath.Join(out, "*.md"))
		check.NoError(t, err)
		check.Equal(check.Must(t), len(files), 1, "%v", signal)
		text, err := os.ReadFile(files[0])
		check.NoError(t, err)
		check.Contains(t, string(text), "(#both-ways-of-looking-a-function-up) | well |", "%v", signal)
		check.Contains(t, string(text), "(#a-block-swapped-out-and-in) | failed |", "%v", signal)
		check.Contains(t, string(text), "interrupted", "%v", signal)
	}
}

func TestGPUCheckExitStatus(t *testing.T) {
	broken := []string{"FAKE_CUDA_FAIL=cuMemAllocManaged:0:2"}
	status, output, written := gpuCheck(t, broken, "--fake-driver", fakeDriver(t), "--only", "pair")
	check.Equal(t, status, 1, "broken driver: %s", output)
	check.Equal(t, len(written), 2, "broken driver: %v", written)
	lying := withFunction(t, "def main(args):\n    return {'correct': True, 'intact': False}\n")
	for _, step := range []string{"end-to-end", "pressure"} {
		status, output, written = gpuCheck(t, nil, "--fake-driver", fakeDriver(t), "--shim", lying, "--only", step)
		check.Equal(t, status, 1, "lying function, %s: %s", step, output)
		check.Equal(t, len(written), 2, "lying function, %s: %v", step, written)
		check.Contains(t, output, "failed")
	}
	status, output, written = gpuCheck(t, nil, "--fake-driver", t.TempDir(), "--only", "pair")
	check.Equal(t, status, 2, "no driver: %s", output)
	check.Equal(t, len(written), 0, "no driver: %v", written)
	check.Contains(t, output, "cannot run")
	status, output, written = gpuCheck(t, nil, "--fake-driver", fakeDriver(t), "--size", "much")
	check.Equal(t, status, 2, "an invalid size: %s", output)
	check.Equal(t, len(written), 0, "an invalid size: %v", written)
}
