package invoker

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/operate/explain"
)

// backlog is the GPU scheduler's queue with its messages, some of which are on disk.
// They go there when their turn is far, or when many messages are in memory, and come
// back when the GPU scheduler says that their turn is near, or at the latest when it is
// there: a run waits for its message, and nobody else does. The dispatcher owns
// it.
type backlog struct {
	spilledSet
	jobs    map[uint64]*routed // whose messages are at hand: submitted, and not started
	spiller *spiller           // nil: nothing is spilled
	fetcher *fetcher
	permits *permits
	coming  map[uint64]*coming
	trouble string // why the last could not be spilled, empty when it could
	closing bool
}

// coming is one whose message is being read back.
type coming struct {
	key   string
	order *scheduler.Order // the run that waits for it; nil: none yet
	ctr   *actionContainer
	why   string // it is refused, with this text
}

func (iv *Invoker) newBacklog(d *dispatcher) *backlog {
	b := &backlog{spilledSet: newSpilledSet(), jobs: map[uint64]*routed{}, permits: iv.permits, coming: map[uint64]*coming{}}
	if iv.ports.Spill != nil {
		b.spiller = &spiller{store: iv.ports.Spill, post: d.post, goWork: d.goWork}
		b.fetcher = &fetcher{iv: iv, goWork: d.goWork}
	}
	return b
}

func (b *backlog) status() *BacklogStatus {
	s := &BacklogStatus{Spilled: len(b.byInvocation) + len(b.coming), Trouble: b.trouble}
	s.InMemory, s.Bytes = b.permits.used()
	if b.spiller == nil {
		s.Off = "there is no journal (whisk.gpu.journal): all messages stay in memory"
	}
	return s
}

// spills reports whether a job that is submitted now shall be spilled, because its
// turn is far, or because of what is in memory already. Of the latter the GPU scheduler is
// not told: it would ask for the message at once, for its turn may be near.
func (b *backlog) spills(act *routed, l *scheduler.Scheduler) (spill, far bool) {
	if b.spiller == nil || act.unlisted {
		return false, false
	}
	far = l.Spillable(flowOf(act))
	return far || !act.permit.gpu || !b.permits.near(), far
}

// spilledEvent states which messages are spilled, and why others are not.
type spilledEvent struct {
	jobs []*routed
	err  error
}

func (e spilledEvent) apply(d *dispatcher, now time.Duration) {
	g := d.gpus
	b := g.backlog
	b.trouble = ""
	if e.err != nil {
		b.trouble = e.err.Error()
	}
	for _, act := range e.jobs {
		if b.jobs[act.invocation] != act || act.near {
			continue // its turn came meanwhile
		}
		if !act.take(setAside) {
			continue
		}
		delete(b.jobs, act.invocation)
		b.put(act)
		b.permits.spill(act.permit)
		act.completer.aging.remove(act.pending)
		act.letGo()
		if b.closing {
			g.take(now, scheduler.Event{Kind: scheduler.Withdrawn, Invocation: act.invocation})
		}
	}
}

// bring reads a message back whose turn is near, if there is room for it.
func (b *backlog) bring(invocation uint64) {
	if act := b.jobs[invocation]; act != nil {
		act.near = true
		return
	}
	if b.closing || b.byInvocation[invocation] == nil || !b.permits.near() {
		return
	}
	if sp, ok := b.come(invocation, &coming{}); ok {
		b.fetcher.add(fetch{invocation: invocation, spilled: sp})
	}
}

// come records that a message is being read back.
func (b *backlog) come(invocation uint64, c *coming) (sp spilled, ok bool) {
	if sp, ok = b.take(invocation); ok {
		c.key = sp.caller.key
		b.coming[invocation] = c
	}
	return sp, ok
}

// await has a run wait for its message, and reports whether it must.
func (b *backlog) await(o scheduler.Order, ctr *actionContainer) bool {
	if b.jobs[o.Invocation] != nil {
		return false
	}
	if c := b.coming[o.Invocation]; c != nil {
		c.order, c.ctr = &o, ctr
		b.fetcher.hurry(o.Invocation)
	} else if sp, ok := b.come(o.Invocation, &coming{order: &o, ctr: ctr}); ok {
		b.fetcher.now(fetch{invocation: o.Invocation, spilled: sp})
	}
	return true
}

// refuse answers an activation whose message is not at hand.
func (b *backlog) refuse(invocation uint64, reason scheduler.Reason, text string) {
	if c := b.coming[invocation]; c != nil {
		c.why = text
		return
	}
	sp, ok := b.take(invocation)
	if !ok {
		return
	}
	if reason == scheduler.WasWithdrawn { // by draining: the spill has it for the next process
		b.permits.spilled.Add(-1)
		return
	}
	b.fetcher.add(fetch{invocation: invocation, spilled: sp, why: text})
}

// broughtBack is a spilled activation that was read back: a job, or the reason
// why it cannot run.
type broughtBack struct {
	invocation uint64
	pending    *pending
	act        *routed
	no         *refusal
}

func (e broughtBack) apply(d *dispatcher, now time.Duration) {
	g := d.gpus
	b := g.backlog
	c := b.coming[e.invocation]
	delete(b.coming, e.invocation)
	switch {
	case c.why != "":
		d.reject(e.pending, e.act, refusal{response: appError(c.why), known: true})
	case e.no != nil:
		g.take(now, c.unwanted(e.invocation))
		d.reject(e.pending, nil, *e.no)
	case e.act.key != c.key: // another revision runs by now, in containers of its own
		g.take(now, c.unwanted(e.invocation))
		arrived{e.act}.apply(d, now)
	case c.order != nil:
		e.act.invocation = e.invocation
		b.jobs[e.invocation] = e.act
		g.start(now, *c.order, c.ctr)
	default:
		e.act.invocation, e.act.near = e.invocation, true
		b.jobs[e.invocation] = e.act
	}
}

// unwanted is what is reported to the GPU scheduler of an invocation that does not run, whether it waits
// or has its token.
func (c *coming) unwanted(invocation uint64) scheduler.Event {
	if c.order == nil {
		return scheduler.Event{Kind: scheduler.Withdrawn, Invocation: invocation}
	}
	return scheduler.Event{Kind: scheduler.Left, Invocation: invocation, Unused: true, Keep: c.order.Start.Warm()}
}

// draining has what is spilled stay there: the next process runs it.
type draining struct{}

func (draining) apply(d *dispatcher, now time.Duration) {
	if d.gpus == nil {
		return
	}
	d.gpus.backlog.closing = true
	for _, invocation := range slices.Sorted(maps.Keys(d.gpus.backlog.byInvocation)) {
		d.gpus.take(now, scheduler.Event{Kind: scheduler.Withdrawn, Invocation: invocation})
	}
}

// resume has a job go on where it was when it was spilled.
func (act *routed) resume(sp spilled) {
	act.queued, act.came, act.obstacle = sp.queued, sp.came, sp.obstacle
	if a := act.trace; a != nil {
		a.Queued, a.Kind = act.completer.at(act.queued), act.action.Exec.Kind
		a.GPU = &explain.GPU{Own: int(sp.came.ahead)}
	}
}
