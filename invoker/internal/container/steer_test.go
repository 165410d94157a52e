package container

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Only the invoker sets variables that choose a device. An image keeps the variables that it
// needs to find its own libraries.
func TestSteers(t *testing.T) {
	for name, want := range map[string][2]bool{
		"LD_PRELOAD": {true, true}, "LD_AUDIT": {true, true}, "LD_BIND_NOW": {true, true},
		"LD_LIBRARY_PATH":      {true, false},
		"CUDA_VISIBLE_DEVICES": {true, true}, "CUDA_MPS_PIPE_DIRECTORY": {true, true},
		"CUDA_INJECTION64_PATH": {true, true}, "CUDA_MANAGED_FORCE_DEVICE_ALLOC": {true, true},
		"CUDA_DEVICE_ORDER": {true, true}, "CUDA_DISABLE_UNIFIED_MEMORY": {true, true},
		"CUDA_HOME": {true, false}, "CUDA_VERSION": {true, false}, "CUDA_CACHE_PATH": {true, false},
		"NVIDIA_VISIBLE_DEVICES": {true, true}, "NVIDIA_DISABLE_REQUIRE": {true, true},
		"NVIDIA_REQUIRE_CUDA": {true, false}, "NV_CUDA_LIB_VERSION": {false, false},
		"GPUWHISK_SHIM": {true, true}, "GPUWHISK_SHIM_SOCKET": {true, true},
		"PATH": {false, false}, "": {false, false}, "MY_LD_PRELOAD": {false, false},
		"cuda_visible_devices": {false, false}, "CUDAX": {false, false}, "NVIDIA": {false, false},
	} {
		check.Equal(t, [2]bool{IsReservedEnv(name), IsReservedImageEnv(name)}, want, "%q: steers, and in an image", name)
	}
}
