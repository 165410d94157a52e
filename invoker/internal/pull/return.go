package pull

import (
	"context"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull/slot"
)

// origin is the scheduler and the queue from which an activation was pulled.
type origin struct {
	slot  slot.ID
	queue activation.Queue
	at    activation.Endpoint
}

// Return returns an activation to the scheduler from which it came or, if that scheduler
// does not have the queue, to the queue's leader (invoker.Events).
//
// While a scheduler may have the activation, the journal counts it as begun. Once a
// scheduler has it, the journal forgets it. If the process ends at any point, the
// activation is therefore run once, by the next process or by another invoker, or it is
// answered with an error. It is never lost and never run twice.
//
// An open fetch may bring the same activation again. That fetch waits for the
// Outcome of the returned activation, which would otherwise be taken for its own.
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

// endReturn releases a fetch that brought an activation while it was being returned. The
// caller must hold the lock.
func (p *Puller) endReturn(id activation.ID) {
	if ended := p.returning[id]; ended != nil {
		close(ended)
		delete(p.returning, id)
	}
}

// awaitReturn blocks while an activation is being returned.
func (p *Puller) awaitReturn(id activation.ID) {
	p.mu.Lock()
	ended := p.returning[id]
	p.mu.Unlock()
	if ended == nil {
		return
	}
	select {
	case <-ended:
	case <-p.life.Done(): // the journal counts the activation as begun elsewhere
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
