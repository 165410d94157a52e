package sim

import (
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// obey carries out what the ledger of a device orders: transfers over the
// link, one after another in each direction, and starts of runs whose
// reservations now stand.
func (e *engine) obey(dev int32) {
	d := e.devices[dev]
	orders, standing := d.ledger.Ready()
	for _, o := range orders {
		c := e.conts[o.Container]
		lane := &d.up
		if o.Kind == gpu.Evict {
			lane = &d.down
		}
		*lane = max(*lane, e.now) + e.p.Link.Transfer(o.Bytes)
		if o.Kind == gpu.Prefetch {
			c.arrives = *lane
		}
		e.timers.push(timer{
			at: *lane, kind: transferred, dev: dev, cont: c,
			epoch: o.Epoch, evict: o.Kind == gpu.Evict,
		})
	}
	for _, id := range standing {
		if j := e.conts[id].job; e.jobs[j].phase == noRoom {
			e.admit(j)
		}
	}
}

// fire handles one timer.
func (e *engine) fire(t timer) {
	switch t.kind {
	case containerStarted:
		e.initialize(t.job)
	case initialized:
		e.run(t.job)
	case overlapped:
		e.run(t.job)
	case transferred:
		e.moved(t)
	case sampled:
		e.sample(t.dev)
	}
}

// moved reports a finished transfer to the ledger, as the shim would. A
// transfer whose order was replaced or whose container is gone is void.
func (e *engine) moved(t timer) {
	c := t.cont
	d := e.devices[t.dev]
	if e.conts[c.id] != c || !d.ledger.Awaits(c.id, t.epoch) {
		return
	}
	f := &e.fns[c.fn]
	usage := gpu.Usage{Allocated: f.need.Bytes, Resident: f.need.Bytes, Context: f.need.Context}
	if t.evict {
		usage.Resident = 0
	}
	e.fail(d.ledger.Report(e.now, c.id, 1, usage))
	d.ledger.Moved(e.now, c.id, t.epoch)
	e.policy.Touch(e.now, f.flow)
	e.obey(t.dev)
}

// follow carries the changes of flow states to the memory of their idle
// containers: what a throttled or inactive flow holds may go, what an active
// one holds is brought in.
func (e *engine) follow() {
	e.changes = e.policy.Changes(e.changes[:0])
	if e.p.SwapEachRun {
		return // everything goes after its run, whatever its flow does
	}
	for _, c := range e.changes {
		if fn, ok := e.byFlow[c.Flow]; ok {
			e.mark(fn, c.To)
			continue
		}
		for i := range e.fns { // the whole namespace
			if f := &e.fns[i]; f.flow.Namespace == c.Flow.Namespace && f.queued > 0 {
				e.mark(int32(i), c.To)
			}
		}
	}
}

func (e *engine) mark(fn int32, state sched.State) {
	for _, c := range e.fns[fn].conts {
		d := e.devices[c.dev]
		d.ledger.SetEvictable(e.now, c.id, state != sched.Active)
		if state == sched.Active && e.p.PrefetchActive && c.job < 0 {
			d.ledger.Prefetch(e.now, c.id, false)
		}
		e.obey(c.dev)
	}
}

// pipeline brings in the memory of the flow that will likely be granted next,
// so that the transfer hides behind the runs in flight.
func (e *engine) pipeline() {
	flow, dev, ok := e.policy.Likely(e.now)
	if !ok {
		return
	}
	d := e.devices[dev]
	if id, _, ok := d.pool.Peek(e.fns[e.byFlow[flow]].key); ok && !d.ledger.Resident(id) {
		d.ledger.Prefetch(e.now, id, true)
		e.obey(int32(dev))
	}
}

// sample reads a device's utilization as NVML would and lets the tokens
// follow it.
func (e *engine) sample(dev int32) {
	d := e.devices[dev]
	e.advance(d)
	if span := (e.now - d.sampledAt).Seconds(); span > 0 {
		d.tokens.Sample(e.now, min(1, d.kernel/span))
		d.kernel, d.sampledAt = 0, e.now
	}
	if n := d.tokens.D(); n != d.d {
		d.d = n
		e.policy.SetTokens(e.now, int(dev), n)
	}
	e.timers.push(timer{at: e.now + sampleEvery, kind: sampled, dev: dev})
}

// check asserts the invariants of the shared cores, and that they agree with
// each other and with the world.
func (e *engine) check() {
	if !e.p.Verify {
		return
	}
	for i, d := range e.devices {
		e.fail(d.ledger.Check())
		e.fail(d.pool.Check())
		busy := 0
		for _, c := range e.conts {
			if c.dev == int32(i) && c.job >= 0 {
				busy++
			}
		}
		all, idle := d.pool.Len()
		if busy != all-idle {
			e.fail(fmt.Errorf("device %d: %d busy containers, %d by the pool", i, busy, all-idle))
		}
		if e.p.Pool.Size > 0 && all > e.p.Pool.Size {
			e.fail(fmt.Errorf("device %d: %d containers in a pool of %d", i, all, e.p.Pool.Size))
		}
		if !e.p.Tokens.Dynamic && busy > d.d {
			e.fail(fmt.Errorf("device %d: %d runs with %d tokens", i, busy, d.d))
		}
	}
}

// cost measures what the policy's decisions take, when a clock is given.
type cost struct {
	since     time.Duration
	total     time.Duration
	decisions int
}

func (c *cost) begin(clock func() time.Duration) {
	if clock != nil {
		c.since = clock()
	}
}

func (c *cost) end(clock func() time.Duration) {
	if clock != nil {
		c.total += clock() - c.since
	}
}
