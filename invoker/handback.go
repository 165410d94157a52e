package invoker

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// textNotReturned answers an activation of which nobody knows who has it.
const textNotReturned = "The invoker gave the activation back to its scheduler, which did not answer."

// returns reports whether an activation is given back instead of being queued: the
// invoker drains, or it asks for a GPU and none can be used. One that was not
// taken back, or that an earlier process had begun, is run here.
func (d *dispatcher) returns(p *pending) bool {
	return d.events != nil && !p.NotJournaled && !p.keep && !p.Begun && (d.draining || p.gpu != nil && !d.gpus.usable())
}

// mayPassOn reports whether an activation that waits for a device is passed on to another
// invoker when all devices are lost.
func (d *dispatcher) mayPassOn(p *pending) bool {
	return d.passOn != nil && p.gpu != nil && !p.keep && !p.Begun && p.hops() < maxHops
}

// handBack gives back, or passes on, an activation that no core has.
func (d *dispatcher) handBack(p *pending) {
	switch {
	case d.closed: // it is delivered to the next process
		return
	case d.events == nil:
		d.goWork(func(context.Context) { d.passOn(p) })
		return
	case !p.take(startPass):
		return
	}
	d.goWork(func(ctx context.Context) {
		returned, err := d.events.Return(ctx, p.Message)
		if !returned {
			p.take(failPass)
			if ctx.Err() == nil {
				d.post(notReturned{p, err})
			}
			return
		}
		p.take(endPass)
		d.log.Info("activation that had not started is given back", keyActivation, p.ActivationID, keyAction, p.Action.FQN())
		d.completer.endedElsewhere(p)
	})
}

// notReturned reports that an activation is not given back or passed on: it runs here, or
// with an error nobody knows whether it runs elsewhere.
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

// handBackQueued gives back what waits for a container.
func (d *dispatcher) handBackQueued() {
	for _, invocation := range slices.Sorted(maps.Keys(d.queued)) {
		if p := d.queued[invocation]; d.returns(p) && d.pool.Cancel(invocation) {
			delete(d.queued, invocation)
			d.handBack(p)
		}
	}
}

// devicesChanged reports whether there is a device, and gives back what waits for one.
func (d *dispatcher) devicesChanged(now time.Duration) {
	if d.events != nil {
		d.events.Notify(DevicesUsable(d.gpus.usable()))
	}
	d.handBackGPU(now)
}

// handBackGPU gives back what waits for a device.
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

// leavePaused leaves activations to the next process whose function pauses after failures
// until the stop's deadline or longer. The stop does not wait for them.
func (d *dispatcher) leavePaused(now time.Duration) {
	g, n := d.gpus, 0
	for _, invocation := range slices.Sorted(maps.Keys(g.waiting)) {
		p := g.waiting[invocation]
		if why := g.core.Explain(flowOf(p)); p.withdrawn || why.Rule != sched.RuleBackoff || why.Until < d.deadline {
			continue
		}
		p.left = true
		g.take(now, scheduler.Event{Kind: scheduler.Withdrawn, Invocation: invocation})
		n++
	}
	if n > 0 {
		d.log.Info("activations of functions that pause after failures are left to the next process", "activations", n)
	}
}
