package pull

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull/slot"
)

// readOrders handles the orders of schedulers until ctx ends.
func (p *Puller) readOrders(ctx context.Context) {
	for {
		m, err := p.ports.Orders.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				p.log.Error("orders ended", "error", err)
			}
			return
		}
		p.take(m)
	}
}

// take handles one order. Its content must not be logged, because parameters can be
// secret.
func (p *Puller) take(m Message) {
	create, remove, err := activation.DecodeContainerMessage(m.Value)
	switch {
	case err != nil:
		p.count("undecodable")
		p.log.Warn("order of a scheduler is not understood and is skipped", "bytes", len(m.Value))
	case remove != nil:
		p.do(func(now time.Duration) { p.table.Retire(now, remove) })
	case create.WarmUp():
	default:
		p.create(m, create)
		return
	}
	m.Done()
}

// age returns the age of a message. The clocks of two machines may differ by more than
// the time of a job. A message that was not in the topic a moment ago is therefore never
// older than that moment.
func (m Message) age() time.Duration {
	age := time.Since(m.Sent)
	if !m.After.IsZero() {
		age = min(age, time.Since(m.After))
	}
	return age
}

func (p *Puller) count(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Creations[what]++
}

// create checks a creation by its metadata and its namespace's limits.
func (p *Puller) create(m Message, c *activation.ContainerCreation) {
	creation := slot.Creation{ContainerCreation: c}
	a, err := c.MetaData.Decode(p.cfg.Manifest)
	limit := p.cfg.JobTime
	if err == nil && a.Exec.Pull {
		limit *= time.Duration(max(p.cfg.BlackboxMultiple, 1))
	}
	if age := m.age(); age > limit {
		p.count("stale")
		p.log.Warn("creation is dropped: its scheduler has given it up", "creation", c.ID, "action", c.Queue.Action.FQN(), "age", age)
		m.Done()
		return
	}
	p.mu.Lock()
	p.done[c.ID] = append(p.done[c.ID], m.Done)
	p.mu.Unlock()
	if err != nil {
		p.log.Warn("creation of an action that cannot run here", "creation", c.ID, "action", c.Queue.Action.FQN(), "error", err)
		why := activation.CreationFailed
		if errors.Is(err, activation.ErrNotExecutable) {
			why = activation.NonExecutable
		}
		p.refuse(creation, why, "The action cannot be run by this invoker.")
		return
	}
	creation.Kind, creation.MemoryMB, creation.Concurrency = a.Exec.Kind, a.Limits.MemoryMB, max(a.Limits.Concurrency, 1)
	wish, err := a.Annotations.GPU()
	creation.GPU = wish != nil || err != nil // each activation is answered with the error
	if creation.GPU && !p.hasGPU() {
		p.refuse(creation, activation.ResourceNotEnough, "The action asks for a GPU (annotation gpu), but this invoker has none that can be used.")
		return
	}
	if reason := p.refusedImage(a.Exec); reason != "" {
		p.refuse(creation, activation.InvalidActionLimit, reason)
		return
	}
	p.withLimits(c.Queue.Namespace, func(user activation.UserLimits) {
		if err := p.cfg.Bounds.For(p.cfg.Defaults, user).Check(a.Limits); err != nil {
			p.refuse(creation, activation.InvalidActionLimit, err.Error())
			return
		}
		p.open(creation)
	})
}

// open passes a checked creation to the table.
func (p *Puller) open(creation slot.Creation) {
	p.do(func(now time.Duration) {
		if p.full {
			p.carryOut(slot.Order{Do: slot.Ack, Creation: creation, Error: activation.ResourceNotEnough, Reason: reasonFull})
			return
		}
		p.table.Create(now, creation)
	})
}

// reasonFull is the reason of refused creations while fetching has stopped.
const reasonFull = "The invoker has as many activations as its journal can keep (whisk.gpu.journal-size)."

func (p *Puller) hasGPU() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cfg.GPUs > 0 && !p.noDevice
}

func (p *Puller) refuse(c slot.Creation, why activation.CreationError, reason string) {
	p.do(func(time.Duration) {
		p.carryOut(slot.Order{Do: slot.Ack, Creation: c, Error: why, Reason: reason})
	})
}

