package harness

import (
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
)

// SimulatedGPU returns the environment in which an invoker finds one device with the
// given memory. Processes run under the shim and the fake driver; the test is skipped
// if these are not built.
func SimulatedGPU(t testing.TB, memory string) []string {
	t.Helper()
	dir := shimtest.Dir(t)
	return []string{
		"CONFIG_whisk_gpu_simulated_devices=1", "CONFIG_whisk_gpu_simulated_memory=" + memory,
		"CONFIG_whisk_gpu_contextMemory=1 MiB", "CONFIG_whisk_gpu_defaultMemory=16 MiB",
		"CONFIG_whisk_gpu_shim_library=" + filepath.Join(dir, "libgpuwhisk.so"),
		"CONFIG_whisk_gpu_fakeDriver=" + filepath.Join(dir, "fake12"),
	}
}

// GPUFunction returns the Python code of the example function. The function keeps
// device memory between its calls and reports whether the content is intact.
func GPUFunction(t testing.TB) string {
	t.Helper()
	return string(Read(t, "../../../../shim/examples/gpufunc.py"))
}
