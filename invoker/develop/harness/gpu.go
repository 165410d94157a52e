package harness

import (
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
)

// SimulatedGPU is the environment by which an invoker finds one device with so much
// memory, for processes under the shim and the fake driver. Without those the test
// is skipped.
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

// GPUFunction is the code of the example function, in Python, which keeps memory of
// its device and reports how it finds it.
func GPUFunction(t testing.TB) string {
	t.Helper()
	return string(Read(t, "../../../shim/examples/gpufunc.py"))
}
