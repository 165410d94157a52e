package invoker

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/operate/explain"
)

// backlog has what the GPU scheduler queues, some of it without its message: that
// is on disk. A message is spilled when its activation will not run soon, or when
// many messages are in memory. It is read back when the GPU scheduler orders that
// (Load), or at the latest when its run starts: only that run waits for it. The
// dispatcher owns it.
type backlog struct {
	inMemory map[uint64]*pending // submitted, and not started
	spilled  map[uint64]*spilled // on disk alone
	loading  map[uint64]*loading // being read back
	spiller  *spiller            // nil: nothing is spilled
	fetcher  *fetcher
	permits  *permits
	trouble  string // why the last could not be spilled, empty when it could
	closing  bool
}

// loading is a spilled activation whose message is being read back, and what has come
// of it meanwhile, which the dispatcher owns.
type loading struct {
	invocation uint64
	spilled    *spilled
	order      *scheduler.Order // the run that waits for it; nil: none yet
	ctr        *actionContainer
	refusal    *ending // it is refused, and ends so
	back       bool    // it is to be given back
}

func (iv *Invoker) newBacklog(d *dispatcher) *backlog {
	b := &backlog{inMemory: map[uint64]*pending{}, spilled: map[uint64]*spilled{}, loading: map[uint64]*loading{}, permits: iv.permits}
	if iv.ports.Spill != nil {
		b.spiller = &spiller{store: iv.ports.Spill, d: d}
		b.fetcher = &fetcher{iv: iv}
	}
	return b
}

func (b *backlog) status() *BacklogStatus {
	s := &BacklogStatus{Spilled: len(b.spilled) + len(b.loading), Trouble: b.trouble}
	s.InMemory, s.Bytes = b.permits.used()
	if b.spiller == nil {
		s.Off = "there is no journal (whisk.gpu.journal): all messages stay in memory"
	}
	return s
}

// spills reports whether a message that is submitted now shall be spilled, because
// it will not run soon, or because of what is in memory already. The latter is not
// reported to the GPU scheduler: it would order the message back at once, which may
// run soon.
func (b *backlog) spills(p *pending, core *scheduler.Scheduler) (spill, far bool) {
	if b.spiller == nil || p.Unlisted {
		return false, false
	}
	far = core.Spillable(flowOf(p))
	return far || !p.permit.gpu || !b.permits.near(), far
}

// spilledEvent reports which messages are spilled, and why others are not.
type spilledEvent struct {
	all []*pending
	err error
}

func (e spilledEvent) apply(d *dispatcher, now time.Duration) {
	g := d.gpus
	b := g.backlog
	b.trouble = ""
	if e.err != nil {
		b.trouble = e.err.Error()
	}
	for _, p := range e.all {
		if b.inMemory[p.invocation] != p || p.near || p.withdrawn || !p.take(setSpilled) {
			continue // it is needed meanwhile, or given back
		}
		delete(b.inMemory, p.invocation)
		b.spilled[p.invocation] = newSpilled(p)
		b.permits.spill(p)
		p.completer.unsettled.spilled(p)
		p.commit()
		if b.closing {
			g.take(now, scheduler.Event{Kind: scheduler.Withdrawn, Invocation: p.invocation})
		}
	}
}

// load reads a message back that will run soon, if there is memory for it.
func (b *backlog) load(invocation uint64) {
	if p := b.inMemory[invocation]; p != nil {
		p.near = true
		return
	}
	if b.closing || b.spilled[invocation] == nil || !b.permits.near() {
		return
	}
	b.fetcher.add(b.startLoading(invocation))
}

// startLoading records that a message is being read back; nil: it is not spilled.
func (b *backlog) startLoading(invocation uint64) *loading {
	sp := b.unspill(invocation)
	if sp == nil {
		return nil
	}
	l := &loading{invocation: invocation, spilled: sp}
	b.loading[invocation] = l
	return l
}

