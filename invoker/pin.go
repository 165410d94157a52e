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

// Pin names a container of the CPU path that is reserved for its owner. A pinned
// container is neither paused nor evicted, and runs only activations whose Delivery names
// the pin. The owner chooses the name and never uses it again.
type Pin uint64

// Events receives everything that the source of the activations must know in scheduler
// mode (*pull.Puller).
type Events interface {
	// Notify receives an event. It must not block.
	Notify(e Event)
	// AdoptPin returns the pin of a paused container that an earlier process left. memo is
	// the Memo of the container's PinRequest. It is called before Run calls ready.
	AdoptPin(memo string) (id Pin, ok bool)
	// Return gives an activation that has not started back to its queue, so that another
	// invoker runs it. It returns true if the queue has the activation, and false if the
	// activation still belongs to this invoker. After an error it is unknown who has the
	// activation. Return may block.
	Return(ctx context.Context, m *activation.Message) (bool, error)
}

// Event is one of PinReady, PinRefused, PinPaused, PinLost, Outcome, WarmState and
// DevicesUsable.
type Event interface{ event() }

type (
	// PinReady answers Pin. Warm means that the container is initialised.
	PinReady struct {
		ID   Pin
		Warm bool
	}
	// PinRefused answers Pin with the reason why there is no container.
	PinRefused struct {
		ID  Pin
		Err error
	}
	// PinPaused answers PausePin. A container that could not be paused is removed.
	PinPaused struct {
		ID Pin
		OK bool
	}
	// PinLost reports that a pinned container is gone or will be removed: it died, an
	// activation failed in it, or it was paused and its memory was needed. It is the last
	// event of the pin.
	PinLost struct{ ID Pin }
	// DevicesUsable reports whether any GPU can be used. While there is none, no activation
	// that requests a GPU should be sent.
	DevicesUsable bool
)

func (PinReady) event()      {}
func (PinRefused) event()    {}
func (PinPaused) event()     {}
func (PinLost) event()       {}
func (DevicesUsable) event() {}
func (Outcome) event()       {}
func (WarmState) event()     {}

// PinRequest describes the container of a pin.
type PinRequest struct {
	ID          Pin
	Namespace   string // of the caller. Namespace and Action name the container
	Action      string
	Exec        activation.Exec
	MemoryMB    int
	Concurrency int
	Memo        string // for the process that adopts the container
}

// ErrNoMemory refuses a pin because there is not enough memory, even if all idle
// containers were removed.
var ErrNoMemory = errors.New("not enough memory")

// Pin creates a container for a pin, or resumes the paused one.
func (iv *Invoker) Pin(r PinRequest) { iv.dispatch.post(pinContainer{r}) }

// PausePin pauses the container of a pin. The caller must know that nothing runs in it.
// Afterwards the container can be pinned again, or evicted.
func (iv *Invoker) PausePin(id Pin) { iv.dispatch.post(pausePin{id}) }

// Unpin removes the container of a pin as soon as nothing runs in it.
func (iv *Invoker) Unpin(id Pin) { iv.dispatch.post(unpin{id}) }

// ReservedMB returns the memory of GPU containers that cannot be evicted. Pins cannot have
// it.
func (iv *Invoker) ReservedMB() int64 { return iv.dispatch.reserved.Load() }

// pin is a container that is reserved for an owner.
type pin struct {
	PinRequest
	ctr     *actionContainer // nil: no container yet
	opening bool             // the container is being created or resumed
	pausing bool
	runKey  string // the key of the activations that may run in the container; "" before the first
	warm    bool   // the container is initialised
}

// pins are the dispatcher's pins. If events is nil there are none.
type pins struct {
	d       *dispatcher
	events  Events
	health  *engineHealth
	byPin   map[Pin]*pin
	waiting map[uint64]*pin // pins that wait for a slot, by their number in the pool
}

func newPins(d *dispatcher, events Events, health *engineHealth) *pins {
	return &pins{d: d, events: events, health: health, byPin: map[Pin]*pin{}, waiting: map[uint64]*pin{}}
}

// key returns the pool's key of the container, which no other container has.
func (id Pin) key() string { return "pin " + strconv.FormatUint(uint64(id), 10) }

