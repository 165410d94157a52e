package hostsim

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull/slot"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// emptyPause is the minimum time between two fetches without a result.
const emptyPause = 200 * time.Millisecond

// idleTimeout is the default of whisk.container-proxy.timeouts.idle-container.
const idleTimeout = 10 * time.Minute

// host is one simulated invoker.
type host struct {
	s      *simulation
	n      int
	table  *slot.Table
	server *sim.Server
	slots  map[int]slot.ID // slots of pulled activations
	pulled []int           // not submitted yet
	warm   map[int][2]bool // last report, by function
	idle   time.Duration   // time in which a run could have started
}

func newHost(s *simulation, n int) (*host, error) {
	server, err := sim.NewServer(s.cfg.Workload, s.cfg.Server)
	return &host{
		s: s, n: n, server: server, slots: map[int]slot.ID{}, warm: map[int][2]bool{},
		table: slot.New(slot.Config{PauseGrace: s.cfg.PauseGrace, IdleTimeout: idleTimeout, Keeping: slot.Never, GPU: s.cfg.Rule}),
	}, err
}

// next returns the time of the host's next own event.
func (h *host) next() time.Duration {
	at := time.Duration(math.MaxInt64)
	if t, ok := h.table.Deadline(); ok {
		at = t
	}
	if t, ok := h.server.Next(); ok {
		at = min(at, t)
	}
	return at
}

// step processes the due events.
func (h *host) step() error {
	now := h.s.now
	if at, ok := h.table.Deadline(); ok && at <= now {
		h.table.Tick(now)
	}
	if at, ok := h.server.Next(); len(h.pulled) > 0 || ok && at <= now {
		ended, touched, err := h.server.Submit(now, h.pulled...)
		if err != nil {
			return err
		}
		h.pulled = nil
		h.report(ended, touched)
	}
	for _, o := range h.table.Orders() {
		h.carryOut(o)
	}
	return nil
}

// report tells the table the results of the server.
func (h *host) report(ended, touched []int) {
	now := h.s.now
	for _, i := range ended {
		c := &h.s.calls[i]
		var ran time.Duration
		c.Found, ran, c.Ended = h.server.Outcome(i)
		h.s.result.Ended++
		h.table.Ended(now, h.slots[i], c.Ended-ran, true, true)
		delete(h.slots, i)
	}
	for _, fn := range touched {
		warm, resident := h.server.Warm(fn)
		if is := [2]bool{warm, resident}; is != h.warm[fn] {
			h.warm[fn] = is
			h.table.SetWarm(now, h.s.queues[fn].function, warm, resident)
		}
	}
}

// carryOut executes an order of the table.
func (h *host) carryOut(o slot.Order) {
	s, fn := h.s, h.function(o)
	name := fmt.Sprintf("%d-%d", h.n, o.Slot)
	switch o.Do {
	case slot.Put, slot.Delete:
		s.after(etcdTime, func() { h.change(o, fn, name) })
	case slot.Fetch:
		s.after(callTime, func() {
			asked := s.now
			c := memoryqueue.Call{Action: s.queues[fn].function.Action, Container: name, Warmed: o.Warmed, Alive: true}
			if o.Ended {
				c.LastDuration = &o.Last
			}
			c.Answer = func(a activation.FetchAnswer) {
				pause := callTime
				if a.Kind != activation.Fetched {
					pause = max(callTime, emptyPause-(s.now-asked))
				}
				s.after(pause, func() { h.answered(o.Slot, a) })
			}
			s.queues[fn].Fetch(clock(s.now), c)
		})
	case slot.Leave:
		s.after(callTime, func() {
			s.queues[fn].Fetch(clock(s.now), memoryqueue.Call{
				Action: s.queues[fn].function.Action, Container: name, Answer: func(activation.FetchAnswer) {},
			})
		})
	case slot.Count:
		s.after(etcdTime, func() { h.table.CountedOpen(s.now, o.Creation.ID, s.queues[fn].existing, true) })
	case slot.Ack:
		s.after(kafkaTime, func() { s.ack(string(o.Creation.ID), o.Error) })
	default:
		panic("no container is made by slots of GPU functions: " + o.Do.String())
	}
}

func (h *host) function(o slot.Order) int {
	for n, q := range h.s.queues {
		if q.function.Action.Name == o.Creation.Queue.Action.Name {
			return n
		}
	}
	panic("no function " + o.Creation.Queue.Action.Name)
}

// change puts or deletes a key.
func (h *host) change(o slot.Order, fn int, name string) {
	s, put := h.s, o.Do == slot.Put
	switch {
	case o.Key == slot.Warmed:
		s.setWarmed(key{fn, h.n, name}, put)
	case put:
		s.queues[fn].existing++
		s.queues[fn].ContainerPut(name)
	default:
		s.queues[fn].existing--
		s.queues[fn].ContainerDeleted(name)
	}
	if put {
		h.table.Stored(s.now, o.Slot, o.Key)
	} else {
		h.table.Deleted(s.now, o.Slot, o.Key)
	}
}

// answered processes the answer to a fetch.
func (h *host) answered(id slot.ID, a activation.FetchAnswer) {
	now := h.s.now
	if a.Kind != activation.Fetched {
		h.table.Missed(now, id, slot.Empty)
		return
	}
	i, err := strconv.Atoi(string(a.JSON()))
	if err != nil {
		panic(err)
	}
	c := &h.s.calls[i]
	c.Host, c.Pulled, c.Idle = h.n, now, h.idle-c.idleBefore[h.n]
	h.slots[i] = id
	h.pulled = append(h.pulled, i)
	h.table.Pulled(now, id, now-c.At, slot.Keep{})
}
