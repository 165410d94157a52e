package devices

import (
	"fmt"
	"path/filepath"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// Where the library and the socket directory are in containers with a file system
// of their own.
const (
	libraryTarget = "/opt/gpuwhisk/" + LibraryName
	socketTarget  = "/run/gpuwhisk"
)

// deviceEnv is the environment that selects a process's real device. Containers with
// a file system of their own have no other device.
func (m *Mover) deviceEnv(device gpu.Device) []string {
	switch {
	case m.options.Mounted || device.Simulated:
		return nil
	case m.options.Driver != "":
		return []string{"CUDA_VISIBLE_DEVICES=" + device.UUID, "LD_LIBRARY_PATH=" + m.options.Driver}
	}
	return []string{"CUDA_VISIBLE_DEVICES=" + device.UUID}
}

// equip gives the container its socket and has its processes load the shim. One
// without the shim has the socket's directory all the same: its processes are
// identified by it.
func (m *Mover) equip(g *container.GPU, b *gpuContainer, mode string) {
	library, socket := m.options.Library, b.shim.Socket()
	if m.options.Mounted {
		g.Mounts = append(g.Mounts, container.Mount{Source: b.shim.Dir(), Target: socketTarget})
		if !b.off {
			g.Mounts = append(g.Mounts, container.Mount{Source: library, Target: libraryTarget})
			g.Build = m.build
		}
		library, socket = libraryTarget, filepath.Join(socketTarget, shimctl.SocketName)
	}
	g.Env = append(g.Env, "GPUWHISK_SHIM="+backend(mode), "GPUWHISK_SHIM_SOCKET="+socket)
	if b.off {
		return
	}
	most := b.device.MemoryBytes - m.options.Context // more could never lie there at once
	if b.limit > 0 {
		most = min(most, b.limit)
	}
	b.own = most
	if b.tenant != "" {
		most = min(most, b.most)
	}
	g.SpillMB = m.spill(b)
	g.Env = append(g.Env, "LD_PRELOAD="+library)
	if m.options.LogToStderr {
		g.Env = append(g.Env, "GPUWHISK_SHIM_LOG=2")
	}
	b.shim.Limit(max(most, 0), b.host)
	if most > 0 {
		g.Env = append(g.Env, fmt.Sprintf("GPUWHISK_SHIM_LIMIT=%d", most))
	}
	if mode == activation.ShimVMM {
		g.Env = append(g.Env, fmt.Sprintf("GPUWHISK_SHIM_ARENA=%d", int64(g.SpillMB)<<20))
	}
	if b.host > 0 {
		g.Env = append(g.Env, fmt.Sprintf("GPUWHISK_SHIM_HOST_LIMIT=%d", b.host))
	}
}

// spill is the host memory in MiB that a container may use for swapped device memory, from
// its creation on: its limit, or without a limit the memory that its action declares. More
// is allowed before more is swapped out. A simulated device lies in the process's own
// memory, so the whole device is allowed. The same holds if the engine has no cgroups to
// change.
func (m *Mover) spill(b *gpuContainer) int {
	most := b.device.MemoryBytes
	switch {
	case b.limit > 0:
		most = min(most, b.limit)
	case m.options.Mounted && !b.device.Simulated:
		most = min(most, b.memory)
	}
	return int((most + 1<<20 - 1) >> 20)
}

// backend is the shim's mode for the annotation's.
func backend(mode string) string {
	switch mode {
	case activation.ShimOff, activation.ShimCount, activation.ShimVMM:
		return mode
	}
	return activation.ShimManaged
}
