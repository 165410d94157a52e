package pull

import (
	"context"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull/slot"
)

// origin is the scheduler and the queue from which an activation was pulled.
type origin struct {
	slot      slot.ID
	queue     activation.Queue
	scheduler activation.Endpoint
}

// Return returns an activation to the scheduler from which it came or, if that scheduler
// does not have the queue, to the queue's leader (invoker.Events).
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
	leader, led, _ := p.ports.Registry.Leader(from.queue)
	for _, at := range []activation.Endpoint{from.scheduler, leader} {
		if at == (activation.Endpoint{}) || at == leader && !led {
			continue
		}
		returned, err := p.ports.Schedulers.Reschedule(ctx, at, from.queue, m.Encode())
		if err != nil {
			return false, err
		}
		if returned {
			p.returned()
			return true, nil
		}
		if at == leader {
			break
		}
	}
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

func (p *Puller) returned() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Returned++
}
