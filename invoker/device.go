package invoker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// deviceState is the additional state of a container owned by the GPU scheduler.
type deviceState struct {
	id         scheduler.Container
	device     gpu.Device
	wish       container.DeviceRequest
	action     string
	key        string // by which its function's activations share containers
	revision   string // of the function
	measured   bool   // the memory of its processes is measured
	fallback   string // the reason for counting its memory only, if the action did not ask for that
	specified  bool   // spec and wish are known
	flow       sched.FlowID
	reserved   int                // MiB of host memory
	spill      int                // part of reserved for swapped-out memory, as last allowed
	runs       []*run             // started there, and not left
	cancelMove context.CancelFunc // ends the mover's work on the newest order
	transfer   *transfer          // the newest prefetch
	usage      map[int]gpu.Usage  // of its processes
	memory     atomic.Pointer[container.DeviceMemory]
	assumed    int64 // resident bytes that are not measured
}

// specify fills in the spec of a container, once its action is known.
func (ctr *actionContainer) specify(s Settings, p *pending) {
	if ctr.gpu.specified {
		return
	}
	p.applyFallback(s.GPU) // it may have fallen back while the activation waited
	ctr.gpu.specified, ctr.gpu.action, ctr.gpu.fallback = true, p.action.FQN(), p.fallback
	ctr.gpu.key, ctr.gpu.revision = p.key, p.action.Rev
	ctr.spec = s.spec(p.action.Exec, p.action.Limits.MemoryMB)
	ctr.spec.Name = ctr.name
	ctr.gpu.wish = container.DeviceRequest{
		Shim: p.gpu.Shim, Limit: int64(p.gpu.Limit), Host: int64(ctr.spec.MemoryMB) << 20, Memory: int64(p.gpu.Memory),
		Namespace: ctr.gpu.flow.Namespace, NamespaceLimit: s.GPU.tenant(ctr.gpu.flow.Namespace),
	}
}

// holds returns the device memory of a container's processes, summed over their last reports.
func (s *deviceState) holds() container.DeviceMemory {
	if s == nil {
		return container.DeviceMemory{}
	}
	if h := s.memory.Load(); h != nil {
		return *h
	}
	return container.DeviceMemory{}
}

// reported stores a process' report.
func (s *deviceState) reported(h gpu.MemoryReport) {
	if s.usage == nil {
		s.usage = map[int]gpu.Usage{}
	}
	if s.usage[h.PID] = h.Usage; h.Exited {
		delete(s.usage, h.PID)
	}
	var sum container.DeviceMemory
	for _, u := range s.usage {
		sum.Allocated += u.Allocated
		sum.Resident += u.Resident
		sum.Context += u.Context
	}
	s.memory.Store(&sum)
}

// unseen returns the device memory of the container's processes if it is not measured, else 0.
func (s *deviceState) unseen() int64 {
	if s.measured {
		return 0
	}
	return s.memory.Load().Resident
}

// Swapped-out device memory is in host memory. So a GPU container is charged host memory for
// its action's memory and for its device memory: the device memory limit if there is one, else
// the known footprint.

// mebibytes is a size in MiB, rounded up.
func mebibytes(n int64) int { return int((n + 1<<20 - 1) >> 20) }

// hostMemory computes the host memory that GPU containers take.
type hostMemory struct {
	most   int   // MiB that there are at all
	device int64 // bytes of the largest device
	faults bool  // device memory is really swapped out to the host
}

// of returns the host memory, in MiB, that a new container takes. footprint returns the known
// device memory of its function.
func (h hostMemory) of(p *pending, footprint func() int64) int {
	var swapped int64
	switch {
	case !activation.ShimMoves(p.gpu.Shim):
	case p.gpu.Limit > 0:
		swapped = min(int64(p.gpu.Limit), h.device)
	case h.faults: // else nothing is really swapped
		swapped = footprint()
	}
	return h.charge(p.action.Limits.MemoryMB, swapped)
}

// charge returns the charge for an action's memory and its device memory. The charge is at
// most the total, so that a function larger than the host's share can run alone.
func (h hostMemory) charge(mb int, swapped int64) int {
	return max(mb, min(mb+mebibytes(swapped), h.most))
}

// more returns the additional charge for device memory that a container did not have at its
// creation. It is at most the free memory: other containers keep their memory, whatever a
// container reports.
func (h hostMemory) more(ctr *actionContainer, report gpu.MemoryReport, free int) int {
	g := ctr.gpu
	if report.Assumed || !activation.ShimMoves(g.wish.Shim) || g.wish.Limit > 0 || !h.faults {
		return 0
	}
	resident := min(g.holds().Allocated, g.device.MemoryBytes)
	return min(h.charge(ctr.spec.MemoryMB, resident)-g.reserved, free)
}

// outgrows returns how many bytes of host memory a container must be allowed before its device
// memory is swapped out. It returns 0 if the present limit is enough.
func (ctr *actionContainer) outgrows(o scheduler.Order) int64 {
	g := ctr.gpu
	if o.Move != gpu.Evict || ctr.spec.GPU == nil || !activation.ShimMoves(g.wish.Shim) {
		return 0
	}
	spill := mebibytes(min(o.Footprint, g.device.MemoryBytes))
	if spill <= max(ctr.spec.GPU.SpillMB, g.spill) {
		return 0
	}
	g.spill = spill
	return int64(ctr.spec.MemoryMB+spill) << 20
}