// carryOut carries out one order of the table without blocking. The caller must hold the
// lock.
func (p *Puller) carryOut(o slot.Order) {
	pin := invoker.Pin(o.Slot)
	switch o.Do {
	case slot.Acquire:
		p.acquire(o)
	case slot.Pause:
		p.containers.PausePin(pin)
	case slot.Remove:
		p.containers.Unpin(pin)
	case slot.Put, slot.Delete:
		p.change(o)
	case slot.Fetch:
		p.outstanding++
		left := make(chan struct{})
		p.leaving[o.Slot] = left
		r := activation.FetchRequest{
			Queue: o.Creation.Queue, Container: p.name(o.Slot), Warmed: o.Warmed, Sent: sync.OnceFunc(func() { close(left) }),
		}
		if o.Ended {
			r.LastDuration = &o.Last
		}
		p.calls.Go(func() { p.fetch(o, r) })
	case slot.Leave:
		container := p.name(o.Slot)
		p.calls.Go(func() {
			if _, err := p.ports.Schedulers.Leave(p.life, o.Creation.Endpoint, o.Creation.Queue, container); err != nil {
				p.log.Debug("report to a scheduler that a container is gone", "error", err)
			}
		})
	case slot.Find:
		p.calls.Go(func() { p.find(o) })
	case slot.Count:
		p.calls.Go(func() { p.countKeys(o) })
	case slot.Ack:
		p.ack(o)
	}
}

// acquire asks the invoker to create or resume the container of a slot.
func (p *Puller) acquire(o slot.Order) {
	a, err := o.Creation.MetaData.Decode(p.cfg.Manifest)
	if err != nil { // cannot happen: the document was decoded before
		p.table.Refused(time.Since(p.began), o.Slot, activation.CreationFailed, err.Error())
		return
	}
	p.containers.Pin(invoker.PinRequest{
		ID: invoker.Pin(o.Slot), Namespace: o.Creation.Queue.Namespace, Action: a.Name, Exec: a.Exec,
		MemoryMB: o.Creation.MemoryMB, Concurrency: o.Creation.Concurrency, Memo: memo(o.Creation.ContainerCreation),
	})
}

// memo returns the description of a slot for the next process, without secrets.
func memo(c *activation.ContainerCreation) string {
	known := *c
	known.MetaData = activation.ActionMetaData{}
	return string(known.Encode())
}

// ack answers a creation.
func (p *Puller) ack(o slot.Order) {
	what := Opened
	if o.Error != activation.NoCreationError {
		what = string(o.Error)
		level := slog.LevelInfo
		if o.Error == activation.ResourceNotEnough { // usual: schedulers spread the work over hosts this way
			level = slog.LevelDebug
		}
		p.log.Log(p.life, level, "creation is refused", "creation", o.Creation.ID, "action", o.Creation.Queue.Action.FQN(), "error", o.Error, "reason", o.Reason)
	}
	switch o.Error {
	case activation.ResourceNotEnough:
		p.poke()
	case activation.BlackboxFailed:
		p.imageFailed(o)
	}
	p.stats.Creations[what]++
	done := p.done[o.Creation.ID]
	delete(p.done, o.Creation.ID)
	sent := func() {
		for _, f := range done {
			f()
		}
	}
	left := p.leaving[o.Slot]
	ack := activation.ContainerCreationAck{Creation: o.Creation.ContainerCreation, Instance: p.cfg.Instance, Error: o.Error, Reason: o.Reason}
	p.calls.Go(func() {
		await(left) // otherwise the scheduler might order one more container
		if err := p.ports.Acks.Send(p.life, ack, sent); err != nil {
			p.log.Warn("creation ack not sent", "creation", ack.Creation.ID, "error", err)
		}
	})
}

// await blocks until a slot's last fetch has been sent. It returns at once for nil.
func await(left chan struct{}) {
	if left != nil {
		<-left
	}
}

// Notify receives the events of the invoker (invoker.Events).
func (p *Puller) Notify(e invoker.Event) {
	var why activation.CreationError
	var reason string
	if e, ok := e.(invoker.PinRefused); ok {
		why, reason = refusal(e.Err)
	}
	p.do(func(now time.Duration) {
		switch e := e.(type) {
		case invoker.PinReady:
			p.table.Acquired(now, slot.ID(e.ID), e.Warm)
		case invoker.PinRefused:
			p.table.Refused(now, slot.ID(e.ID), why, reason)
		case invoker.PinPaused:
			p.table.Paused(now, slot.ID(e.ID), e.OK)
		case invoker.PinLost:
			p.table.Lost(now, slot.ID(e.ID))
		case invoker.WarmState:
			p.table.SetWarm(now, queueOf(e), e.Warm, e.Resident)
		case invoker.Outcome:
			p.ended(now, e)
		case invoker.DevicesUsable:
			if p.noDevice = !bool(e); p.noDevice { // another invoker gets the GPU functions
				p.table.RetireGPU(now)
			}
		}
	})
}

