package pull

import (
	"errors"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull/slot"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

const (
	// emptyPause is the least time between two fetches without an activation, because a
	// scheduler answers at once for an idle queue.
	emptyPause = 200 * time.Millisecond
	// leaderPause is the pause before a scheduler is asked again that is still the leader
	// but does not have the queue.
	leaderPause = time.Second
)

// fetch asks once for an activation and passes it to pull.
func (p *Puller) fetch(o slot.Order, r activation.FetchRequest) {
	defer r.Sent() // in case the request is never sent
	miss := slot.Empty
	if p.ready(o.Slot) {
		began := time.Now()
		answer, err := p.ports.Schedulers.Fetch(p.life, o.Creation.Endpoint, r)
		if err == nil && answer.Kind == activation.Fetched {
			p.pull(o, answer)
			return
		}
		if err == nil && answer.Kind == activation.NoActivation {
			retry.Sleep(p.life, emptyPause-time.Since(began))
		}
		miss = p.miss(r, answer, err)
	}
	p.do(func(now time.Duration) {
		p.outstanding--
		p.table.Missed(now, o.Slot, miss)
	})
}

// miss returns the reason for which an answer has no activation, and logs errors.
func (p *Puller) miss(r activation.FetchRequest, answer activation.FetchAnswer, err error) slot.Miss {
	action := r.Queue.Action.FQN()
	switch {
	case errors.Is(err, activation.ErrUnreadable):
		p.log.Error("an activation that a scheduler handed out cannot be read and is lost", "action", action, "error", err)
		return slot.Empty
	case err != nil:
		p.log.Debug("fetch", "action", action, "error", err)
		return slot.QueueGone
	case answer.Kind == activation.NoQueue:
		return slot.QueueGone
	case answer.Kind == activation.ActionMismatch:
		return slot.Mismatched
	}
	return slot.Empty
}

// ready blocks until the journal has capacity for an activation. It returns false if the
// slot or all fetching has ended meanwhile.
func (p *Puller) ready(id slot.ID) bool {
	if j := p.ports.Journal; j != nil {
		if j.Full() {
			p.setFull(true)
		}
		if j.Space(p.fetching) != nil {
			return false
		}
		p.setFull(false)
	} else if p.fetching.Err() != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Fetches(id)
}

// setFull records whether the journal is full.
func (p *Puller) setFull(full bool) {
	p.mu.Lock()
	changed := p.full != full
	p.full = full
	p.mu.Unlock()
	switch {
	case !changed:
		return
	case full:
		p.log.Warn("nothing is fetched: the journal is full (whisk.gpu.journal-size)")
	default:
		p.log.Info("the journal has room again: activations are fetched")
	}
	p.poke()
}

// pull gives an activation to the invoker, which stores it first.
func (p *Puller) pull(o slot.Order, answer activation.FetchAnswer) {
	m := answer.Message
	d := invoker.Delivery{Message: m, Done: func() {}, Kind: o.Creation.Kind}
	if !o.Creation.GPU {
		d.Pin = invoker.Pin(o.Slot)
	}
	p.awaitReturn(m.ActivationID)
	use := p.containers.Fetched(&d, answer.JSON())
	age, keep := time.Duration(0), slot.Keep{}
	if at := m.TransID.StartMillis(); at > 0 {
		age = time.Since(time.UnixMilli(at))
	}
	if n := m.User.Limits.KeptContainers; n != nil {
		keep.Containers = *n
	}
	if d := m.User.Limits.KeptTime; d != nil {
		keep.Time = *d
	}
	p.do(func(now time.Duration) {
		p.stats.Pulled++
		p.table.Pulled(now, o.Slot, age, keep)
		if !use {
			p.table.Ended(now, o.Slot, 0, true, false)
			return
		}
		p.pulled[m.ActivationID] = origin{o.Slot, o.Creation.Queue, o.Creation.Endpoint}
	})
	if use {
		if err := p.ports.Deliver(p.life, d); err != nil {
			p.log.Warn("a pulled activation is left to the next process", "activation", m.ActivationID, "error", err)
		}
	}
	p.do(func(time.Duration) { p.outstanding-- })
}

// find blocks until a slot's queue has a leader again, another one or the same.
func (p *Puller) find(o slot.Order) {
	for asked := false; p.seeks(o.Slot); asked = true {
		at, ok, changed := p.ports.Registry.Leader(o.Creation.Queue)
		if ok && (asked || at != o.Creation.Endpoint) {
			p.do(func(now time.Duration) { p.table.Found(now, o.Slot, at) })
			return
		}
		pause := time.NewTimer(leaderPause)
		select {
		case <-changed:
		case <-pause.C:
		case <-p.life.Done():
		}
		pause.Stop()
		if p.life.Err() != nil {
			return
		}
	}
}

func (p *Puller) seeks(id slot.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Seeks(id)
}
