package devices

import (
	"fmt"
	"path/filepath"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// Where library and socket directory appear in containers with a file system
// of their own.
const (
	libraryTarget = "/opt/gpuwhisk/" + LibraryName
	socketTarget  = "/run/gpuwhisk"
)

// deviceEnv leads a process to its real device. Containers with a file system
// of their own see no other device.
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
// that wants no shim has the socket's directory all the same: it tells whose
// its processes are.
func (m *Mover) equip(g *container.GPU, b *box, word string) {
	library, socket := m.options.Library, b.shim.Socket()
	if m.options.Mounted {
		g.Mounts = append(g.Mounts, container.Mount{Source: b.shim.Dir(), Target: socketTarget})
		if !b.off {
			g.Mounts = append(g.Mounts, container.Mount{Source: library, Target: libraryTarget})
			g.Build = m.build
		}
		library, socket = libraryTarget, filepath.Join(socketTarget, shimctl.SocketName)
	}
	g.Env = append(g.Env, "GPUWHISK_SHIM="+backend(word), "GPUWHISK_SHIM_SOCKET="+socket)
	if b.off {
		return
	}
	most := b.device.MemoryBytes - m.options.Context // more could never lie there at once
	if b.limit > 0 {
		most = min(most, b.limit)
	}
	g.SpillMB = int(b.device.MemoryBytes >> 20)
	if b.limit > 0 {
		g.SpillMB = min(g.SpillMB, int((b.limit+1<<20-1)>>20))
	}
	g.Env = append(g.Env, "LD_PRELOAD="+library)
	if m.options.Outspoken {
		g.Env = append(g.Env, "GPUWHISK_SHIM_LOG=2")
	}
	if most > 0 {
		b.shim.Limit(most)
		g.Env = append(g.Env, fmt.Sprintf("GPUWHISK_SHIM_LIMIT=%d", most))
	}
}

// backend is the shim's word for the annotation's.
func backend(word string) string {
	switch word {
	case activation.ShimOff, activation.ShimCount:
		return word
	}
	return activation.ShimManaged
}