// queueOf returns the queue of a revision of a GPU function.
func queueOf(w invoker.WarmState) activation.Queue {
	i := strings.LastIndexByte(w.Function, '/')
	return activation.NewQueue(w.Namespace, activation.ActionRef{Path: w.Function[:max(i, 0)], Name: w.Function[i+1:]}, w.Revision)
}

// ended handles the end of an activation. The caller must hold the lock.
func (p *Puller) ended(now time.Duration, e invoker.Outcome) {
	p.endReturn(e.ID)
	if from, ok := p.pulled[e.ID]; ok {
		delete(p.pulled, e.ID)
		p.table.Ended(now, from.slot, e.Took, e.Keeps, e.Ran)
	}
}

// AdoptPin creates the slot of a container that an earlier process left.
func (p *Puller) AdoptPin(memo string) (id invoker.Pin, ok bool) {
	c, _, err := activation.DecodeContainerMessage([]byte(memo))
	if err != nil || c == nil {
		return 0, false
	}
	p.do(func(now time.Duration) {
		id = invoker.Pin(p.table.Adopt(now, slot.Creation{ContainerCreation: c, Concurrency: 1}))
	})
	return id, true
}

// change is the put or the deletion of a key.
type change struct {
	o   slot.Order
	key string
}

// change puts or deletes a key after the earlier changes of that key.
func (p *Puller) change(o slot.Order) {
	q, i := o.Creation.Queue, p.cfg.Instance
	key := p.cfg.Cluster.Existing(q, i, p.name(o.Slot))
	if o.Key == slot.Warmed {
		key = p.cfg.Cluster.Warmed(q, i, p.name(o.Slot))
	}
	under := len(p.keys[key]) > 0
	p.keys[key] = append(p.keys[key], change{o, key})
	if !under {
		p.calls.Go(func() { p.changeKeys(key) })
	}
}

// changeKeys carries out the changes of one key in their order.
func (p *Puller) changeKeys(key string) {
	for {
		p.mu.Lock()
		o := p.keys[key][0].o
		left := p.leaving[o.Slot]
		p.mu.Unlock()
		if o.Key == slot.Warmed { // the container was resumed and is fetching
			await(left)
		}
		do := p.ports.Registry.Put
		if o.Do == slot.Delete {
			do = p.ports.Registry.Delete
		}
		if err := do(p.life, key); err != nil {
			if p.life.Err() == nil {
				p.log.Error("change a key in etcd", "key", key, "error", err)
			}
			return
		}
		more := false
		p.do(func(now time.Duration) {
			if o.Do == slot.Put {
				p.table.Stored(now, o.Slot, o.Key)
			} else {
				p.table.Deleted(now, o.Slot, o.Key)
			}
			// The table's next orders for the key are appended to the list.
			p.keys[key] = p.keys[key][1:]
			if more = len(p.keys[key]) > 0; !more {
				delete(p.keys, key)
			}
		})
		if !more {
			return
		}
	}
}

// countKeys counts the containers' keys of the function of a paused slot, or of a waiting
// creation.
func (p *Puller) countKeys(o slot.Order) {
	q, k := o.Creation.Queue, p.cfg.Cluster
	ctx, cancel := context.WithTimeout(p.life, countTime)
	defer cancel()
	if o.Slot == 0 {
		n, err := p.ports.Registry.Count(ctx, k.ExistingOf(q))
		p.do(func(now time.Duration) { p.table.CountedOpen(now, o.Creation.ID, int(n), err == nil) })
		return
	}
	n, err := p.ports.Registry.Count(ctx, k.ExistingOf(q), k.InProgressOf(q), k.WarmedOf(q))
	p.do(func(now time.Duration) { p.table.Counted(now, o.Slot, int(n), err == nil) })
}

// countTime limits the count, as in the original.
const countTime = 3 * time.Second

// refusal returns the error and the reason in the ack of a refused creation.
func refusal(err error) (why activation.CreationError, reason string) {
	var failed *container.CreateError
	switch {
	case errors.Is(err, invoker.ErrNoMemory):
		return activation.ResourceNotEnough, fmt.Sprintf("The invoker does not have enough resource for the container: %s.", err)
	case errors.As(err, &failed) && failed.Blame == container.BlameDeveloper:
		return activation.BlackboxFailed, failed.Message
	}
	return activation.CreationFailed, "Failed to provision resources to run the action."
}
