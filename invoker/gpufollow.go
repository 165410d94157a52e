package invoker

import (
	"sort"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

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
		if len(b.gpu.runs) == 0 && !b.gpu.doomed && l.d.settings.Pool.IdleTimeout >= 0 && (!ok || t < at) {
			at, ok = t, true
		}
	}
	return at, ok
}
