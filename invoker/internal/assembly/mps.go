package assembly

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/mps"
)

// Where a container that joins an MPS daemon finds it.
const (
	mpsPipe = "/run/gpuwhisk-mps"
	mpsShm  = "/dev/shm"
)

// mpsMover makes every GPU container join the MPS daemon of its device.
type mpsMover struct {
	invoker.MemoryMover
	daemons *mps.Daemons
	mounted bool // containers have a file system of their own
	indexes map[string]int
	invoker atomic.Pointer[invoker.Invoker] // nil until it works
}

// startMPS starts a daemon for each whole GPU if whisk.gpu.mps is on. A slice of a divided GPU
// takes one run at a time, so there is nothing to share.
func (g *gpus) startMPS(ctx context.Context) error {
	c, log := g.c, g.Log
	if c.GPU.MPS == "off" {
		return nil
	}
	s := &mpsMover{MemoryMover: g.mover, mounted: !c.Runtimes.Processes(), indexes: map[string]int{}}
	dir := filepath.Join(cmp.Or(c.GPU.Shim.Dir, "/var/run/gpuwhisk"), g.instance.ContainerPrefix()+"mps") // beside the shims' sockets
	o := mps.Options{Dir: dir, Apart: s.mounted, Lost: s.lost, Back: s.back, Log: log}
	g.devices = slices.Clone(g.devices)
	for i, d := range g.devices {
		if d.Sharing == gpu.Whole && !d.Simulated {
			g.devices[i].Sharing = gpu.MPSShared
			s.indexes[d.UUID] = d.Index
			o.Devices = append(o.Devices, d.UUID)
		}
	}
	if len(o.Devices) == 0 {
		return nil
	}
	log.Warn("functions of all namespaces on a GPU share one MPS daemon: a fault of one ends the work of all (whisk.gpu.mps)")
	var err error
	if s.daemons, err = mps.Start(ctx, o); err != nil {
		return fmt.Errorf("whisk.gpu.mps: %w", err)
	}
	g.mover, g.mps = s, s
	return nil
}

// Prepare adds the mounts and the variable by which a container joins.
func (s *mpsMover) Prepare(name string, device gpu.Device, change container.DeviceRequest) (container.GPU, error) {
	g, err := s.MemoryMover.Prepare(name, device, change)
	joint, ok := s.daemons.Join(device.UUID)
	if err != nil || !ok {
		return g, err
	}
	pipe := joint.Pipe
	if s.mounted {
		pipe = mpsPipe
		g.Shared = append(g.Shared, container.Mount{Source: joint.Pipe, Target: mpsPipe}, container.Mount{Source: joint.Shm, Target: mpsShm})
	}
	g.Env = append(g.Env, "CUDA_MPS_PIPE_DIRECTORY="+pipe)
	return g, nil
}

// lost takes a device out of use while its daemon is away. Its containers have lost their
// contexts, and new containers would get none.
func (s *mpsMover) lost(device, why string) {
	if iv := s.invoker.Load(); iv != nil {
		iv.DaemonLost(s.indexes[device], why)
	}
}

func (s *mpsMover) back(device string) {
	if iv := s.invoker.Load(); iv != nil {
		iv.DaemonBack(s.indexes[device])
	}
}
