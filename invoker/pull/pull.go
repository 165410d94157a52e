// Package pull serves OpenWhisk's scheduler mode: schedulers order containers over
// Kafka, and hand out activations to those that fetch by gRPC. The package turns such
// orders into slots, keeps their keys in etcd, fetches for them, and gives what it
// pulled to the invoker as classic mode's feed does; from there on nothing differs.
// What a slot does next is decided in pull/slot.
//
// From the answer to a fetch on an activation is the invoker's alone. It is in the
// journal before anything else is done with it, and a fetch is never given up while
// its answer can come.
//
// A Puller has a goroutine that reads orders, one that reports the invoker's health,
// and one for each fetch and each change of a key that is under way.
package pull

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/pull/slot"
)

// Orders hands over the messages of the invoker's topic, as invoker.Feed does.
type Orders interface {
	Next(ctx context.Context) (Message, error)
}

// Message is one message of the invoker's topic. Done is called once, when a crash
// need not bring it again.
type Message struct {
	Value []byte
	Sent  time.Time // by the scheduler's clock, or the broker's
	After time.Time // by our own: it was not there yet; zero: not known
	Done  func()
}

// Acks sends the answer to a creation; sent is called once, whatever becomes of it.
// It may wait while its queue is full.
type Acks interface {
	Send(ctx context.Context, ack activation.ContainerCreationAck, sent func()) error
}

// Schedulers asks schedulers for activations. Both calls wait for as long as an answer can
// come, whatever becomes of ctx.
type Schedulers interface {
	Fetch(ctx context.Context, r Request) (activation.FetchAnswer, error)
	// Leave reports that a container fetches no more: what it has out is answered.
	Leave(ctx context.Context, r Request) error
	// Return gives an activation back to the end of a queue. It reports false where
	// the scheduler does not have the queue, or was not reached. With an error nobody
	// knows.
	Return(ctx context.Context, at activation.Endpoint, q activation.Queue, message []byte) (bool, error)
}

// Request is what a container asks for.
type Request struct {
	At        activation.Endpoint
	Queue     activation.Queue
	Container string
	Warmed    bool
	Last      *time.Duration // of the run that has just ended; nil: none has
	// Sent is called when the request has left, or cannot.
	Sent func()
}

// Registry is etcd, as far as invokers use it. What is put stays, also when a lease
// ends, until it is deleted.
type Registry interface {
	// Put and Delete return when etcd has the change, or with an error when ctx has
	// ended. Those of one key are not called at once.
	Put(ctx context.Context, key string) error
	Delete(ctx context.Context, key string) error
	Count(ctx context.Context, prefixes ...string) (int64, error)
	// Leader is where the scheduler answers that has a queue, and a channel that is closed
	// when that changes.
	Leader(q activation.Queue) (at activation.Endpoint, ok bool, changed <-chan struct{})
	// Report sets the invoker's health.
	Report(ctx context.Context, h activation.Health) error
}

// Journal keeps what was pulled.
type Journal interface {
	// Ready waits until what is pulled can be kept, and Full reports whether it
	// would wait for room.
	Ready(ctx context.Context) error
	Full() bool
	// Keep stores a message, and adds to the delivery what an earlier process left of
	// it. It reports whether the delivery is to be used: not if the activation is in
	// progress already.
	Keep(d *invoker.Delivery, message []byte) bool
	// BeginHandback marks an activation as begun elsewhere, perhaps; AbortHandback takes that
	// back, and Forget ends it. BeginHandback and Forget return when that is written.
	BeginHandback(ctx context.Context, id activation.ID) error
	AbortHandback(id activation.ID)
	CommitHandback(id activation.ID) error
}

// Containers are the invoker's claims: an *invoker.Invoker.
type Containers interface {
	Acquire(r invoker.AcquireRequest)
	PauseClaim(id invoker.Claim)
	Unclaim(id invoker.Claim)
	// ReservedMB is memory that no claim can have.
	ReservedMB() int64
}

// Ports are what a Puller needs from outside.
type Ports struct {
	Orders     Orders
	Acks       Acks
	Schedulers Schedulers
	Registry   Registry
	Journal    Journal
	Limits     Limits
	// Deliver gives an activation to the invoker. It waits until that takes it, or
	// until ctx ends: then the journal has it, for the next process.
	Deliver func(ctx context.Context, d invoker.Delivery) error
}

// Config is what a Puller is given at its start.
type Config struct {
	Instance activation.Instance
	Cluster  activation.Cluster
	Manifest *activation.Manifest
	// Bounds are those of the system for actions, Defaults what a namespace may have
	// without limits of its own.
	Bounds   activation.Bounds
	Defaults activation.UserLimits
	Slots    slot.Config
	MemoryMB int64
	GPUs     int // devices
	// JobTime is how long a scheduler waits for an ack; older creations are dropped.
	// For images that are pulled it waits BlackboxMultiple as long.
	JobTime          time.Duration
	BlackboxMultiple int
	// ReportEvery is how often the health is reported where it has changed.
	ReportEvery time.Duration
}

// Puller pulls the activations of one invoker.
type Puller struct {
	cfg        Config
	ports      Ports
	log        *slog.Logger
	containers Containers
	began      time.Time
	changed    chan struct{} // capacity 1: the health may have changed
	calls      sync.WaitGroup
	life       context.Context // ends when nothing is awaited any more
	end        context.CancelFunc
	limits     knownLimits
	fetching   context.Context // ends when nothing more is fetched
	endFetches context.CancelFunc

	mu        sync.Mutex
	table     *slot.Table
	timer     *time.Timer
	names     map[slot.ID]string // of the containers, as schedulers know them
	pulled    map[activation.ID]origin
	returning map[activation.ID]chan struct{} // closed when what is given back has ended here
	done      map[activation.ID][]func()      // of the messages of creations without an ack
	keys      map[string][]change
	images    map[string]failedImage
	leaving   map[slot.ID]chan struct{} // closed when a slot's last fetch has left
	out       int                       // fetches that are out, or whose activations are not delivered
	quiet     chan struct{}
	disabled  bool
	stopping  bool
	closed    bool   // nothing is begun any more
	unable    string // why nothing can be done now
	noDevice  bool   // no GPU can be used
	full      bool   // the journal keeps nothing more
	stats     Stats
}

