package invoker

import (
	"sort"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// left takes a run out of its container and its token back.
func (l *gpuLane) left(now time.Duration, e left) {
	r, g := e.run, e.run.grant
	g.device.busy--
	if e.unused {
		l.policy.Abandon(now, r.item)
	} else {
		l.policy.Done(now, r.item, l.usage(now, r))
	}
	g.device.ledger.Release(now, r.box.name)
	l.retire(now, r.box, e.keep)
}

// usage is what a run took of its token: service is the time in which the
// token was held less the making of its container.
func (l *gpuLane) usage(now time.Duration, r *run) sched.Usage {
	held := now - r.grant.at
	setup := time.Duration(0)
	if !r.at.runStart.IsZero() {
		setup = max(0, held-r.at.runEnd.Sub(r.at.runStart))
	}
	f := l.flows[r.grant.choice.Flow]
	if f != nil && !r.grant.kind.Warm() && setup > 0 {
		l.demand.Started(f.name, setup)
	}
	l.d.metrics.gpuSeconds.WithLabelValues(r.User.Namespace.Name, r.action.FQN()).Add((held - setup).Seconds())
	return sched.Usage{Service: held - setup, Setup: setup}
}

// retire gives a container back to its pool, or up.
func (l *gpuLane) retire(now time.Duration, b *box, keep bool) {
	b.gpu.busy, b.gpu.since = false, now
	dev := b.gpu.device
	fits := dev.pool.Put(now, b.name)
	if !keep || !fits || b.gpu.failed {
		l.dispose(now, b)
		return
	}
	active := l.policy.State(b.gpu.flow) == sched.Active
	dev.ledger.SetEvictable(now, b.name, !active)
}

// dispose gives a container up: it is removed, and its memory, on the device
// and on the host, is free when that is done.
func (l *gpuLane) dispose(now time.Duration, b *box) {
	b.gpu.doomed = true
	b.gpu.device.leaving += b.gpu.context
	b.gpu.device.pool.Remove(b.name)
	l.policy.Touch(now, b.gpu.flow)
	l.d.remove(b, gpuGone{b})
}

// died takes the news that a container has ended by itself.
func (l *gpuLane) died(now time.Duration, b *box) {
	switch {
	case b.gpu.doomed:
	case b.gpu.busy:
		b.gpu.failed = true // the run that is in it gives it up
	default:
		l.dispose(now, b)
	}
}

// gone frees what a removed container held.
func (l *gpuLane) gone(now time.Duration, b *box) {
	delete(l.boxes, b.name)
	b.gpu.device.leaving -= b.gpu.context
	b.gpu.device.ledger.Gone(now, b.name)
	l.d.pool.Unclaim(now, b.gpu.claimed)
	l.forget(b.gpu.flow)
	l.touchMisfits(now)
}

// forget drops what is known of a flow that has neither work nor containers.
func (l *gpuLane) forget(id sched.FlowID) {
	f := l.flows[id]
	if f == nil || f.queued > 0 || l.policy.State(id) != sched.Inactive {
		return
	}
	for _, b := range l.boxes {
		if b.gpu.flow == id {
			return
		}
	}
	l.demand.Forget(f.name)
	delete(l.flows, id)
}

// touchMisfits lets the policy ask again about flows that did not fit.
func (l *gpuLane) touchMisfits(now time.Duration) {
	for _, id := range sortedFlows(l.misfits) {
		l.policy.Touch(now, id)
	}
	clear(l.misfits)
}

// held takes what a process of a container says it holds.
func (l *gpuLane) held(now time.Duration, h gpu.Held) {
	b := l.boxes[h.Container]
	if b == nil {
		return
	}
	dev := b.gpu.device
	if h.Exited {
		dev.ledger.Exited(now, b.name, h.PID)
	} else if err := dev.ledger.Report(now, b.name, h.PID, h.Usage); err != nil {
		l.d.log.Warn("gpu usage refused", keyContainer, b.name, "error", err)
		return
	}
	_, footprint := dev.ledger.Residency(b.name)
	b.gpu.memory = max(b.gpu.memory, footprint)
	l.policy.Touch(now, b.gpu.flow)
	l.touchMisfits(now)
}

// moved takes the end of an order to move memory.
func (l *gpuLane) moved(now time.Duration, b *box, epoch uint64, took time.Duration) {
	if l.boxes[b.name] != b || !b.gpu.device.ledger.Moved(now, b.name, epoch) {
		return
	}
	b.gpu.moving = false
	l.policy.Touch(now, b.gpu.flow)
	l.touchMisfits(now)
	if r := b.gpu.held; r != nil {
		b.gpu.held = nil
		r.grant.prefetch = took
		l.starting = append(l.starting, r)
	}
}

// follow lets memory follow the flows: an active flow's containers are brought
// in ahead, those of a throttled or inactive one may be moved out.
func (l *gpuLane) follow(now time.Duration) {
	l.changes = l.policy.Changes(l.changes[:0])
	for _, c := range l.changes {
		for _, f := range l.meant(c.Flow) {
			l.followFlow(now, f, c.To)
		}
		if c.To == sched.Inactive {
			l.forget(c.Flow)
		}
	}
}

// meant lists the flows that a change speaks of: one, or all of a namespace.
func (l *gpuLane) meant(id sched.FlowID) []*flow {
	if id.Function != "" {
		if f := l.flows[id]; f != nil {
			return []*flow{f}
		}
		return nil
	}
	var all []*flow
	for _, f := range l.flows {
		if f.id.Namespace == id.Namespace {
			all = append(all, f)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].id.Function < all[j].id.Function })
	return all
}

