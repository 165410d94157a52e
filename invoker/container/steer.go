package container

import (
	"slices"
	"strings"
)

// Steers reports whether a variable is one of those by which the loader, the CUDA driver, NVIDIA's
// container runtime and the shim are controlled. A container on a device
// gets them from the invoker only: neither an action's parameters nor a
// setting for all containers may take the shim off, put something before it,
// or choose another device, driver or MPS daemon.
func Steers(name string) bool {
	return begins(name, "NVIDIA_", "LD_", "CUDA_", "GPUWHISK_")
}

// SteersFromImage is the same for the environment of an image, where fewer of
// them do harm and some are needed: CUDA images find their libraries by
// LD_LIBRARY_PATH, name the CUDA that they bring (CUDA_HOME, CUDA_VERSION),
// and what they require (NVIDIA_REQUIRE_*), which can only refuse to start.
func SteersFromImage(name string) bool {
	switch {
	case !Steers(name) || name == "LD_LIBRARY_PATH" || begins(name, "NVIDIA_REQUIRE_"):
		return false
	case begins(name, "CUDA_"):
		return begins(name, "CUDA_MPS_", "CUDA_INJECTION", "CUDA_MANAGED_") ||
			slices.Contains([]string{"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_DISABLE_UNIFIED_MEMORY"}, name)
	}
	return true
}

func begins(name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