// unspill takes an activation out of the spilled ones; nil: it is not there.
func (b *backlog) unspill(invocation uint64) *spilled {
	sp := b.spilled[invocation]
	delete(b.spilled, invocation)
	if len(b.spilled) == 0 {
		b.spilled = map[uint64]*spilled{} // a map does not shrink by itself
	}
	return sp
}

// await has a run wait for its message, and reports whether it must.
func (b *backlog) await(o scheduler.Order, ctr *actionContainer) bool {
	if b.inMemory[o.Invocation] != nil {
		return false
	}
	read := b.fetcher.hurry
	l := b.loading[o.Invocation]
	if l == nil {
		read, l = b.fetcher.now, b.startLoading(o.Invocation)
	}
	if l != nil {
		l.order, l.ctr = &o, ctr
		read(l)
	}
	return true
}

// refuse answers an activation whose message is not in memory.
func (b *backlog) refuse(invocation uint64, reason scheduler.Reason, refusal func(key string) *ending) {
	l := b.loading[invocation]
	switch {
	case l != nil:
		l.refusal = refusal(l.spilled.caller.Value().key)
	case b.spilled[invocation] == nil:
	case reason == scheduler.WasWithdrawn: // by draining: it stays on disk for the next process
		b.unspill(invocation)
		b.permits.spilled.Add(-1)
	default:
		l = b.startLoading(invocation)
		l.refusal = refusal(l.spilled.caller.Value().key)
		b.fetcher.add(l)
	}
}

// broughtBack reports a spilled activation that was read back; no is why it cannot
// run.
type broughtBack struct {
	*loading
	p  *pending
	no *ending
}

func (e broughtBack) apply(d *dispatcher, now time.Duration) {
	g, p := d.gpus, e.p
	b := g.backlog
	delete(b.loading, e.invocation)
	if e.back { // it has a permit by now
		b.permits.leaving.Add(-1)
	}
	switch {
	case e.back && e.no == nil:
		arrived{p}.apply(d, now)
	case e.back:
		d.refuse(p, e.no)
	case e.refusal != nil:
		d.refuse(p, e.refusal)
	case e.no != nil:
		g.take(now, e.withdrawal())
		d.refuse(p, e.no)
	case d.returns(p), p.key != e.spilled.caller.Value().key: // another revision runs by now, in containers of its own
		g.take(now, e.withdrawal())
		arrived{p}.apply(d, now)
	default:
		p.invocation = e.invocation
		b.inMemory[e.invocation] = p
		if p.near = e.order == nil; !p.near {
			g.start(now, *e.order, e.ctr)
		}
	}
}

// withdrawal is the event of an invocation that does not run, whether it waits or
// has its token.
func (l *loading) withdrawal() scheduler.Event {
	if l.order == nil {
		return scheduler.Event{Kind: scheduler.Withdrawn, Invocation: l.invocation}
	}
	return scheduler.Event{Kind: scheduler.Left, Invocation: l.invocation, Unused: true, Keep: l.order.Start.Warm()}
}

// draining has what has not started given back, where that is possible, and what is
// spilled stay there: the next process runs it.
type draining struct{ begun chan struct{} }

func (e draining) apply(d *dispatcher, now time.Duration) {
	defer close(e.begun)
	d.draining = true
	d.handBackQueued()
	if d.gpus == nil {
		return
	}
	d.handBackGPU(now)
	d.gpus.backlog.closing = true
	for _, invocation := range slices.Sorted(maps.Keys(d.gpus.backlog.spilled)) {
		d.gpus.take(now, scheduler.Event{Kind: scheduler.Withdrawn, Invocation: invocation})
	}
}

// resume continues the wait of an activation that was spilled.
func (p *pending) resume(sp *spilled) {
	p.queued, p.came, p.obstacle = sp.queued, sp.came, sp.obstacle
	p.completer.observe.queued(p, p.queued)
	p.trace.GPU = &explain.GPU{Own: int(sp.came.ahead)}
}