// CountOnlyActions remembers the actions whose libraries fail if device memory is moved. The
// memory of these actions is only counted. It is safe for concurrent use, and only Save waits
// for a disk.
type CountOnlyActions interface {
	// Reason returns why an action fell back, and false if it did not.
	Reason(action string) (why string, fell bool)
	// Add remembers an action, on probation if weak is set. It returns false if the action is
	// known already or failed on probation.
	Add(action, why string, weak bool) bool
	// Passed ends an action's probation. It returns false if the action is not on probation.
	Passed(action string) bool
	// Failed forgets an action that failed on probation. It returns false if the action is not
	// on probation.
	Failed(action string) bool
	// Save stores the additions for the next process.
	Save()
}

// mayFallBack reports whether the operator allows that the memory of actions is only counted.
func (g GPUSettings) mayFallBack() bool {
	return g.Fallbacks != nil && (len(g.Modes) == 0 || slices.Contains(g.Modes, activation.ShimCount))
}

// applyFallback makes the activation's memory only counted if the action's libraries fail when
// memory is moved.
func (p *pending) applyFallback(g GPUSettings) {
	if !activation.ShimMoves(p.gpu.Shim) || !g.mayFallBack() {
		return
	}
	if why, fell := g.Fallbacks.Reason(p.action.FQN()); fell {
		p.gpu.Shim, p.fallback = activation.ShimCount, why
	}
}

// fallBack remembers that a container's function fails if memory is moved. It returns true if
// the function's containers must take no more runs, because new containers only count memory.
func (d *dispatcher) fallBack(ctr *actionContainer, why string) bool {
	g, action := d.settings.GPU, ctr.gpu.action
	may := g.mayFallBack()
	if g.Fallbacks == nil || !g.Fallbacks.Add(action, why, false) {
		return may
	}
	d.saveFallbacks()
	if may {
		d.log.Warn("the libraries of an action do not work with managed GPU memory: it is only counted from now on",
			"action", action, keyContainer, ctr.name, "reason", why, "undo", "DELETE /fallbacks?action="+action)
	} else {
		d.log.Warn("the libraries of an action do not work with managed GPU memory, and whisk.gpu.shim.modes does not allow count",
			"action", action, keyContainer, ctr.name, "reason", why)
	}
	return may
}

// suspect reacts to the failure of a container before its memory was ever moved. The
// function's next container only counts memory. If a counting container fails, the next one
// moves memory again. It returns true if the container must take no more runs, because new
// containers differ.
func (d *dispatcher) suspect(ctr *actionContainer, why string) bool {
	g, action := d.settings.GPU, ctr.gpu.action
	switch {
	case !g.mayFallBack():
		return false
	case !activation.ShimMoves(ctr.gpu.wish.Shim):
		if ctr.gpu.fallback == "" || !g.Fallbacks.Failed(action) {
			return false
		}
		d.log.Info("an action failed the same way while its GPU memory was only counted: it is moved again",
			"action", action, keyContainer, ctr.name, "reason", why)
	case g.Fallbacks.Add(action, why, true):
		d.log.Warn("a kernel of an action failed, maybe because its GPU memory can be moved: its next container only counts it",
			"action", action, keyContainer, ctr.name, "reason", why, "undo", "DELETE /fallbacks?action="+action)
	default:
		_, fell := g.Fallbacks.Reason(action)
		return fell
	}
	d.saveFallbacks()
	return true
}

// passed ends the probation of a run's action. Its memory was only counted, and its container
// can be used again.
func (d *dispatcher) passed(r *run) {
	if r.ctr.gpu.fallback != "" && d.settings.GPU.mayFallBack() && d.settings.GPU.Fallbacks.Passed(r.ctr.gpu.action) {
		d.saveFallbacks()
	}
}

func (d *dispatcher) saveFallbacks() {
	d.goWork(func(context.Context) { d.settings.GPU.Fallbacks.Save() })
}

// unfit lists the containers of a function whose memory is moved, in the GPU
// scheduler's order.
func unfit(containers map[scheduler.Container]*actionContainer, action string) (ids []scheduler.Container) {
	for id, ctr := range containers {
		if ctr.gpu.action == action && activation.ShimMoves(ctr.gpu.wish.Shim) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// legible rounds a size down to whole megabytes, unless it is below one megabyte.
func legible(bytes int64) activation.Size {
	const megabyte = 1 << 20
	if bytes > megabyte {
		bytes -= bytes % megabyte
	}
	return activation.Size(bytes)
}

// refusal returns the text for the author of an action that will never run here.
func (g GPUSettings) refusal(o scheduler.Order, l *scheduler.Scheduler) string {
	switch o.Reason {
	case scheduler.TooBig:
		return fmt.Sprintf("The action asks for %s of GPU memory (annotation gpu, key memory); "+
			"the device has %s, of which the context of a container takes %s.",
			activation.Size(o.Memory), legible(o.LargestDevice), legible(g.Context))
	case scheduler.NoDevice:
		return fmt.Sprintf("The action waited %s for a GPU and there was none that could run it (%s); "+
			"it waits no longer than %s (whisk.gpu.device-timeout).",
			o.Waited.Round(time.Second), missing(l, len(g.Devices)), g.DeviceTimeout)
	case scheduler.Overdue:
		return fmt.Sprintf("The action waited %s for a GPU, longer than anybody waits for its answer (whisk.gpu.overdue).", o.Waited.Round(time.Second))
	}
	return proxy.TextAbnormal
}

// missing states which devices are away and why.
func missing(l *scheduler.Scheduler, devices int) string {
	var why []string
	for i := range devices {
		if d := l.Device(i); d.Lost != "" {
			why = append(why, fmt.Sprintf("device %s is lost: %s", d.Device, d.Lost))
		}
	}
	return strings.Join(why, "; ")
}
