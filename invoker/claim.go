package invoker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// Claim names a container of the CPU path that is kept for its owner: it is neither
// paused nor evicted while it is acquired, and only activations that name the claim
// run in it. The owner chooses the name, and uses none twice.
type Claim uint64

// ClaimOwner receives what becomes of claims. Calls must not block.
type ClaimOwner interface {
	// Acquired and Refused answer Acquire, Paused answers Pause. warmed is whether
	// the container is initialised. A container that could not be paused is gone.
	Acquired(id Claim, warmed bool)
	Refused(id Claim, err error)
	Paused(id Claim, ok bool)
	// Lost reports that a container is gone, or will not be used again: it died, an
	// activation failed in it, or it was paused and its memory was needed. Nothing
	// follows for the claim.
	Lost(id Claim)
	// Adopted gives the claim of a container that an earlier process left, paused,
	// by what AcquireRequest.Memo was. It is called before Run calls ready.
	Adopted(memo string) (id Claim, ok bool)
}

// AcquireRequest is what a claim's container is made for.
type AcquireRequest struct {
	ID          Claim
	Namespace   string // that invokes, and the action's name: they name the container
	Action      string
	Exec        activation.Exec
	MemoryMB    int
	Concurrency int
	Memo        string // for the process that adopts the container
}

// ErrNoMemory refuses a claim for which there is no memory, even without the
// containers that are idle.
var ErrNoMemory = errors.New("not enough memory")

// Acquire has a claim's container made, or resumed where it is paused.
func (iv *Invoker) Acquire(r AcquireRequest) { iv.dispatch.post(acquireClaim{r}) }

// PauseClaim pauses a claim's container, in which nothing runs: it can be acquired
// again, or evicted.
func (iv *Invoker) PauseClaim(id Claim) { iv.dispatch.post(pauseClaim{id}) }

// Unclaim removes a claim's container when nothing runs in it any more.
func (iv *Invoker) Unclaim(id Claim) { iv.dispatch.post(unclaim{id}) }

// ReservedMB is the memory of GPU containers that do not give way: no claim can have it.
func (iv *Invoker) ReservedMB() int64 { return iv.dispatch.reserved.Load() }

// claim is one container that is kept for an owner. To the pool its owner is one
// more activation that runs in it, so that it is not idle.
type claim struct {
	AcquireRequest
	ctr       *actionContainer // nil: not placed yet
	acquiring bool
	holds     bool // the owner counts as an activation in the pool's slot
	pausing   bool
	runKey    string // of the activations that may run in it, "" until the first
	warm      bool   // it is initialised
	active    int    // activations in it
}

// claims are the dispatcher's claims. With a nil owner there are none.
type claims struct {
	d       *dispatcher
	owner   ClaimOwner
	health  *engineHealth
	all     map[Claim]*claim
	waiting map[uint64]*claim // for their slots, by number in the pool
}

func newClaims(d *dispatcher, owner ClaimOwner, health *engineHealth) *claims {
	return &claims{d: d, owner: owner, health: health, all: map[Claim]*claim{}, waiting: map[uint64]*claim{}}
}

// key is what the pool shares the container by: it is the claim's alone.
func (id Claim) key() string { return "claim " + strconv.FormatUint(uint64(id), 10) }

// acquireClaim, pauseClaim and unclaim are the owner's wishes.
type (
	acquireClaim struct{ AcquireRequest }
	pauseClaim   struct{ id Claim }
	unclaim      struct{ id Claim }
)

func (e acquireClaim) apply(d *dispatcher, now time.Duration) {
	c := d.claims.all[e.ID]
	if c == nil {
		if !d.pool.Fits(e.MemoryMB, d.gpus.spare()) {
			d.claims.owner.Refused(e.ID, ErrNoMemory)
			return
		}
		c = &claim{}
		d.claims.all[e.ID] = c
	}
	c.AcquireRequest, c.acquiring = e.AcquireRequest, true
	d.claims.enqueue(now, c)
}

