package invoker

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// textNotReturned answers an activation of which nobody knows who has it.
const textNotReturned = "The invoker gave the activation back to its scheduler, which did not answer."

// returns reports whether an activation is given back instead of being queued: the invoker
// drains, or the activation asks for a GPU and no GPU can be used. An activation that its
// queue did not take back, or that has begun to run, runs here.
func (d *dispatcher) returns(p *pending) bool {
	return d.events != nil && !p.NotJournaled && !p.keep && !p.tried() && (d.draining || p.gpu != nil && !d.gpus.usable())
}

// mayPassOn reports whether an activation that waits for a device is passed on to another
// invoker when all devices are lost.
func (d *dispatcher) mayPassOn(p *pending) bool {
	return d.passOn != nil && p.gpu != nil && !p.keep && !p.tried() && p.hops() < maxHops
}

// handBack gives back, or passes on, an activation that is in no queue. After the stop the
// next process gets the activation.
func (d *dispatcher) handBack(p *pending) {
	d.goWork(func(ctx context.Context) {
		defer d.completer.rescue(p)
		if d.events == nil {
			d.passOn(p)
		} else {
			d.giveBack(ctx, p)
		}
	})
}

// giveBack gives an activation back to its scheduler. It blocks until the scheduler answers.
func (d *dispatcher) giveBack(ctx context.Context, p *pending) {
	if !d.completer.pass(p) {
		d.post(notReturned{p: p})
		return
	}
	returned, err := d.events.Return(ctx, p.Message)
	if !returned {
		if err == nil {
			d.completer.take(p, delivery.Event{Kind: delivery.Refused})
		}
		if ctx.Err() == nil {
			d.post(notReturned{p, err})
		}
		return
	}
	d.log.Info("activation that had not started is given back", keyActivation, p.ActivationID, keyAction, p.Action.FQN())
	d.completer.take(p, delivery.Event{Kind: delivery.Passed})
}

// notReturned reports that an activation is not given back or passed on. It runs here. With
// an error nobody knows whether it runs elsewhere, and it is answered.
type notReturned struct {
	p   *pending
	err error
}

func (e notReturned) apply(d *dispatcher, now time.Duration) {
	p := e.p
	if e.err != nil {
		d.log.Error("whether a scheduler has an activation back is not known", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "error", e.err)
		d.refuse(p, refused(activation.StatusWhiskError, textNotReturned))
		return
	}
	p.keep = true
	arrived{p}.apply(d, now)
}

// handBackQueued gives back the activations that wait for a container.
func (d *dispatcher) handBackQueued() {
	for _, invocation := range slices.Sorted(maps.Keys(d.queued)) {
		if p := d.queued[invocation]; d.returns(p) && d.pool.Cancel(invocation) {
			delete(d.queued, invocation)
			d.handBack(p)
		}
	}
}

// devicesChanged reports whether there is a device, and gives activations back if not.
func (d *dispatcher) devicesChanged(now time.Duration) {
	if d.events != nil {
		d.events.Notify(DevicesUsable(d.gpus.usable()))
	}
	d.handBackGPU(now)
}

// handBackGPU gives back the activations that wait for a device.
func (d *dispatcher) handBackGPU(now time.Duration) {
	g := d.gpus
	for _, invocation := range slices.Sorted(maps.Keys(g.waiting)) {
		if p := g.waiting[invocation]; d.returns(p) || !d.draining && !g.usable() && d.mayPassOn(p) {
			p.withdrawn = true
			g.take(now, scheduler.Event{Kind: scheduler.Withdrawn, Invocation: invocation})
		}
	}
}

// draining begins the stop: activations that have not started go back to their
// scheduler, where there is one. All others are finished.
type draining struct{ begun chan struct{} }

func (e draining) apply(d *dispatcher, now time.Duration) {
	defer close(e.begun)
	d.draining, d.deadline = true, now+d.settings.Drain
	d.handBackQueued()
	if d.gpus != nil {
		d.handBackGPU(now)
		d.leavePaused(now)
	}
}

// leavePaused leaves activations to the next process if their function pauses after failures
// until the stop's deadline or longer. The stop does not wait for these activations.
func (d *dispatcher) leavePaused(now time.Duration) {
	g, n := d.gpus, 0
	for _, invocation := range slices.Sorted(maps.Keys(g.waiting)) {
		p := g.waiting[invocation]
		if why := g.core.Explain(flowOf(p)); p.withdrawn || why.Rule != sched.RuleBackoff || why.Until < d.deadline {
			continue
		}
		p.leftBehind = true
		g.take(now, scheduler.Event{Kind: scheduler.Withdrawn, Invocation: invocation})
		n++
	}
	if n > 0 {
		d.log.Info("activations of functions that pause after failures are left to the next process", "activations", n)
	}
}
