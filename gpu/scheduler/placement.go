package scheduler

import (
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Placements is what a start of a flow's next invocation would be, by device. It
// changes nothing.
func (s *Scheduler) Placements(id sched.FlowID) func(device int) sched.Placement {
	f := s.flows[id]
	if f == nil {
		return func(int) sched.Placement { return sched.Placement{} }
	}
	rev := f.next()
	return func(index int) sched.Placement {
		dev := s.devices[index]
		own, kind, _ := s.serving(dev, rev)
		need := s.need(dev, rev, own)
		// The memory of idle containers can be freed.
		memory, slot := s.hasMemory(dev, rev, own, need), own != nil || s.hasSlot(dev)
		p := sched.Placement{
			Start: kind, Setup: rev.setup(dev, own, kind), Fits: memory && slot && (own != nil || s.affords(rev)),
		}
		if !p.Fits {
			p.Unfit = s.unfit(dev, need)
			p.Elsewhere = memory && slot || !s.permits(dev, rev, own, need) // by host memory, or its namespace's limit
		}
		return p
	}
}

// setup is how long a start takes until the run proper begins.
func (rev *revision) setup(dev *device, own *container, kind sched.StartKind) time.Duration {
	switch kind {
	case sched.Cold, sched.BusyCold:
		return seconds(rev.cold.Expected())
	case sched.HostWarm:
		resident, footprint := dev.ledger.Residency(own.id)
		return dev.speed.time(footprint - resident)
	}
	return 0
}

// startKind is gpu-warm where all memory of a live container is on the device and
// stays there, else host-warm. What its processes allocated and never used, as of an
// arena, is nowhere, and nothing of it is missing.
func startKind(c *container) sched.StartKind {
	resident, footprint := c.dev.ledger.Residency(c.id)
	if c.whole > 0 {
		footprint = min(footprint, c.whole)
	}
	if c.move.leaves() || resident < footprint {
		return sched.HostWarm
	}
	return sched.GPUWarm
}

// actualStart is the kind of a warm start as it turned out, where its memory was moved in
// between grant and start: what was to be moved may have been there.
func (r *run) actualStart() sched.StartKind {
	e := &r.container.move
	switch {
	case !r.kind.Warm() || !e.arrived || e.serves != e.epoch || r.before == e.epoch:
		return r.kind
	case e.moved > 0:
		return sched.HostWarm
	}
	return sched.GPUWarm
}

// hasMemory reports whether the device has the memory that a run needs in the container
// own, or when that is nil in a new one.
func (s *Scheduler) hasMemory(dev *device, rev *revision, own *container, need gpu.Need) bool {
	if all := need.Bytes + need.Context; all > dev.MemoryBytes {
		// What fits no device at all is let through, to be refused with a
		// reason.
		return all > s.largest
	}
	if !s.permits(dev, rev, own, need) {
		return false
	}
	if own == nil {
		return need.Bytes+need.Context <= dev.ledger.Available()
	}
	return dev.ledger.Possible(own.id, need)
}

// unfit reports whether a run would not fit if nothing else ran on the device: the
// device is too small, or others than containers have its memory. What fits no device
// at all is let through, as by hasMemory.
func (s *Scheduler) unfit(dev *device, need gpu.Need) bool {
	all := need.Bytes + need.Context
	return all <= s.largest && all > dev.ledger.Usable()
}

// resized follows a change of what a device has for containers.
func (s *Scheduler) resized(dev *device) {
	if n := dev.ledger.Usable(); n != dev.usable {
		dev.usable = n
		s.policy.Resized(s.now)
	}
}

// hasSlot reports whether the device has a slot for a new container, or an idle one to
// remove for it.
func (s *Scheduler) hasSlot(dev *device) bool {
	return s.cfg.Pool.Size == 0 || dev.kept < s.cfg.Pool.Size || slices.ContainsFunc(dev.containers, (*container).isIdle)
}

// affords reports whether there is host memory for a new container of a revision, beside
// what is kept for another flow.
func (s *Scheduler) affords(rev *revision) bool {
	free := s.host.Free
	if rev.flow != s.claim {
		free -= s.kept
	}
	return !s.limited || rev.hostMB <= free
}

// need is what a run asks of a device, in the container own or, when that is nil, in a
// new one. The hint counts until a run was measured. Memory without a shim stays as
// long as its container lives, and cannot be moved: just like a context.
func (s *Scheduler) need(dev *device, rev *revision, own *container) gpu.Need {
	size, measured := rev.measured.Bytes()
	if !measured {
		size = rev.hint
	}
	n := gpu.Need{Bytes: size, Context: s.cfg.Context}
	if rev.noShim {
		n = gpu.Need{Context: size + s.cfg.Context}
	}
	if own != nil {
		_, footprint := dev.ledger.Residency(own.id)
		measured = measured || footprint > n.Bytes
		n.Bytes, n.Context = max(n.Bytes, footprint), max(n.Context, dev.ledger.Overhead(own.id))
	}
	if most := s.namespaceLimit(rev.flow.id.Namespace); most > 0 { // more it is not given
		n.Bytes = min(n.Bytes, most)
		if rev.noShim {
			n.Context = min(n.Context, most+s.cfg.Context)
		}
	}
	if measured {
		// What needs more than any device is served with all of the largest.
		n.Context = min(n.Context, s.largest)
		n.Bytes = min(n.Bytes, s.largest-n.Context)
	}
	return n
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
