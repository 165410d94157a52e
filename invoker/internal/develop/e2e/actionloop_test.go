package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestActionLoop runs GPU functions under a proxy that gives them an empty environment
// with only the env of /init added, as OpenWhisk's runtimes for Python, Go, PHP, Ruby and
// Rust do. The shim still reaches them: their memory is measured, moved and limited.
func TestActionLoop(t *testing.T) { withEachEngine(t, shimInActionLoop) }

func shimInActionLoop(t *testing.T, w parts) {
	exec, env := actionLoop(t, w)
	p := startGPUIn(t, w, 60, setup{env: env})
	names := []string{"alpha", "beta"}
	for _, name := range names {
		p.insertGPU(name, true, exec)
	}
	for round := range int64(2) {
		for _, name := range names {
			a, run := p.gpuRun(name, block)
			check.Equal(t, a.Runs, round+1, "%s: run of its container", name)
			check.Equal(t, run.Start, []string{"cold", "host-warm"}[round], "%s", name)
			check.That(t, run.MemoryMeasured, "%s: its memory is not measured: %+v", name, run)
			check.AtLeast(t, run.Memory, block, "%s", name)
		}
	}
	p.insertGPU("greedy", map[string]any{"limit": "20 MB"}, exec)
	p.call("greedy", map[string]any{"bytes": block}).want(t, activation.StatusApplicationError, "cuMemAlloc_v2: CUDA_ERROR")
	p.wantMetric("gpuwhisk_shim_unhooked_containers", 0)
	p.wantMetric("gpuwhisk_shim_processes", 3)
}

// actionLoop returns the example function for the proxy in testdata, and the invoker's
// settings that make it the proxy of processes. For Docker it makes an image.
func actionLoop(t *testing.T, w parts) (action *whisk.Exec, env map[string]string) {
	t.Helper()
	code := harness.GPUFunction(t)
	if !w.real() {
		dir := t.TempDir()
		check.NoError(t, runtimes.Write(dir))
		check.NoError(t, os.WriteFile(filepath.Join(dir, "python3", "proxy.py"), harness.Read(t, "testdata/actionloop.py"), 0o644))
		return python(code), map[string]string{"CONFIG_whisk_gpu_process_proxies": dir}
	}
	image := fmt.Sprintf("gpuwhisk-test.invalid/actionloop:%d", os.Getpid())
	docker := func(args ...string) string {
		cmd := exec.Command("docker", args...)
		cmd.Env = append(os.Environ(), "DOCKER_HOST="+w.docker)
		out, err := cmd.CombinedOutput()
		check.NoError(t, err, "docker %s: %s", args[0], out)
		return strings.TrimSpace(string(out))
	}
	id := docker("create", "gpuwhisk/action-python3:"+w.images)
	t.Cleanup(func() { docker("rm", id) })
	docker("cp", "testdata/actionloop.py", id+":/proxy/proxy.py")
	docker("commit", id, image)
	t.Cleanup(func() { docker("rmi", image) })
	w.offer(t, image)
	return &whisk.Exec{Kind: "blackbox", Image: image, Code: &code}, nil
}
