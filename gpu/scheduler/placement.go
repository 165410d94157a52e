package scheduler

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Work returns a flow for the policy, which names only flows of queued invocations.
func (s *Scheduler) Work(id sched.FlowID) sched.Work { return s.flows[id] }

// Outlook describes the flow's next invocation for all devices together.
func (f *flow) Outlook() sched.Outlook {
	s, rev := f.space.s, f.next()
	need, hostless := s.need(nil, rev, nil), s.hostless(rev)
	o := sched.Outlook{Setup: seconds(rev.cold.Expected()), Need: need.Bytes + need.Context, Limited: f.space.limit > 0}
	if len(rev.containers) == 0 {
		tooBig := o.Need > s.largest
		o.Servable = !hostless && s.Usable() && (tooBig || o.Need <= s.roomiest)
		o.Plain, o.ShortOfHost = !tooBig && !o.Limited, !s.affords(rev)
		return o
	}
	for _, dev := range s.devices {
		if dev.lost != "" {
			continue
		}
		if own, kind, _ := s.serving(dev, rev); own != nil {
			o.Setup = min(o.Setup, rev.setup(dev, own, kind))
			o.Servable = o.Servable || !s.unfit(dev, s.need(dev, rev, own))
			continue
		}
		o.Servable = o.Servable || !hostless && !s.unfit(dev, need)
	}
	return o
}

// Placement describes a start of the flow's next invocation on a device.
func (f *flow) Placement(index int) sched.Placement {
	s, rev := f.space.s, f.next()
	dev := s.devices[index]
	own, kind := (*container)(nil), sched.Cold
	if len(rev.containers) > 0 {
		own, kind, _ = s.serving(dev, rev)
	}
	need := s.need(dev, rev, own)
	p := sched.Placement{
		Start: kind, Setup: rev.setup(dev, own, kind), Lacks: s.lacks(dev, rev, own, need),
		Shares: own != nil && len(own.runs) > 0, Need: need.Bytes + need.Context, Room: dev.usable,
	}
	p.Displaces = own == nil && (p.Need > dev.ledger.Free() || s.cfg.Pool.Size > 0 && dev.kept >= s.cfg.Pool.Size)
	if p.Fits = p.Lacks == 0; p.Shares {
		idle := rev.idleOn(dev)
		p.Anew = s.lacks(dev, rev, idle, s.need(dev, rev, idle))
	}
	return p
}

// idleOn returns an idle container of a revision on a device, nil if there is none.
func (rev *revision) idleOn(dev *device) *container {
	for _, c := range rev.containers {
		if c.dev == dev && c.isIdle() {
			return c
		}
	}
	return nil
}

// lacks returns the resources that a run lacks on a device, in the container own or, if own is
// nil, in a new one. Memory of idle containers is not lacking, because it can be freed.
func (s *Scheduler) lacks(dev *device, rev *revision, own *container, need gpu.MemoryRequest) (lacks sched.Lack) {
	if s.unfit(dev, need) || own == nil && s.hostless(rev) {
		return sched.LacksDevice
	}
	if need.Bytes+need.Context <= s.largest { // else it is let through, to be refused with a reason
		if !s.permits(dev, rev, own, need) {
			lacks |= sched.LacksLimit
		}
		if !s.hasMemory(dev, own, need) {
			lacks |= sched.LacksMemory
		}
	}
	if own == nil && !s.hasSlot(dev) {
		lacks |= sched.LacksContainer
	}
	if own == nil && !s.affords(rev) {
		lacks |= sched.LacksHost
	}
	return lacks
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

// startKind returns gpu-warm if all memory of a live container is on the device and stays
// there, else host-warm. Allocated memory that was never used, for example in an arena, has no
// pages and is not missing.
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

// actualStart returns the kind of a warm start as it turned out. If memory was moved between
// grant and start, that memory may have been on the device already.
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
func (s *Scheduler) hasMemory(dev *device, own *container, need gpu.MemoryRequest) bool {
	if own == nil {
		return need.Bytes+need.Context <= dev.ledger.Available()
	}
	return dev.ledger.Possible(own.id, need)
}

// unfit reports whether a run would not fit on the device even if nothing else ran there: the
// device is too small, or foreign memory takes too much. A run that fits no device at all is
// let through, to be refused with a reason.
func (s *Scheduler) unfit(dev *device, need gpu.MemoryRequest) bool {
	all := need.Bytes + need.Context
	return all <= s.largest && all > dev.usable
}

// hostless reports whether a new container of a revision would lack host memory even if all
// containers of devices were gone.
func (s *Scheduler) hostless(rev *revision) bool {
	return s.limited && rev.hostMB > s.host.Free+s.host.Reclaimable+s.hostMB
}

// resized handles a change of the memory that a device has for containers.
func (s *Scheduler) resized(dev *device) {
	dev.usable, s.roomiest = dev.ledger.Usable(), 0
	for _, d := range s.devices {
		if d.lost == "" {
			s.roomiest = max(s.roomiest, d.usable)
		}
	}
}

// hasSlot reports whether the device has a slot for a new container, or an idle container to
// remove for it.
func (s *Scheduler) hasSlot(dev *device) bool {
	return s.cfg.Pool.Size == 0 || dev.kept < s.cfg.Pool.Size || dev.idle > 0
}

// affords reports whether there is host memory for a new container of a revision, besides the
// memory kept for another flow.
func (s *Scheduler) affords(rev *revision) bool {
	free := s.host.Free
	if s.kept > 0 && rev.flow != s.claim && (!s.claimBeyond || s.leads(rev.flow)) {
		free -= s.kept
	}
	return !s.limited || rev.hostMB <= free
}

// need returns the device memory that a run asks for in the container own or, if own is nil,
// in a new one. The annotation counts until a run was measured. Memory without a shim stays as
// long as its container lives and cannot be moved, like a context.
func (s *Scheduler) need(dev *device, rev *revision, own *container) gpu.MemoryRequest {
	size, measured := rev.measured.Bytes()
	if !measured {
		size = rev.hint
	}
	n := gpu.MemoryRequest{Bytes: size, Context: s.cfg.Context}
	if rev.noShim {
		n = gpu.MemoryRequest{Context: size + s.cfg.Context}
	}
	if own != nil {
		_, footprint := dev.ledger.Residency(own.id)
		measured = measured || footprint > n.Bytes
		n.Bytes, n.Context = max(n.Bytes, footprint), max(n.Context, dev.ledger.Overhead(own.id))
	}
	if most := rev.flow.space.limit; most > 0 { // more it is not given
		n.Bytes = min(n.Bytes, most)
		if rev.noShim {
			n.Context = min(n.Context, most+s.cfg.Context)
		}
	}
	if measured {
		// A run that needs more than any device gets all of the largest device.
		n.Context = min(n.Context, s.largest)
		n.Bytes = min(n.Bytes, s.largest-n.Context)
	}
	return n
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
