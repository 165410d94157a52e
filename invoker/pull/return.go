package pull

import (
	"context"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/pull/slot"
)

// origin is where an activation was pulled from.
type origin struct {
	slot  slot.ID
	queue activation.Queue
	at    activation.Endpoint
}

// Return gives an activation back: to the scheduler that it came from or, where that
// does not have its queue, to the one that has it by now (invoker.Returner).
//
// In the journal it counts as begun while a scheduler may have it, and is forgotten
// when one has. So a process that ends at any point leaves an activation that is run
// once, by the next process or by the scheduler's next invoker, or that is answered
// with an error: never one that nobody has, and none that runs twice.
//
// A fetch that is still out may bring the same activation again: it waits until Ended
// was called for the one that was given back, whose end would be taken for its own.
func (p *Puller) Return(ctx context.Context, m *activation.Message) (taken bool, err error) {
	from := origin{queue: activation.NewQueue(m.User.Namespace.Name, m.Action, m.Revision)}
	p.mu.Lock()
	if known, ok := p.pulled[m.ActivationID]; ok {
		from = known
	}
	p.returning[m.ActivationID] = make(chan struct{})
	p.mu.Unlock()
	defer func() {
		if !taken {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.endReturn(m.ActivationID)
		}
	}()
	if err := p.ports.Journal.BeginHandback(ctx, m.ActivationID); err != nil {
		p.log.Warn("activation is not given back", "activation", m.ActivationID, "error", err)
		return false, nil
	}
	leader, led, _ := p.ports.Registry.Leader(from.queue)
	for _, at := range []activation.Endpoint{from.at, leader} {
		if at == (activation.Endpoint{}) || at == leader && !led {
			continue
		}
		returned, err := p.ports.Schedulers.Return(ctx, at, from.queue, m.Encode())
		if err != nil {
			return false, err
		}
		if returned {
			p.returned(m.ActivationID)
			return true, nil
		}
		if at == leader {
			break
		}
	}
	p.ports.Journal.AbortHandback(m.ActivationID)
	return false, nil
}

// endReturn has a fetch go on that brought what was being given back. The caller holds
// the lock.
func (p *Puller) endReturn(id activation.ID) {
	if ended := p.returning[id]; ended != nil {
		close(ended)
		delete(p.returning, id)
	}
}

// awaitReturn waits while an activation is being given back.
func (p *Puller) awaitReturn(id activation.ID) {
	p.mu.Lock()
	ended := p.returning[id]
	p.mu.Unlock()
	if ended == nil {
		return
	}
	select {
	case <-ended:
	case <-p.life.Done(): // the journal has it as begun elsewhere
	}
}

func (p *Puller) returned(id activation.ID) {
	if err := p.ports.Journal.CommitHandback(id); err != nil {
		p.log.Error("an activation that was given back is still in the journal: the next process answers it", "activation", id, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Returned++
}

// Devices reports whether any GPU can be used. Without one, slots of GPU functions
// end, and creations are refused, so that another invoker gets them.
func (p *Puller) Devices(usable bool) {
	p.do(func(now time.Duration) {
		if p.noDevice = !usable; p.noDevice {
			p.table.RetireGPU(now)
		}
	})
}
