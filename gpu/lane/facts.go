package lane

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/start"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Facts answers the policy's question what a start of a flow's next item on a
// device would be. It changes nothing.
func (l *Lane) Facts(id sched.FlowID, index int) sched.Facts {
	f, dev := l.known(id), l.devices[index]
	if f == nil {
		return sched.Facts{}
	}
	rev := l.next(f)
	own, kind, _ := l.serving(dev, rev)
	return sched.Facts{Start: kind, Setup: f.setup(dev, own, kind), Fits: l.fits(dev, rev, own)}
}

// Setup is that of Facts alone.
func (l *Lane) Setup(id sched.FlowID, index int) time.Duration {
	f, dev := l.known(id), l.devices[index]
	if f == nil {
		return 0
	}
	own, kind, _ := l.serving(dev, l.next(f))
	return f.setup(dev, own, kind)
}

// setup is how long a start takes until the run proper begins.
func (f *flow) setup(dev *device, own *box, kind start.Kind) time.Duration {
	switch kind {
	case start.Cold, start.BusyCold:
		return seconds(f.demand.Restart())
	case start.HostWarm:
		resident, footprint := dev.ledger.Residency(own.name)
		return dev.pace.time(footprint - resident)
	}
	return 0
}

// Near lists the devices on which a flow's next item might find a box, and says
// what its start would be on all others: in a new box, which fits none of them
// where the host's memory does not suffice.
func (l *Lane) Near(id sched.FlowID, buf []int) ([]int, sched.Facts) {
	f := l.known(id)
	if f == nil {
		return buf, sched.Facts{}
	}
	rev := l.next(f)
	buf = rev.devices(buf)
	return buf, sched.Facts{Start: start.Cold, Setup: seconds(f.demand.Restart()), Fits: l.affords(rev)}
}

// devices appends those that have a box of the revision, in their order.
func (rev *revision) devices(buf []int) []int {
	if len(rev.boxes) == 1 {
		return append(buf, rev.boxes[0].dev.Index)
	}
	for i, boxes := range rev.by {
		if len(boxes) > 0 {
			buf = append(buf, i)
		}
	}
	return buf
}

// known finds a flow, nil for none. The policy asks about the same few again and
// again.
func (l *Lane) known(id sched.FlowID) *flow {
	seen := l.seen(id)
	if *seen == nil || (*seen).id != id {
		*seen = l.flows[id]
	}
	return *seen
}

// seen is where a flow is noted when it was asked about.
func (l *Lane) seen(id sched.FlowID) **flow {
	at := uint(len(id.Namespace))
	if n := len(id.Function); n >= 2 {
		at += uint(id.Function[n-1]) + 7*uint(id.Function[n-2])
	}
	return &l.recent[at%uint(len(l.recent))]
}

// serving finds the box that would take the next run of a revision on a device,
// nil for a new one, and what start that is.
func (l *Lane) serving(dev *device, rev *revision) (own *box, kind start.Kind, promised *run) {
	if len(rev.on(dev)) == 0 {
		return nil, start.Cold, nil
	}
	name, kind, ok := dev.pool.Peek(rev)
	switch {
	case ok:
		own = rev.named(dev, name)
	default:
		own, promised = l.vacating(dev, rev)
	}
	if own != nil {
		kind = warmth(own)
	}
	return own, kind, promised
}

// warmth tells where the memory of a live box is: all of it on the device, and
// staying there, or not. What its processes allocated and never used, as of an
// arena, is nowhere, and nothing of it is missing.
func warmth(b *box) start.Kind {
	resident, footprint := b.dev.ledger.Residency(b.name)
	if b.whole > 0 {
		footprint = min(footprint, b.whole)
	}
	if b.errand.leaves() || resident < footprint {
		return start.HostWarm
	}
	return start.GPUWarm
}

// found is the kind of a warm start as it turned out, where its memory was moved in
// between grant and start: what was to be moved may have been there.
func (r *run) found() start.Kind {
	e := &r.box.errand
	switch {
	case !r.kind.Warm() || !e.arrived || e.serves != e.epoch || r.before == e.epoch:
		return r.kind
	case e.moved > 0:
		return start.HostWarm
	}
	return start.GPUWarm
}

// fits tells whether box, host memory and device memory can be had now, counting
// what idle boxes hold as room that can be made. own is nil for a new box.
func (l *Lane) fits(dev *device, rev *revision, own *box) bool {
	if !l.holds(dev, rev, own) {
		return false
	}
	return own != nil || l.place(dev) && l.affords(rev)
}

// holds tells whether the device has the memory for a run.
func (l *Lane) holds(dev *device, rev *revision, own *box) bool {
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
		return need.Bytes+need.Context <= dev.ledger.Room()
	}
	return dev.ledger.Possible(own.name, need)
}

// place tells whether the device's pool has a place for a new box or can get
// one.
func (l *Lane) place(dev *device) bool {
	_, idle := dev.pool.Len()
	return l.cfg.Pool.Size == 0 || !dev.pool.Full() || idle > 0
}

// affords tells whether host memory is there for a new box of a revision.
func (l *Lane) affords(rev *revision) bool { return !l.limited || rev.hostMB <= l.host.Free }

// need is what a run asks of a device, in the box own or, when that is nil, in a
// new one. The hint counts until a run was measured. Memory that is not seen
// stays as long as its box lives, and nobody can move it: just like a context.
func (l *Lane) need(dev *device, rev *revision, own *box) gpu.Need {
	size, measured := rev.measured.Bytes()
	if !measured {
		size = rev.hint
	}
	n := gpu.Need{Bytes: size, Context: l.cfg.Context}
	if rev.unseen {
		n = gpu.Need{Context: size + l.cfg.Context}
	}
	if own != nil {
		_, footprint := dev.ledger.Residency(own.name)
		measured = measured || footprint > n.Bytes
		n.Bytes, n.Context = max(n.Bytes, footprint), max(n.Context, dev.ledger.Overhead(own.name))
	}
	if most := l.most(rev.flow.id.Namespace); most > 0 {
		n.Bytes = min(n.Bytes, most) // more it is not given
	}
	if measured {
		// Who held more than any device is served with all of the largest.
		n.Context = min(n.Context, l.largest)
		n.Bytes = min(n.Bytes, l.largest-n.Context)
	}
	return n
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
