package pull

import (
	"errors"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
	"github.com/gpuwhisk/gpuwhisk/invoker/pull/slot"
)

// ErrUnreadable is what Schedulers returns for an answer that may have been an
// activation and cannot be read: nothing has it any more.
var ErrUnreadable = errors.New("answer of a scheduler cannot be read")

const (
	// emptyPause is the least time between two fetches that bring nothing: a scheduler
	// that answers so at once, as it does of an idle queue, is not asked all the time.
	emptyPause = 200 * time.Millisecond
	// leaderPause is how long a scheduler is left alone that is the leader still and has
	// no queue.
	leaderPause = time.Second
)

// fetch asks once for an activation, and gives it on.
func (p *Puller) fetch(o slot.Order, r Request) {
	event := p.table.Empty
	began := time.Now()
	defer r.Sent() // it will not be sent any more
	if p.ready(o.Slot) {
		answer, err := p.ports.Schedulers.Fetch(p.life, r)
		switch {
		case err != nil:
			p.log.Debug("fetch", "action", r.Queue.Action.FQN(), "error", err)
			if errors.Is(err, ErrUnreadable) {
				p.log.Error("an activation that a scheduler handed out cannot be read and is lost", "action", r.Queue.Action.FQN(), "error", err)
				break
			}
			event = p.table.Moved
		case answer.Kind == activation.Fetched:
			p.pull(o, answer)
			return
		case answer.Kind == activation.NoQueue:
			event = p.table.Moved
		case answer.Kind == activation.ActionMismatch:
			event = p.table.Mismatched
		default:
			retry.Sleep(p.life, emptyPause-time.Since(began))
		}
	}
	p.do(func(now time.Duration) {
		p.out--
		event(now, o.Slot)
	})
}

// ready waits until the journal can keep what comes. It reports whether the slot is
// to fetch then: it may have been ended meanwhile, or all fetching.
func (p *Puller) ready(id slot.ID) bool {
	if p.ports.Journal.Full() {
		p.setFull(true)
	}
	if p.ports.Journal.Ready(p.fetching) != nil {
		return false
	}
	p.setFull(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Fetches(id)
}

// setFull is called with whether the journal keeps nothing more.
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

// pull keeps an activation in the journal, and delivers it.
func (p *Puller) pull(o slot.Order, answer activation.FetchAnswer) {
	m := answer.Message
	d := invoker.Delivery{Message: m, Done: func() {}, Kind: o.Creation.Kind}
	if !o.Creation.GPU {
		d.Claim = invoker.Claim(o.Slot)
	}
	p.awaitReturn(m.ActivationID)
	use := p.ports.Journal.Keep(&d, answer.JSON())
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
		if _, again := p.pulled[m.ActivationID]; again || !use {
			use = false
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
	p.do(func(time.Duration) { p.out-- })
}

// find waits until a slot's queue has another scheduler, or the same one again.
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
