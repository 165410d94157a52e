package invoker

import (
	"context"
	"sync/atomic"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// gpuBox is what a box of the lane has beside its container.
type gpuBox struct {
	id        lane.Box
	device    gpu.Device
	wish      container.GPUWish
	action    string
	measured  bool   // somebody sees what its processes hold
	fallback  string // why its memory is only counted, where the action did not ask for that
	furnished bool   // spec and wish are known
	flow      sched.FlowID
	claimed   int                // MiB of host memory
	spill     int                // of it, for what is swapped out, as it was last allowed
	runs      []*run             // started there, and not left
	cease     context.CancelFunc // ends the mover's work on the newest order
	transfer  *transfer          // the newest prefetch
	usage     map[int]gpu.Usage  // of its processes
	held      atomic.Pointer[container.Holds]
	assumed   int64     // resident bytes that nobody saw
	names     [2]string // of its device and its flow, as shown
}

// furnish says what container a box is, once it is known.
func (b *box) furnish(s Settings, j *job) {
	if b.gpu.furnished {
		return
	}
	e := j.action.Exec
	j.settleMode(s.GPU) // it may have fallen back while the job waited
	b.gpu.furnished, b.gpu.action, b.gpu.fallback = true, j.action.FQN(), j.fallback
	b.spec = s.spec(b.name, e.Kind, e.Image, e.Pull, j.action.Limits.MemoryMB)
	b.gpu.wish = container.GPUWish{
		Shim: j.gpu.Shim, Limit: int64(j.gpu.Limit), Host: int64(b.spec.MemoryMB) << 20, Memory: int64(j.gpu.Memory),
		Namespace: b.gpu.flow.Namespace, NamespaceLimit: s.GPU.tenant(b.gpu.flow.Namespace),
	}
}

// holds is what a container's processes have said last, all together.
func (b *gpuBox) holds() container.Holds {
	if b == nil {
		return container.Holds{}
	}
	if h := b.held.Load(); h != nil {
		return *h
	}
	return container.Holds{}
}

// learn keeps what a process says.
func (b *gpuBox) learn(h gpu.Held) {
	if b.usage == nil {
		b.usage = map[int]gpu.Usage{}
	}
	if b.usage[h.PID] = h.Usage; h.Exited {
		delete(b.usage, h.PID)
	}
	var sum container.Holds
	for _, u := range b.usage {
		sum.Allocated += u.Allocated
		sum.Resident += u.Resident
		sum.Context += u.Context
	}
	b.held.Store(&sum)
}

// unseen is what its processes hold on the device where nobody saw it.
func (b *gpuBox) unseen() int64 {
	if b.measured {
		return 0
	}
	return b.held.Load().Resident
}
