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
func (p *Puller) Return(ctx context.Context, m *activation.Message) (bool, error) {
	from := origin{queue: activation.NewQueue(m.User.Namespace.Name, m.Action, m.Revision)}
	p.mu.Lock()
	if known := p.pulled[m.ActivationID]; len(known) > 0 {
		from = known[0]
	}
	p.mu.Unlock()
	if err := p.ports.Journal.Offer(ctx, m.ActivationID); err != nil {
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
	p.ports.Journal.Withdraw(m.ActivationID)
	return false, nil
}

func (p *Puller) returned(id activation.ID) {
	if err := p.ports.Journal.Forget(id); err != nil {
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
