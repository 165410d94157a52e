package invoker

import (
	"context"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// Device memory that is swapped out lies in the host's. So a GPU container takes
// of the host what its action may have, and its own device memory: the limit of
// it where one is said, else what is known of it.

// Resizer is an Engine that can give a container more memory.
type Resizer interface {
	// Resize lets a container use so many bytes of host memory.
	Resize(ctx context.Context, id container.ID, bytes int64) error
}

// mebibytes is a size in MiB, rounded up.
func mebibytes(n int64) int { return int((n + 1<<20 - 1) >> 20) }

// hostShares says what GPU containers take of the host's memory.
type hostShares struct {
	most   int  // MiB that there are at all
	faults bool // device memory is really swapped out to the host
}

// of is what a new container of a job takes, in MiB. footprint is what is known
// of its device memory.
func (h hostShares) of(j *job, footprint func() int64) int {
	var swapped int64
	switch {
	case j.gpu.Shim != activation.ShimManaged:
	case j.gpu.Limit > 0:
		swapped = int64(j.gpu.Limit)
	case h.faults: // else nothing is really swapped
		swapped = footprint()
	}
	return h.charge(j.action.Limits.MemoryMB, swapped)
}

// charge is what is charged for an action's memory and its device memory: not
// more than there is, so that a function larger than the host's share can run
// alone.
func (h hostShares) charge(mb int, swapped int64) int {
	return max(mb, min(mb+mebibytes(swapped), h.most))
}

// more is what a container is charged in addition for device memory that it did
// not have when it was made. It takes what is free and no more: what others have
// been given stands, whatever a container says of itself.
func (h hostShares) more(b *box, news gpu.Held, free int) int {
	g := b.gpu
	if news.Assumed || g.wish.Shim != activation.ShimManaged || g.wish.Limit > 0 || !h.faults {
		return 0
	}
	held := min(g.holds().Allocated, g.device.MemoryBytes)
	return min(h.charge(b.spec.MemoryMB, held)-g.claimed, free)
}

// outgrows tells how many bytes of host memory a container must be allowed before
// its device memory is swapped out, 0 where it may use as much.
func (b *box) outgrows(o lane.Order) int64 {
	g := b.gpu
	if o.Move != gpu.Evict || b.spec.GPU == nil || g.wish.Shim != activation.ShimManaged {
		return 0
	}
	spill := mebibytes(min(o.Footprint, g.device.MemoryBytes))
	if spill <= max(b.spec.GPU.SpillMB, g.spill) {
		return 0
	}
	g.spill = spill
	return int64(b.spec.MemoryMB+spill) << 20
}

// resize lets a container use so much host memory. Without it the kernel would
// end it for having been swapped out.
func (d *dispatcher) resize(ctx context.Context, b *box, bytes int64) error {
	r, ok := d.engine.(Resizer)
	if bytes == 0 || !ok {
		return nil
	}
	if err := r.Resize(ctx, b.handle.ID, bytes); err != nil {
		return fmt.Errorf("give %s memory for what is swapped out: %w", b.name, err)
	}
	return nil
}
