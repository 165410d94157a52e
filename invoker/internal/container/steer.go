package container

import (
	"iter"
	"slices"
	"strings"
)

// Variables yields the name and the value of each variable in Env. A nil GPU has none.
func (g *GPU) Variables() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if g == nil {
			return
		}
		for _, entry := range g.Env {
			if name, value, _ := strings.Cut(entry, "="); !yield(name, value) {
				return
			}
		}
	}
}

// Owns reports whether only the invoker may set the variable in a container with this GPU: it
// is in Env, or IsReservedEnv names it. A nil GPU owns no variable.
func (g *GPU) Owns(name string) bool {
	if g == nil {
		return false
	}
	return IsReservedEnv(name) || slices.ContainsFunc(g.Env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
}

// IsReservedEnv reports whether a variable controls the loader, the CUDA driver, NVIDIA's
// container runtime or the shim. A GPU container gets such variables from the invoker
// only: neither an action's parameters nor a setting for all containers may take the
// shim off, load something before it, or choose another device, driver or MPS daemon.
func IsReservedEnv(name string) bool {
	return begins(name, "NVIDIA_", "LD_", "CUDA_", "GPUWHISK_")
}

// IsReservedImageEnv is like IsReservedEnv, for variables set by an image. Fewer of these are harmful,
// and some are needed: CUDA images find their libraries by LD_LIBRARY_PATH, name their CUDA
// (CUDA_HOME, CUDA_VERSION), and state requirements (NVIDIA_REQUIRE_*), which can only prevent
// a start.
func IsReservedImageEnv(name string) bool {
	switch {
	case !IsReservedEnv(name) || name == "LD_LIBRARY_PATH" || begins(name, "NVIDIA_REQUIRE_"):
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