// enqueue has the pool place a claim.
func (cs *claims) enqueue(now time.Duration, c *claim) {
	cs.d.next++
	cs.waiting[cs.d.next] = c
	cs.d.pool.Enqueue(now, container.Demand{
		Invocation: cs.d.next, Key: c.ID.key(), Kind: c.Exec.Kind, MemoryMB: c.MemoryMB, Concurrency: c.Concurrency + 1,
		Prewarm: !c.Exec.Pull && c.Exec.Kind != activation.Blackbox, Kept: true,
	})
}

// start gives a claim the slot that the pool has placed it in. It reports whether the
// placement is a claim's.
func (cs *claims) start(placement container.Placement) bool {
	c := cs.waiting[placement.Invocation]
	if c == nil {
		return false
	}
	delete(cs.waiting, placement.Invocation)
	d := cs.d
	ctr := d.containers[placement.Slot]
	if ctr == nil {
		ctr = d.newContainer(placement.Slot, c.Namespace, c.Action, d.settings.spec(c.Exec, c.MemoryMB))
	}
	if c.ctr != ctr { // not the one that was paused
		c.runKey, c.warm, ctr.memo = "", false, c.Memo
	}
	c.ctr, ctr.claim, c.holds = ctr, c, true
	cold := placement.Start == container.Cold
	d.goWork(func(ctx context.Context) {
		d.post(claimReached{c, ctr, cold, cs.reach(ctx, ctr, c.Concurrency, cold, placement.Resume)})
	})
	return true
}

// reach makes a claim's container, or resumes it.
func (cs *claims) reach(ctx context.Context, ctr *actionContainer, concurrency int, cold, resume bool) error {
	d := cs.d
	switch {
	case cold:
		err := d.open(ctx, ctr, concurrency)
		if cs.health.explains(err) && ctx.Err() == nil {
			cs.health.lost(err, &ctr.spec)
		}
		return err
	case resume:
		if err := d.engine.Resume(ctx, ctr.handle.ID); err != nil {
			return fmt.Errorf("%w: resume: %w", errAgain, err)
		}
	}
	return nil
}

// claimReached reports that a claim's container is there, or why not.
type claimReached struct {
	c    *claim
	ctr  *actionContainer
	cold bool
	err  error
}

func (e claimReached) apply(d *dispatcher, now time.Duration) {
	c := e.c
	if c.ctr != e.ctr || !c.holds { // it was lost meanwhile
		d.claims.again(now, c)
		return
	}
	if e.err == nil {
		if e.cold {
			d.watch(now, e.ctr)
		}
		if c.ctr == nil { // it died at once
			d.claims.again(now, c)
			return
		}
		c.acquiring = false
		d.pool.Warmed(now, e.ctr.slot)
		d.claims.owner.Acquired(c.ID, c.warm)
		return
	}
	c.ctr, e.ctr.claim, c.holds = nil, nil, false
	d.pool.Done(now, e.ctr.slot, false)
	if errors.Is(e.err, errAgain) {
		d.claims.again(now, c)
		return
	}
	d.log.Warn("create container", keyContainer, e.ctr.name, keyAction, c.Action, "error", e.err)
	delete(d.claims.all, c.ID)
	d.claims.owner.Refused(c.ID, e.err)
}

// again has a claim whose container was gone before it could be used get another.
func (cs *claims) again(now time.Duration, c *claim) {
	if cs.all[c.ID] != c {
		return
	}
	c.acquiring = true
	if !cs.d.pool.Fits(c.MemoryMB, cs.d.gpus.spare()) {
		delete(cs.all, c.ID)
		cs.owner.Refused(c.ID, ErrNoMemory)
		return
	}
	cs.enqueue(now, c)
}

func (e pauseClaim) apply(d *dispatcher, now time.Duration) {
	c := d.claims.all[e.id]
	if c == nil || c.ctr == nil || !c.holds { // it is lost: that was reported
		return
	}
	c.holds, c.pausing = false, true
	d.pool.Done(now, c.ctr.slot, true)
	if !d.pool.PauseNow(c.ctr.slot) { // something runs in it
		d.claims.lose(c.ctr)
	}
}

func (e unclaim) apply(d *dispatcher, now time.Duration) {
	c := d.claims.all[e.id]
	if c == nil || c.ctr == nil {
		return
	}
	delete(d.claims.all, e.id)
	d.claims.drop(now, c)
}