func (l *gpuLane) followFlow(now time.Duration, f *flow, to sched.State) {
	for _, dev := range l.devices {
		dev.pool.Idle(f.key, func(name string) bool {
			dev.ledger.SetEvictable(now, name, to != sched.Active)
			if to == sched.Active && l.settings.Prefetch {
				dev.ledger.Prefetch(now, name, true)
			}
			return true
		})
	}
}

// prefetchLikely brings in the memory of the flow whose turn is next, during
// the current runs.
func (l *gpuLane) prefetchLikely(now time.Duration) {
	if !l.settings.Prefetch {
		return
	}
	id, index, ok := l.policy.Likely(now)
	if !ok || l.flows[id] == nil {
		return
	}
	dev := l.devices[index]
	dev.pool.Idle(l.flows[id].key, func(name string) bool {
		dev.ledger.Prefetch(now, name, true)
		return false
	})
}

// relieve gives idle GPU containers up where host memory is short: for a CPU
// activation that waits for it, or for a new container of another flow.
func (l *gpuLane) relieve(now time.Duration) {
	lack := l.d.pool.Lacking()
	if l.short > 0 && !l.d.pool.Room(l.short) {
		lack = max(lack, l.short-l.d.pool.Free())
	}
	for _, b := range l.boxes {
		if b.gpu.doomed {
			lack -= b.gpu.claimed // it is on its way out
		}
	}
	for _, dev := range l.devices {
		for lack > 0 {
			name, ok := dev.pool.Victim(l.value(now))
			if !ok {
				break
			}
			b := l.boxes[name]
			lack -= b.gpu.claimed
			l.dispose(now, b)
		}
	}
}

// tick lets time pass: flows expire, idle containers of no one go.
func (l *gpuLane) tick(now time.Duration) {
	if l == nil {
		return
	}
	l.policy.Tick(now)
	for _, dev := range l.devices {
		dev.ledger.Tick(now)
	}
	for _, b := range l.idle() {
		if now-b.gpu.since >= l.idleTimeout() {
			l.dispose(now, b)
		}
	}
}

func (l *gpuLane) idleTimeout() time.Duration {
	p := l.d.settings.Pool
	return p.IdleTimeout + max(p.PauseGrace, 0)
}

// idle lists containers in which nothing runs, the longest idle first.
func (l *gpuLane) idle() []*box {
	var out []*box
	for _, b := range l.boxes {
		if !b.gpu.busy && !b.gpu.doomed {
			out = append(out, b)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].gpu.since != out[j].gpu.since {
			return out[i].gpu.since < out[j].gpu.since
		}
		return out[i].name < out[j].name
	})
	return out
}

func (l *gpuLane) deadline() (time.Duration, bool) {
	if l == nil {
		return 0, false
	}
	at, ok := l.policy.Deadline()
	for _, dev := range l.devices {
		if t, due := dev.ledger.Deadline(); due && (!ok || t < at) {
			at, ok = t, true
		}
	}
	for _, b := range l.boxes {
		t := b.gpu.since + l.idleTimeout()
		if !b.gpu.busy && !b.gpu.doomed && l.d.settings.Pool.IdleTimeout >= 0 && (!ok || t < at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// annotation tells the activation's record what the GPU did for it.
func (g *grant) annotation(at times) activation.Annotation {
	run := activation.GPURun{
		Device: g.device.String(), Start: g.kind.String(),
		QueueTime:    g.choice.Waited.Milliseconds(),
		PrefetchTime: g.prefetch.Milliseconds(),
		Memory:       max(g.memory, g.need.Bytes),
	}
	if !at.runStart.IsZero() {
		run.GPUTime = at.runEnd.Sub(at.runStart).Milliseconds()
	}
	return run.Annotation()
}

func sortedFlows(set map[sched.FlowID]bool) []sched.FlowID {
	out := make([]sched.FlowID, 0, len(set))
	for id := range set {
		out = append(out, id)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].String() < out[j].String() })
	return out
}
