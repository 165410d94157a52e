// Package scheduler makes every decision about work on GPUs: which invocation runs next, where
// and in which container, whose memory is on a device and whose is moved, which container is
// removed, and which invocations wait or are refused. The invoker and the simulator drive the
// same scheduler.
//
// The package is pure. Events go in with the time attached (Take), and orders come out
// (Ready). Deadline is the time at which a Tick would change something. The same history of
// events always gives the same orders, byte for byte: there is no clock, no goroutine and no
// randomness, and no decision depends on map order. A scheduler is not safe for concurrent
// use.
//
// The scheduler keeps the flows with their queues, the containers and the devices.
// sched.Scheduler chooses the next grant, gpu.Ledger decides which memory moves, gpu.Tokens
// decides the number of concurrent runs per device, and gpu.RetentionPolicy chooses the container that is
// removed for another. Activations, CUDA and Docker are out of scope: a Container is the
// number of a container, and an invocation is the caller's number of an activation.
//
// Each rule has its file: slots (which container takes a run), placement (what fits where),
// evict (which containers are removed), limit (the device memory of a namespace), prefetch
// (memory that follows its flow), move (moves of memory, and unresponsive containers), timeout
// (invocations that waited too long), device (tokens, and lost devices), run (from grant to
// end).
package scheduler

import (
	"container/list"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Scheduler is the core. Make one with New.
type Scheduler struct {
	cfg     Config
	now     time.Duration
	policy  Policy
	devices []*device
	largest int64 // bytes of the largest device, lost or not
	// roomiest is the most memory that a device that is not lost has for containers.
	roomiest int64

	invocations map[uint64]*invocation
	seq         uint64 // number of the last invocation
	flows       map[sched.FlowID]*flow
	namespaces  map[string]*namespace
	backlog     list.List // of *flow: those with work queued, in the order in which that began

	containers map[Container]*container
	created    Container // number of the last container
	hostMB     int       // MiB of host memory that they have
	used       uint64    // counts the uses of containers, see container.used
	idle       list.List // of *container, the longest idle first
	// distrusted has the flows whose containers are removed instead of evicted, and until
	// when.
	distrusted map[sched.FlowID]time.Duration

	host        HostMemory
	limited     bool // the host's memory was reported
	asked       bool // host memory was asked for since the last report
	largestHost int  // MiB that any function asked for
	search      hostSearch
	claim       *flow // which waits for host memory, nil for none
	claimBeyond bool  // it is beyond the window
	kept        int   // MiB that only it may take

	waitingWork time.Duration // service that the queued invocations are expected to need
	service     time.Duration // mean of the last runs
	services    int           // how many the mean is of, up to a bound

	lost     int           // number of lost devices
	shrunk   time.Duration // when a device was lost last
	timeouts timeouts
	waits    waits // for devices

	starting []*run // reservations stand, to be launched
	out      []Order

	misjudged uint64 // grants for which there was no slot after all
}

// New returns a scheduler without work. Its errors name the setting and the value.
func New(cfg Config) (*Scheduler, error) {
	cfg.complete()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Scheduler{
		cfg: cfg, invocations: map[uint64]*invocation{},
		flows: map[sched.FlowID]*flow{}, namespaces: map[string]*namespace{}, containers: map[Container]*container{},
		distrusted: map[sched.FlowID]time.Duration{},
	}
	policy, err := cfg.NewPolicy(cfg.Policy, cfg.Sched, s)
	if err != nil {
		return nil, err
	}
	s.policy = policy
	if err := s.weighNamespaces(); err != nil {
		return nil, err
	}
	for _, d := range cfg.Devices {
		dev, err := newDevice(d, &s.cfg)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", d, err)
		}
		s.devices = append(s.devices, dev)
		s.largest = max(s.largest, d.MemoryBytes)
		s.resized(dev)
		policy.AddDevice(0, d.Index, dev.d)
	}
	return s, nil
}

