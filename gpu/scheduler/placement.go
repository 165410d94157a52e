package scheduler

import (
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Placement answers the policy's question what a start of a flow's next invocation on a
// device would be. It changes nothing.
func (l *Scheduler) Placement(id sched.FlowID, index int) sched.Placement {
	f, dev := l.known(id), l.devices[index]
	if f == nil {
		return sched.Placement{}
	}
	rev := f.next()
	own, kind, _ := l.serving(dev, rev)
	return sched.Placement{Start: kind, Setup: f.setup(dev, own, kind), Fits: l.fits(dev, rev, own)}
}

// setup is how long a start takes until the run proper begins.
func (f *flow) setup(dev *device, own *container, kind sched.StartKind) time.Duration {
	switch kind {
	case sched.Cold, sched.BusyCold:
		return seconds(f.demand.Restart())
	case sched.HostWarm:
		resident, footprint := dev.ledger.Residency(own.name)
		return dev.speed.time(footprint - resident)
	}
	return 0
}

// Near lists the devices on which a flow's next invocation might find a container, and says
// what its start would be on all others: in a new container, which fits none of them
// where the host's memory does not suffice.
func (l *Scheduler) Near(id sched.FlowID, buf []int) ([]int, sched.Placement) {
	f := l.known(id)
	if f == nil {
		return buf, sched.Placement{}
	}
	rev := f.next()
	buf = rev.devices(buf)
	return buf, sched.Placement{Start: sched.Cold, Setup: seconds(f.demand.Restart()), Fits: l.affords(rev)}
}

// devices appends those that have a container of the revision, in their order.
func (rev *revision) devices(buf []int) []int {
	first := len(buf)
	for _, c := range rev.containers {
		buf = append(buf, c.dev.Index)
	}
	slices.Sort(buf[first:])
	return buf[:first+len(slices.Compact(buf[first:]))]
}

// serving finds the container that would take the next run of a revision on a device,
// nil for a new one, and what start that is.
func (l *Scheduler) serving(dev *device, rev *revision) (own *container, kind sched.StartKind, promised *run) {
	if len(rev.containers) == 0 {
		return nil, sched.Cold, nil
	}
	if name, ok := dev.pool.Peek(rev); ok {
		own = l.byName[name]
	} else {
		own, promised = l.answering(dev, rev)
	}
	if own != nil {
		return own, startKind(own), promised
	}
	if all, _ := dev.pool.Count(rev); all > 0 {
		return nil, sched.BusyCold, nil
	}
	return nil, sched.Cold, nil
}

// startKind tells where the memory of a live container is: all of it on the device, and
// staying there, or not. What its processes allocated and never used, as of an
// arena, is nowhere, and nothing of it is missing.
func startKind(b *container) sched.StartKind {
	resident, footprint := b.dev.ledger.Residency(b.name)
	if b.whole > 0 {
		footprint = min(footprint, b.whole)
	}
	if b.move.leaves() || resident < footprint {
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

// fits tells whether container, host memory and device memory can be had now, counting
// what idle containers hold as memory that can be freed. own is nil for a new container.
func (l *Scheduler) fits(dev *device, rev *revision, own *container) bool {
	if !l.hasMemory(dev, rev, own) {
		return false
	}
	return own != nil || l.hasSlot(dev) && l.affords(rev)
}

// hasMemory tells whether the device has the memory for a run.
func (l *Scheduler) hasMemory(dev *device, rev *revision, own *container) bool {
	need := l.need(dev, rev, own)
	if all := need.Bytes + need.Context; all > dev.MemoryBytes {
		// What fits no device at all is let through, to be refused with a
		// reason.
		return all > l.largest
	}
	if !l.permits(dev, rev, own, need.Bytes) {
		return false
	}
	if own == nil {
		return need.Bytes+need.Context <= dev.ledger.Available()
	}
	return dev.ledger.Possible(own.name, need)
}

// hasSlot tells whether the device's pool has a slot for a new container or can get
// one.
func (l *Scheduler) hasSlot(dev *device) bool {
	_, idle := dev.pool.Len()
	return l.cfg.Pool.Size == 0 || !dev.pool.Full() || idle > 0
}

// affords tells whether host memory is there for a new container of a revision.
func (l *Scheduler) affords(rev *revision) bool { return !l.limited || rev.hostMB <= l.host.Free }

// need is what a run asks of a device, in the container own or, when that is nil, in a
// new one. The hint counts until a run was measured. Memory that is not seen
// stays as long as its container lives, and cannot be moved: just like a context.
func (l *Scheduler) need(dev *device, rev *revision, own *container) gpu.Need {
	size, measured := rev.measured.Bytes()
	if !measured {
		size = rev.hint
	}
	n := gpu.Need{Bytes: size, Context: l.cfg.Context}
	if rev.noShim {
		n = gpu.Need{Context: size + l.cfg.Context}
	}
	if own != nil {
		_, footprint := dev.ledger.Residency(own.name)
		measured = measured || footprint > n.Bytes
		n.Bytes, n.Context = max(n.Bytes, footprint), max(n.Context, dev.ledger.Overhead(own.name))
	}
	if most := l.namespaceLimit(rev.flow.id.Namespace); most > 0 {
		n.Bytes = min(n.Bytes, most) // more it is not given
	}
	if measured {
		// What needs more than any device is served with all of the largest.
		n.Context = min(n.Context, l.largest)
		n.Bytes = min(n.Bytes, l.largest-n.Context)
	}
	return n
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
