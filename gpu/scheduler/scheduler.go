// Package scheduler takes every decision about work on GPUs: which invocation runs next
// and where, in which container, whose memory is on a device and whose is
// moved, which container is given up, what waits and what is refused. The invoker
// and the simulator drive the same scheduler.
//
// It is pure. Events go in with the time attached (Take); orders come out
// (Ready); Deadline says when a Tick would change something. One history of
// events always gives the same orders, byte for byte: there is no clock, no
// goroutine, no chance, and no decision from map order. The owner of a scheduler
// calls it from one goroutine at a time.
//
// Inside it keeps a flow book and the containers, and asks sched.Policy for the next
// grant, gpu.Pool for a container of a device, gpu.Ledger for its memory,
// gpu.Tokens for its D. It does not know activations, CUDA or Docker: a Container is
// the number of a container, an invocation the caller's number of an activation.
package scheduler

import (
	"container/list"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Scheduler is the core. Make one with New.
type Scheduler struct {
	cfg     Config
	now     time.Duration
	policy  sched.Policy
	demand  *gpu.Clock // of all flows
	devices []*device
	largest int64 // bytes of the largest device, lost or not

	invocations map[uint64]*invocation
	seq         uint64 // of the last one
	queued      int
	flows       map[sched.FlowID]*flow
	last        *flow // that known found
	namespaces  map[string]*namespace
	backlog     list.List // of *flow: those with work queued, in the order in which that began

	containers map[Container]*container
	byName     map[string]*container // by the name that pools and ledgers know
	counted    Container
	idle       list.List      // of *container, the longest idle first
	dirty      []*container   // since Dirty reported them
	evictFlags gpu.EvictFlags // of containers, flows and namespaces

	host        HostMemory
	limited     bool // the host's memory was reported
	asked       bool // for host memory, since it was reported
	leaving     int  // MiB of containers on their way out
	largestHost int  // MiB that any function asked for

	lost     int           // devices
	shrunk   time.Duration // when a device was lost last
	timeouts timeouts

	starting []*run // reservations stand, to be launched
	changes  []sched.Change
	out      []Order
	given    []Order

	misjudged uint64 // grants for which there was no slot after all
}

// New returns a scheduler without work. Its errors name what cannot be.
func New(cfg Config) (*Scheduler, error) {
	cfg.complete()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Scheduler{
		cfg: cfg, demand: gpu.NewClock(0, 0), invocations: map[uint64]*invocation{},
		flows: map[sched.FlowID]*flow{}, namespaces: map[string]*namespace{},
		containers: map[Container]*container{}, byName: map[string]*container{},
	}
	policy, err := cfg.NewPolicy(cfg.Policy, cfg.Sched, l)
	if err != nil {
		return nil, err
	}
	l.policy = policy
	if err := l.weighNamespaces(); err != nil {
		return nil, err
	}
	for _, word := range cfg.Devices {
		dev, err := newDevice(word, &l.cfg, &l.evictFlags)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", word, err)
		}
		l.devices = append(l.devices, dev)
		l.largest = max(l.largest, word.MemoryBytes)
		policy.AddDevice(0, word.Index, dev.d)
	}
	return l, nil
}

// weighNamespaces tells the policy the operator's weights of namespaces. Those
// of flows are set when a flow is first seen.
func (l *Scheduler) weighNamespaces() error {
	var names []string
	for key := range l.cfg.Weights {
		if !strings.Contains(key, "/") {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if err := l.policy.SetNamespaceWeight(0, name, l.cfg.Weights[name]); err != nil {
			return err
		}
	}
	return nil
}

// Take hears one event. What is to be done about it is decided by Ready.
func (l *Scheduler) Take(e Event) {
	l.now = max(l.now, e.At)
	switch e.Kind {
	case Submitted:
		l.submit(e)
	case Withdrawn:
		l.refuseQueued(e.Invocation, WasWithdrawn)
	case Answered, Ended, Left:
		l.runEvent(e)
	case Created, Failed, Initialized, Died, Removed, MemoryReported, Moved, HostGrown:
		l.containerEvent(e)
	case Sampled, DeviceLost, DeviceBack:
		l.deviceEvent(e)
	case HostReported:
		l.host, l.limited, l.asked = e.Host, true, false
	case Adopted:
		l.adopted(e)
	case Tick:
		l.tick()
	}
}

// runEvent hears an event about a run.
func (l *Scheduler) runEvent(e Event) {
	r := l.runOf(e.Invocation)
	if r == nil || !r.begun {
		return
	}
	switch e.Kind {
	case Answered:
		l.answered(r)
	case Ended:
		l.over(r, e)
	case Left:
		l.left(r, e)
	}
}

// containerEvent hears an event about a container.
func (l *Scheduler) containerEvent(e Event) {
	b := l.containers[e.Container]
	if b == nil {
		return
	}
	l.setDirty(b)
	switch e.Kind {
	case Created:
		b.created = true
	case Failed:
		l.fail(b)
	case Initialized:
		l.initialized(b)
	case Died:
		l.died(b)
	case Removed:
		l.removed(b)
	case MemoryReported:
		l.memoryReported(b, e)
	case Moved:
		l.moved(b, e)
	case HostGrown:
		l.hostGrown(b, e)
	}
}

// deviceEvent hears an event about a device.
func (l *Scheduler) deviceEvent(e Event) {
	if e.Device < 0 || e.Device >= len(l.devices) {
		return
	}
	dev := l.devices[e.Device]
	switch e.Kind {
	case Sampled:
		if dev.lost == "" {
			l.sampled(dev, e)
		}
	case DeviceLost:
		l.deviceLost(dev, e)
	case DeviceBack:
		l.deviceBack(dev, e)
	}
}

// Ready decides all that can be decided and lists what the outside must do, in
// this order. The list is valid until the next call.
func (l *Scheduler) Ready() []Order {
	l.settle()
	l.given, l.out = l.out, l.given[:0]
	return l.given
}

// settle grants tokens until none can be granted, follows the flows' changes
// with their memory, and lets begin what can.
func (l *Scheduler) settle() {
	for l.grantNext() {
	}
	back := false
	for _, dev := range l.devices {
		back = l.evictForReservation(dev) || back
	}
	for back && l.grantNext() {
	}
	l.follow()
	l.prefetchNext()
	for _, dev := range l.devices {
		l.orderMoves(dev)
	}
	for _, r := range l.starting {
		l.launch(r)
	}
	l.starting = l.starting[:0]
	l.evictForHost()
}

// tick lets time pass: flows expire, orders are given again, idle containers of no
// one go, what waited too long is refused.
func (l *Scheduler) tick() {
	l.policy.Tick(l.now)
	for _, dev := range l.devices {
		dev.ledger.Tick(l.now)
	}
	for c, _, _ := l.expiredIdle(); c != nil; c, _, _ = l.expiredIdle() {
		l.remove(c)
	}
	l.expireTimeouts()
}

// Deadline says when a Tick would change something; false for never.
func (l *Scheduler) Deadline() (time.Duration, bool) {
	at, ok := l.policy.Deadline()
	sooner := func(t time.Duration, due bool) {
		if due && (!ok || t < at) {
			at, ok = t, true
		}
	}
	for _, dev := range l.devices {
		sooner(dev.ledger.Deadline())
	}
	_, idle, some := l.expiredIdle()
	sooner(idle, some)
	sooner(l.timeouts.next())
	return at, ok
}

func (l *Scheduler) order(o Order) {
	l.out = append(l.out, o)
	if b := l.containers[o.Container]; b != nil {
		l.setDirty(b)
	}
}