// weighNamespaces sets the operator's weights of namespaces. Those of flows are set
// when a flow is first seen.
func (s *Scheduler) weighNamespaces() error {
	var names []string
	for key := range s.cfg.Weights {
		if !strings.Contains(key, "/") {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if err := s.policy.SetNamespaceWeight(0, name, s.cfg.Weights[name]); err != nil {
			return err
		}
	}
	return nil
}

// Take receives one event. Ready decides the consequences.
func (s *Scheduler) Take(e Event) {
	s.now = max(s.now, e.At)
	switch e.Kind {
	case Submitted:
		s.submit(e)
	case Withdrawn:
		s.refuseQueued(e.Invocation, WasWithdrawn)
	case Answered, Ended, Left:
		s.runEvent(e)
	case Failed, Initialized, Died, Removed, MemoryReported, Moved, HostGrown:
		s.containerEvent(e)
	case Sampled, DeviceLost, DeviceBack:
		s.deviceEvent(e)
	case HostReported:
		s.host, s.limited, s.asked = e.Host, true, false
	case Adopted:
		s.adopted(e)
	case Tick:
		s.tick()
		return
	}
	s.search.unsearched = s.backlog.Len()
}

// runEvent receives an event about a run.
func (s *Scheduler) runEvent(e Event) {
	r := s.runOf(e.Invocation)
	if r == nil || !r.begun {
		return
	}
	switch e.Kind {
	case Answered:
		r.answered = true
	case Ended:
		s.over(r, e)
	case Left:
		s.left(r, e)
	}
}

// containerEvent receives an event about a container.
func (s *Scheduler) containerEvent(e Event) {
	c := s.containers[e.Container]
	if c == nil {
		return
	}
	switch e.Kind {
	case Failed, Died:
		s.unusable(c)
	case Initialized:
		s.initialized(c)
	case Removed:
		s.removed(c)
	case MemoryReported:
		s.memoryReported(c, e)
	case Moved:
		s.moved(c, e)
	case HostGrown:
		grown := max(c.hostMB, int(min(e.Bytes, maxBytes)))
		s.hostMB += grown - c.hostMB
		c.hostMB = grown
	}
}

// deviceEvent receives an event about a device.
func (s *Scheduler) deviceEvent(e Event) {
	if e.Device < 0 || e.Device >= len(s.devices) {
		return
	}
	dev := s.devices[e.Device]
	switch e.Kind {
	case Sampled:
		if dev.lost == "" {
			s.sampled(dev, e)
		}
	case DeviceLost:
		s.deviceLost(dev, e)
	case DeviceBack:
		s.deviceBack(dev, e)
	}
}

// Ready makes all possible decisions and returns the orders in the order in which they must be
// carried out.
func (s *Scheduler) Ready() []Order {
	s.settle()
	orders := s.out
	s.out = nil
	return orders
}

// settle grants tokens until none can be granted, moves memory as the flows' states
// changed, and launches the runs whose reservations stand.
func (s *Scheduler) settle() {
	s.freeHost(false)
	for s.grantNext() {
	}
	requeued := false
	for _, dev := range s.devices {
		requeued = s.evictForReservation(dev) || requeued
	}
	for requeued && s.grantNext() {
	}
	s.follow()
	for _, dev := range s.devices {
		s.orderMoves(dev)
	}
	for _, r := range s.starting {
		s.launch(r)
	}
	s.starting = s.starting[:0]
	s.freeHost(true)
}

// tick handles the passing of time: flows expire, moves are ordered again, containers that
// were idle for too long are removed, and invocations that waited too long are refused.
func (s *Scheduler) tick() {
	s.policy.Tick(s.now)
	for _, dev := range s.devices {
		dev.ledger.Tick(s.now)
		s.reportOverdue(dev)
		s.resized(dev)
	}
	for c, _, _ := s.expiredIdle(); c != nil; c, _, _ = s.expiredIdle() {
		s.remove(c)
	}
	s.expireTimeouts()
}

// Deadline is when a Tick would change something; false for never.
func (s *Scheduler) Deadline() (time.Duration, bool) {
	at, ok := s.policy.Deadline()
	sooner := func(t time.Duration, due bool) {
		if due && (!ok || t < at) {
			at, ok = t, true
		}
	}
	for _, dev := range s.devices {
		sooner(dev.ledger.Deadline())
	}
	_, idle, some := s.expiredIdle()
	sooner(idle, some)
	sooner(s.timeouts.next())
	sooner(s.deviceTimeout())
	sooner(s.search.resumeAt, s.search.resumeAt > 0)
	return at, ok
}

func (s *Scheduler) order(o Order) { s.out = append(s.out, o) }

// orderFor orders something of a container.
func (s *Scheduler) orderFor(c *container, o Order) {
	o.Container, o.Device, o.Flow = c.id, c.dev.Index, c.rev.flow.id
	s.order(o)
}