// Opened is the outcome of a creation that has a container or a slot. The others are
// the errors of acks, and what has no ack: stale and undecodable.
const Opened = "opened"

// Stats is a Puller's part of /status.
type Stats struct {
	Slots     slot.Stats     `json:"slots"`
	Creations map[string]int `json:"creations"` // by what became of them
	Pulled    int64          `json:"pulled"`
	Returned  int64          `json:"returned"` // to their schedulers
	Out       int            `json:"fetching"`
	Full      bool           `json:"journalFull,omitzero"` // nothing is fetched
	Status    string         `json:"status"`
}

// New makes a Puller. Use gives it the invoker, Run starts it.
func New(cfg Config, ports Ports, log *slog.Logger) *Puller {
	p := &Puller{
		cfg: cfg, ports: ports, log: log, began: time.Now(), changed: make(chan struct{}, 1),
		table: slot.New(cfg.Slots), names: map[slot.ID]string{}, pulled: map[activation.ID]origin{}, returning: map[activation.ID]chan struct{}{},
		done: map[activation.ID][]func(){}, keys: map[string][]change{}, images: map[string]failedImage{}, leaving: map[slot.ID]chan struct{}{}, stats: Stats{Creations: map[string]int{}},
	}
	p.life, p.end = context.WithCancel(context.Background())
	p.fetching, p.endFetches = context.WithCancel(p.life)
	p.timer = time.AfterFunc(time.Hour, func() { p.do(p.table.Tick) })
	return p
}

// Use is called once, before Run and before the invoker runs.
func (p *Puller) Use(c Containers) { p.containers = c }

// Run reads orders and reports the health until ctx ends.
func (p *Puller) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { p.readOrders(ctx) })
	all.Go(func() { p.reportHealth(ctx) })
	all.Wait()
}

// Stop ends the fetching, and returns when everything that was pulled is with the
// invoker. Containers stay as they are: the invoker removes them, or leaves them to
// the next process.
func (p *Puller) Stop(ctx context.Context) {
	p.mu.Lock()
	quiet := make(chan struct{})
	p.stopping, p.quiet = true, quiet
	p.mu.Unlock()
	p.do(p.table.Stop)
	p.endFetches()
	p.poke()
	select {
	case <-quiet:
	case <-ctx.Done():
		p.log.Warn("fetches are still out at the stop: what they bring is lost")
	}
}

// Close ends what is under way.
func (p *Puller) Close() {
	p.mu.Lock()
	p.closed = true
	p.timer.Stop()
	p.mu.Unlock()
	p.end()
	p.calls.Wait()
}

// do applies an event, and carries out what follows.
func (p *Puller) do(event func(now time.Duration)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Since(p.began)
	event(now)
	for orders := p.table.Orders(); len(orders) > 0 && !p.closed; orders = p.table.Orders() {
		for _, o := range orders {
			p.carryOut(o)
		}
	}
	if len(p.names) > 2*p.table.Len()+spareNames {
		maps.DeleteFunc(p.names, func(id slot.ID, _ string) bool { return !p.table.Has(id) })
		maps.DeleteFunc(p.leaving, func(id slot.ID, _ chan struct{}) bool { return !p.table.Has(id) })
	}
	if p.quiet != nil && p.out == 0 {
		close(p.quiet)
		p.quiet = nil
	}
	if at, ok := p.table.Deadline(); ok && !p.closed {
		p.timer.Reset(max(at-now, time.Millisecond))
	}
}

// spareNames is how many names of slots that are gone are kept, at least.
const spareNames = 64

// poke has the health reported without waiting for the next time.
func (p *Puller) poke() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// name is a slot's container as schedulers know it. The caller holds the lock.
func (p *Puller) name(id slot.ID) string {
	if p.names[id] == "" {
		var b [16]byte
		_, _ = rand.Read(b[:])
		p.names[id] = hex.EncodeToString(b[:])
	}
	return p.names[id]
}

// Disable has the slots end when their runs have, and creations refused; Enable
// takes that back. Each reports whether it changed anything.
func (p *Puller) Disable() bool { return p.setDisabled(true) }

// Enable is the end of Disable.
func (p *Puller) Enable() bool { return p.setDisabled(false) }

func (p *Puller) setDisabled(off bool) (changed bool) {
	p.do(func(now time.Duration) {
		if changed = p.disabled != off; !changed {
			return
		}
		if p.disabled = off; off {
			p.table.Close(now)
		} else if !p.stopping {
			p.table.Open()
		}
	})
	p.poke()
	return changed
}

// Enabled reports whether creations are accepted.
func (p *Puller) Enabled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.disabled && !p.stopping
}

// SetUnable is called with why nothing can be done now, or "".
func (p *Puller) SetUnable(why string) {
	p.mu.Lock()
	p.unable = why
	p.mu.Unlock()
	p.poke()
}

// Stats is a snapshot.
func (p *Puller) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Creations = map[string]int{}
	for what, n := range p.stats.Creations {
		s.Creations[what] = n
	}
	s.Slots, s.Out, s.Full, s.Status = p.table.Stats(time.Since(p.began)), p.out, p.full, string(p.health().Status)
	return s
}

// Count is how many slots there are.
func (p *Puller) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Len()
}
