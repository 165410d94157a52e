package lane

import (
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// follow lets memory follow the flows: an active flow's idle boxes are brought
// in ahead where there is room, those of a throttled or inactive one may be
// moved out.
func (l *Lane) follow() {
	l.changes = l.policy.Changes(l.changes[:0])
	for _, c := range l.changes {
		if c.Flow.Function == "" {
			l.followNamespace(c)
			continue
		}
		f := l.flows[c.Flow]
		if f == nil {
			continue
		}
		l.followFlow(f, c.To)
		if c.To == sched.Inactive {
			l.forget(f)
		}
	}
}

// followNamespace takes a change of all backlogged flows of a namespace.
func (l *Lane) followNamespace(c sched.Change) {
	ns := l.namespaces[c.Flow.Namespace]
	if ns == nil || l.cfg.SwapEachRun {
		return // everything goes after its run, whatever its flow does
	}
	if l.said(l.most(c.Flow.Namespace), &ns.mark, c.To) {
		return
	}
	for _, f := range ns.boxed {
		if f.queued > 0 {
			l.followFlow(f, c.To)
		}
	}
}

func (l *Lane) followFlow(f *flow, to sched.State) {
	if l.cfg.SwapEachRun {
		return // everything goes after its run, whatever its flow does
	}
	if l.said(l.most(f.id.Namespace), &f.mark, to) {
		return
	}
	for _, rev := range f.revs {
		for i := len(rev.boxes) - 1; i >= 0; i-- {
			b := rev.boxes[i]
			if !b.listed {
				continue
			}
			stays := to == sched.Active && l.leaves(b)
			b.dev.ledger.SetEvictable(l.now, b.name, !stays)
			if stays && l.cfg.PrefetchActive {
				b.dev.ledger.Prefetch(l.now, b.name, false)
			}
		}
	}
}

// said marks all boxes that follow a mark in one step, where that is all that is
// to be done: where memory is to be moved, or might be, it is false, and each of
// them must be told.
func (l *Lane) said(most int64, m *gpu.Mark, to sched.State) bool {
	if l.cfg.Headroom > 0 || most > 0 || to == sched.Active && m.Away() > 0 {
		return false
	}
	l.marks.Set(m, to != sched.Active)
	return true
}

// prefetchNext brings in the memory of the flow whose turn is next, during the
// current runs.
func (l *Lane) prefetchNext() {
	if !l.cfg.PrefetchNext {
		return
	}
	id, index, ok := l.policy.Likely(l.now)
	f := l.known(id)
	if !ok || f == nil {
		return
	}
	dev, rev := l.devices[index], l.next(f)
	dev.pool.Idle(rev, func(name string) bool {
		if l.leaves(rev.named(dev, name)) {
			dev.ledger.Prefetch(l.now, name, true)
		}
		return false
	})
}