// held reports whether the pool counts the pin's container as pinned.
func (p *pin) held(d *dispatcher) bool { return p.ctr != nil && d.pool.Pinned(p.ctr.slot) }

// pinContainer, pausePin and unpin are the owner's requests.
type (
	pinContainer struct{ PinRequest }
	pausePin     struct{ id Pin }
	unpin        struct{ id Pin }
)

func (e pinContainer) apply(d *dispatcher, now time.Duration) {
	p := d.pins.byPin[e.ID]
	if p == nil {
		p = &pin{}
		d.pins.byPin[e.ID] = p
		p.PinRequest = e.PinRequest
		d.pins.open(now, p)
		return
	}
	p.PinRequest, p.opening = e.PinRequest, true
	d.pins.enqueue(now, p)
}

// open requests a new container for a pin, if there can be memory for it.
func (ps *pins) open(now time.Duration, p *pin) {
	if !ps.d.pool.Fits(p.MemoryMB, ps.d.gpus.spare()) {
		ps.refuse(p, ErrNoMemory)
		return
	}
	p.opening = true
	ps.enqueue(now, p)
}

func (ps *pins) refuse(p *pin, err error) {
	delete(ps.byPin, p.ID)
	ps.events.Notify(PinRefused{p.ID, err})
}

func (ps *pins) enqueue(now time.Duration, p *pin) {
	ps.d.next++
	ps.waiting[ps.d.next] = p
	ps.d.pool.Enqueue(now, container.Demand{
		Invocation: ps.d.next, Key: p.ID.key(), Kind: p.Exec.Kind, MemoryMB: p.MemoryMB, Concurrency: p.Concurrency,
		Prewarm: prewarmable(p.Exec), Pin: true,
	})
}

// start gives a pin the slot that the pool has chosen.
func (ps *pins) start(p *pin, placement container.Placement) {
	delete(ps.waiting, placement.Invocation)
	d := ps.d
	ctr := d.containers[placement.Slot]
	if ctr == nil {
		ctr = d.newContainer(placement.Slot, p.Namespace, p.Action, d.settings.spec(p.Exec, p.MemoryMB))
	}
	if p.ctr != ctr { // a new container, not the one that was paused
		p.runKey, p.warm, ctr.memo = "", false, p.Memo
	}
	p.ctr, ctr.pin = ctr, p
	cold := placement.Start == container.Cold
	d.goWork(func(ctx context.Context) {
		d.post(pinOpened{p, ctr, cold, ps.createOrResume(ctx, ctr, p.Concurrency, cold, placement.Resume)})
	})
}

func (ps *pins) createOrResume(ctx context.Context, ctr *actionContainer, concurrency int, cold, resume bool) error {
	d := ps.d
	switch {
	case cold:
		err := d.open(ctx, ctr, concurrency)
		if ps.health.explains(err) && ctx.Err() == nil {
			ps.health.lost(err, &ctr.spec)
		}
		return err
	case resume:
		if err := d.engine.Resume(ctx, ctr.handle.ID); err != nil {
			return fmt.Errorf("%w: resume: %w", errAgain, err)
		}
	}
	return nil
}

// pinOpened reports that the container of a pin is created or resumed, or the error.
type pinOpened struct {
	p    *pin
	ctr  *actionContainer
	cold bool
	err  error
}

func (e pinOpened) apply(d *dispatcher, now time.Duration) {
	p := e.p
	if p.ctr != e.ctr { // the container was lost meanwhile
		d.pins.reopen(now, p)
		return
	}
	if e.err == nil {
		if e.cold {
			d.watch(now, e.ctr)
		}
		if p.ctr == nil { // the container died at once
			d.pins.reopen(now, p)
			return
		}
		p.opening = false
		d.pool.Warmed(now, e.ctr.slot)
		d.pins.events.Notify(PinReady{p.ID, p.warm})
		return
	}
	p.ctr, e.ctr.pin = nil, nil
	d.pool.Unpin(now, e.ctr.slot, false)
	if errors.Is(e.err, errAgain) {
		d.pins.reopen(now, p)
		return
	}
	d.log.Warn("create container", keyContainer, e.ctr.name, keyAction, p.Action, "error", e.err)
	d.pins.refuse(p, e.err)
}

// reopen requests another container for a pin whose container was lost before it could be
// used. It is a no-op if the pin has been removed.
func (ps *pins) reopen(now time.Duration, p *pin) {
	if ps.byPin[p.ID] == p {
		ps.open(now, p)
	}
}

