// Package lane takes every decision about work on GPUs: which item runs next
// and where, in which container, whose memory is on a device and whose is
// moved, which container is given up, who waits and who is refused. The invoker
// and the simulator drive the same lane.
//
// It is pure. Events go in with the time attached (Take); orders come out
// (Ready); Deadline says when a Tick would change something. One history of
// events always gives the same orders, byte for byte: there is no clock, no
// goroutine, no chance, and no decision from map order. Whoever owns a lane
// calls it from one goroutine at a time.
//
// Inside it keeps a flow book and the boxes, and asks sched.Policy for the next
// grant, gpu.Pool for a container of a device, gpu.Ledger for its memory,
// gpu.Tokens for its D. It does not know activations, CUDA or Docker: a Box is
// the number of a container, an item the caller's number of an activation.
package lane

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Lane is the core. Make one with New.
type Lane struct {
	cfg     Config
	now     time.Duration
	policy  sched.Policy
	demand  *gpu.Clock // of all flows
	devices []*device
	largest int64 // bytes of the largest device, lost or not

	queue      queue
	flows      map[sched.FlowID]*flow
	namespaces map[string]*namespace
	backlog    backlog
	recent     [64]*flow // that were asked about last, see known

	boxes map[Box]*box
	named map[string]*box // by the name that pools and ledgers know
	made  Box             // counted
	names string          // of the next few
	idle  idleList
	marks gpu.Marks // of boxes, flows and namespaces

	host        HostMemory
	limited     bool // the host's memory was told
	asked       bool // for room, since it was told
	leaving     int  // MiB of boxes on their way out
	largestHost int  // MiB that any function asked for

	lost   int           // devices
	shrunk time.Duration // when a device was lost last
	waits  waits

	starting []*run // reservations stand, to be launched
	spare    []*run // for reuse
	blanks   []*box
	shelves  [][][]*box
	back     []*run // scratch
	stirred  []*box // since Stirred was called
	changes  []sched.Change
	out      []Order
	given    []Order

	misjudged uint64 // grants for which there was no place after all
}

// New returns a lane without work. Its errors name what cannot be.
func New(cfg Config) (*Lane, error) {
	cfg.complete()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Lane{
		cfg: cfg, demand: gpu.NewClock(0, 0), queue: queue{byID: map[uint64]int32{}},
		flows: map[sched.FlowID]*flow{}, namespaces: map[string]*namespace{},
		boxes: map[Box]*box{}, named: map[string]*box{},
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
		dev, err := newDevice(word, &l.cfg, &l.marks)
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
func (l *Lane) weighNamespaces() error {
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
func (l *Lane) Take(e Event) {
	l.now = max(l.now, e.At)
	switch e.Kind {
	case Submitted:
		l.submit(e)
	case Withdrawn:
		l.withdraw(e.Item)
	case Answered, Over, Left:
		l.takeRun(e)
	case Made, Failed, Warmed, Died, Gone, Held, Moved, Grown:
		l.takeBox(e)
	case Observed, Lost, Back:
		l.takeDevice(e)
	case Host:
		l.host, l.limited, l.asked = e.Host, true, false
	case Adopted:
		l.inherit(e)
	case Tick:
		l.tick()
	}
}

// takeRun hears an event about a run.
func (l *Lane) takeRun(e Event) {
	r := l.queue.run(e.Item)
	if r == nil || !r.begun {
		return
	}
	switch e.Kind {
	case Answered:
		l.answered(r)
	case Over:
		l.over(r, e)
	case Left:
		l.left(r, e)
	}
}

// takeBox hears an event about a box.
func (l *Lane) takeBox(e Event) {
	b := l.boxes[e.Box]
	if b == nil {
		return
	}
	l.stir(b)
	switch e.Kind {
	case Made:
		b.made = true
	case Failed:
		l.shut(b)
	case Warmed:
		l.warmed(b)
	case Died:
		l.died(b)
	case Gone:
		l.gone(b)
	case Held:
		l.heard(b, e)
	case Moved:
		l.moved(b, e)
	case Grown:
		l.grown(b, e)
	}
}

// takeDevice hears an event about a device.
func (l *Lane) takeDevice(e Event) {
	if e.Device < 0 || e.Device >= len(l.devices) {
		return
	}
	dev := l.devices[e.Device]
	switch e.Kind {
	case Observed:
		if dev.lost == "" {
			l.observe(dev, e)
		}
	case Lost:
		l.missing(dev, e)
	case Back:
		l.found(dev, e)
	}
}

// Ready decides all that can be decided and lists what the outside must do, in
// this order. The list is valid until the next call.
func (l *Lane) Ready() []Order {
	l.settle()
	l.given, l.out = l.out, l.given[:0]
	return l.given
}

// settle grants tokens until none can be granted, follows the flows' changes
// with their memory, and lets begin what can.
func (l *Lane) settle() {
	for l.grantNext() {
	}
	back := false
	for _, dev := range l.devices {
		back = l.yield(dev) || back
	}
	for back && l.grantNext() {
	}
	l.follow()
	l.prefetchNext()
	for _, dev := range l.devices {
		l.obey(dev)
	}
	for _, r := range l.starting {
		l.launch(r)
	}
	l.starting = l.starting[:0]
	l.relieve()
}

// tick lets time pass: flows expire, orders are given again, idle boxes of no
// one go, who waited too long is refused.
func (l *Lane) tick() {
	l.policy.Tick(l.now)
	for _, dev := range l.devices {
		dev.ledger.Tick(l.now)
	}
	for b := l.idle.oldest; b != nil && l.stale(b) <= l.now; b = l.idle.oldest {
		l.dispose(b)
	}
	l.impatient()
}

// Deadline says when a Tick would change something; false for never.
func (l *Lane) Deadline() (time.Duration, bool) {
	at, ok := l.policy.Deadline()
	sooner := func(t time.Duration, due bool) {
		if due && (!ok || t < at) {
			at, ok = t, true
		}
	}
	for _, dev := range l.devices {
		sooner(dev.ledger.Deadline())
	}
	if b := l.idle.oldest; b != nil {
		sooner(l.stale(b), l.cfg.IdleTimeout > 0)
	}
	sooner(l.waits.next())
	return at, ok
}

func (l *Lane) order(o Order) {
	l.out = append(l.out, o)
	if b := l.boxes[o.Box]; b != nil {
		l.stir(b)
	}
}