// drop has a claim's container removed when nothing runs in it.
func (cs *claims) drop(now time.Duration, c *claim) {
	ctr := c.ctr
	c.ctr, ctr.claim = nil, nil
	if c.holds {
		c.holds = false
		cs.d.pool.Done(now, ctr.slot, false)
		return
	}
	cs.d.pool.Failed(ctr.slot)
}

// paused takes the answer to a pause.
func (cs *claims) paused(ctr *actionContainer, ok bool) {
	if ctr == nil || ctr.claim == nil || !ctr.claim.pausing {
		return
	}
	if !ok {
		cs.lose(ctr)
		return
	}
	ctr.claim.pausing = false
	cs.owner.Paused(ctr.claim.ID, true)
}

// lose takes a container from its claim: it is gone, or being removed.
func (cs *claims) lose(ctr *actionContainer) {
	if ctr == nil || ctr.claim == nil {
		return
	}
	c := ctr.claim
	ctr.claim = nil
	if c.ctr != ctr {
		return
	}
	acquiring, pausing := c.acquiring, c.pausing
	c.pausing = false
	if acquiring { // what made it, or resumed it, ends with an answer
		c.ctr = nil
		if c.holds {
			c.holds = false
			cs.d.pool.Done(cs.d.clock(), ctr.slot, false)
		}
		return
	}
	delete(cs.all, c.ID)
	c.ctr = ctr
	cs.drop(cs.d.clock(), c)
	if pausing {
		cs.owner.Paused(c.ID, false)
		return
	}
	cs.owner.Lost(c.ID)
}

// demand is what an activation asks of the pool: its claim's container, where that is
// fit for it, or any of its own. What /init got of another caller must not serve it.
func (cs *claims) demand(p *pending) container.Demand {
	demand := p.demand()
	c := cs.all[p.Claim]
	if c == nil || c.ctr == nil || !c.holds || c.acquiring {
		return demand
	}
	fits := c.runKey == "" || c.warm && c.runKey == p.key
	if !fits || p.demand().MemoryMB != c.MemoryMB || p.action.Exec.Image != c.Exec.Image {
		return demand
	}
	c.runKey = p.key
	demand.Key = c.ID.key()
	return demand
}

// placed makes of a run in a claimed container what it is: the first one initialises it.
func (cs *claims) placed(r *run) {
	c := r.ctr.claim
	if c == nil {
		return
	}
	r.start, r.first = container.Warm, c.active == 0
	if !c.warm {
		r.start = container.Prewarmed
	}
	c.active++
}

func (cs *claims) warmed(ctr *actionContainer) {
	if ctr.claim != nil {
		ctr.claim.warm = true
	}
}

// left takes the leaving of a run.
func (cs *claims) left(ctr *actionContainer, keep bool) {
	if ctr.claim == nil {
		return
	}
	ctr.claim.active--
	if !keep {
		cs.lose(ctr)
	}
}

// adopted is what the pool is to adopt of a container that an earlier process left.
func (cs *claims) adopted(ad adopted) container.Adopted {
	a := container.Adopted{
		Key: ad.key, Kind: ad.state.Kind, MemoryMB: ad.state.MemoryMB, Concurrency: max(ad.state.Concurrency, 1),
		Paused: ad.left.Paused, Idle: max(time.Since(ad.state.Since), 0),
	}
	if cs.owner == nil || ad.state.Claim == "" {
		return a
	}
	id, ok := cs.owner.Adopted(ad.state.Claim)
	if !ok {
		return a
	}
	c := &claim{ctr: ad.ctr, runKey: ad.key, warm: true}
	c.ID, c.Memo, c.MemoryMB = id, ad.state.Claim, ad.state.MemoryMB
	ad.ctr.claim, ad.ctr.memo, cs.all[id] = c, c.Memo, c
	a.Key, a.Kept, a.Concurrency = id.key(), true, a.Concurrency+1
	return a
}

// handOver gives back the containers in which nothing runs, so that the next process
// can adopt them.
func (cs *claims) handOver(now time.Duration) {
	for _, c := range cs.all {
		if c.ctr != nil && c.holds && !c.acquiring && c.active == 0 && c.warm {
			c.holds = false
			cs.d.pool.Done(now, c.ctr.slot, true)
		}
	}
}