func (e pausePin) apply(d *dispatcher, now time.Duration) {
	p := d.pins.byPin[e.id]
	if p == nil || !p.held(d) { // its loss has been reported
		return
	}
	p.pausing = true
	d.pool.Unpin(now, p.ctr.slot, true)
	if !d.pool.PauseNow(p.ctr.slot) { // an activation runs in it
		d.pins.lose(now, p.ctr)
	}
}

func (e unpin) apply(d *dispatcher, now time.Duration) {
	p := d.pins.byPin[e.id]
	if p == nil || p.ctr == nil {
		return
	}
	delete(d.pins.byPin, e.id)
	d.pins.drop(now, p)
}

// drop removes the container of a pin as soon as nothing runs in it.
func (ps *pins) drop(now time.Duration, p *pin) {
	ctr := p.ctr
	p.ctr, ctr.pin = nil, nil
	ps.d.pool.Unpin(now, ctr.slot, false)
}

// paused handles the result of a pause.
func (ps *pins) paused(now time.Duration, ctr *actionContainer, ok bool) {
	if ctr == nil || ctr.pin == nil || !ctr.pin.pausing {
		return
	}
	if !ok {
		ps.lose(now, ctr)
		return
	}
	ctr.pin.pausing = false
	ps.events.Notify(PinPaused{ctr.pin.ID, true})
}

// lose takes a container that is gone or being removed from its pin.
func (ps *pins) lose(now time.Duration, ctr *actionContainer) {
	if ctr == nil || ctr.pin == nil {
		return
	}
	p := ctr.pin
	if p.ctr != ctr {
		ctr.pin = nil
		return
	}
	pausing := p.pausing
	p.pausing = false
	ps.drop(now, p)
	if p.opening { // pinOpened follows and requests another container
		return
	}
	delete(ps.byPin, p.ID)
	if pausing {
		ps.events.Notify(PinPaused{p.ID, false})
		return
	}
	ps.events.Notify(PinLost{p.ID})
}

// demand returns the demand of an activation on the pool: the container of its pin if that
// container is suitable, or any other container. A container that was initialised for
// another caller is not suitable.
func (ps *pins) demand(a *pending) container.Demand {
	demand := container.Demand{
		Invocation: a.invocation, Key: a.key, Kind: a.action.Exec.Kind,
		MemoryMB: a.action.Limits.MemoryMB, Concurrency: a.concurrency, Prewarm: prewarmable(a.action.Exec),
	}
	p := ps.byPin[a.Pin]
	if p == nil || p.opening || !p.held(ps.d) {
		return demand
	}
	suitable := p.runKey == "" || p.warm && p.runKey == a.key
	if !suitable || demand.MemoryMB != p.MemoryMB || a.action.Exec.Image != p.Exec.Image {
		return demand
	}
	p.runKey = a.key
	demand.Key = p.ID.key()
	return demand
}

// adopted returns the form in which the pool adopts a container of an earlier process.
func (ps *pins) adopted(ad adopted) container.Adopted {
	a := container.Adopted{
		Key: ad.key, Kind: ad.state.Kind, MemoryMB: ad.state.MemoryMB, Concurrency: max(ad.state.Concurrency, 1),
		Paused: ad.leftover.Paused, Idle: max(time.Since(ad.state.Since), 0),
	}
	if ps.events == nil || ad.state.Pin == "" {
		return a
	}
	id, ok := ps.events.AdoptPin(ad.state.Pin)
	if !ok {
		return a
	}
	p := &pin{ctr: ad.ctr, runKey: ad.key, warm: true}
	p.ID, p.Memo, p.MemoryMB = id, ad.state.Pin, ad.state.MemoryMB
	ad.ctr.pin, ad.ctr.memo, ps.byPin[id] = p, p.Memo, p
	a.Key, a.Kept = id.key(), true
	return a
}

// handOver unpins all initialised containers, so that the next process can adopt those in
// which nothing runs.
func (ps *pins) handOver(now time.Duration) {
	for _, p := range ps.byPin {
		if p.warm && !p.opening && p.held(ps.d) {
			ps.d.pool.Unpin(now, p.ctr.slot, true)
		}
	}
}
