// Package pull serves OpenWhisk's scheduler mode, in which schedulers order containers
// over Kafka and hand out activations to containers that fetch by gRPC. The package
// turns orders into slots, maintains the slots' keys in etcd, fetches activations for
// slots, and delivers the activations to the invoker like the feed of classic mode.
// Package pull/slot decides the next step of each slot.
//
// Once a fetch is answered, the activation belongs to the invoker alone. It is stored in
// the journal first. A fetch is never abandoned while its answer can arrive.
//
// A Puller has a goroutine that reads orders, one that reports the invoker's health, and
// one for each fetch and each change of a key in progress.
package pull

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull/slot"
)

// Orders returns the messages of the invoker's topic, as invoker.Feed does.
type Orders interface {
	Next(ctx context.Context) (Message, error)
}

// Message is a message of the invoker's topic. Done is called once, when the message need
// not be read again after a crash.
type Message struct {
	Value []byte
	Sent  time.Time // when it was sent, by the clock of the scheduler or the broker
	After time.Time // a time by our clock at which it was not in the topic; zero: unknown
	Done  func()
}

// Acks sends the answer to a creation. It calls sent once, also if sending fails. It may
// block while its queue is full.
type Acks interface {
	Send(ctx context.Context, ack activation.ContainerCreationAck, sent func()) error
}

// Schedulers asks schedulers for activations. The calls block as long as an answer can
// arrive, even if ctx ends.
type Schedulers interface {
	Fetch(ctx context.Context, at activation.Endpoint, r activation.FetchRequest) (activation.FetchAnswer, error)
	// Leave tells the scheduler that a container will not fetch again. The scheduler
	// answers this call and the container's open fetches.
	Leave(ctx context.Context, at activation.Endpoint, q activation.Queue, container string) (activation.FetchAnswer, error)
	// Reschedule returns an activation to the end of a queue. It returns false if the
	// scheduler does not have the queue or cannot be reached. After an error it is unknown
	// who has the activation.
	Reschedule(ctx context.Context, at activation.Endpoint, q activation.Queue, message json.RawMessage) (bool, error)
}

// Registry is the part of etcd that invokers use. A key stays until it is deleted, even
// if a lease ends.
type Registry interface {
	// Put and Delete block until etcd has the change. They return an error if ctx ends.
	// They are never called concurrently for one key.
	Put(ctx context.Context, key string) error
	Delete(ctx context.Context, key string) error
	Count(ctx context.Context, prefixes ...string) (int64, error)
	// Leader returns the address of the scheduler that leads a queue, and a channel that
	// is closed when the leader changes.
	Leader(q activation.Queue) (at activation.Endpoint, ok bool, changed <-chan struct{})
	// Report sets the invoker's health.
	Report(ctx context.Context, h activation.Health) error
}

// Journal is the capacity of the invoker's journal for pulled activations.
type Journal interface {
	// Space blocks until the journal has space and its disk works. Full reports whether the
	// journal is full.
	Space(ctx context.Context) error
	Full() bool
}

// Containers is the interface of *invoker.Invoker for fetched activations and pinned
// containers.
type Containers interface {
	// Fetched stores a fetched activation. It returns false if the invoker has the
	// activation already: the delivery must then be dropped.
	Fetched(d *invoker.Delivery, message []byte) bool
	Pin(r invoker.PinRequest)
	PausePin(id invoker.Pin)
	Unpin(id invoker.Pin)
	// ReservedMB returns the memory that is not available for pins.
	ReservedMB() int64
}

// Ports holds the outside parts of a Puller.
type Ports struct {
	Orders     Orders
	Acks       Acks
	Schedulers Schedulers
	Registry   Registry
	Journal    Journal // nil: there is none
	Limits     Limits
	// Deliver passes an activation to the invoker. It blocks until the invoker accepts it
	// or ctx ends. After that the activation is in the journal for the next process.
	Deliver func(ctx context.Context, d invoker.Delivery) error
}

// Config holds the settings of a Puller.
type Config struct {
	Instance activation.Instance
	Cluster  activation.Cluster
	Manifest *activation.Manifest
	// Bounds holds the system's bounds of actions, Defaults the limits of namespaces
	// without limits of their own.
	Bounds   activation.Bounds
	Defaults activation.UserLimits
	Slots    slot.Config
	MemoryMB int64
	GPUs     int // devices
	// JobTime is the time that a scheduler waits for an ack; older creations are dropped.
	// For images that must be pulled it waits BlackboxMultiple times as long.
	JobTime          time.Duration
	BlackboxMultiple int
	// ReportEvery is the interval of reports while the health changes.
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
	life       context.Context // ends all waits
	end        context.CancelFunc
	limits     knownLimits
	fetching   context.Context // ends all fetching
	endFetches context.CancelFunc

	mu          sync.Mutex
	table       *slot.Table
	timer       *time.Timer
	names       map[slot.ID]string // schedulers' names of the containers
	pulled      map[activation.ID]origin
	returning   map[activation.ID]chan struct{} // closed when the returned activation has ended here
	done        map[activation.ID][]func()      // confirmations of messages whose creations have no ack yet
	keys        map[string][]change
	images      map[string]failedImage
	leaving     map[slot.ID]chan struct{} // closed when a slot's last fetch has been sent
	outstanding int                       // fetches without an answer, or whose activations are not delivered yet
	quiet       chan struct{}
	disabled    bool
	stopping    bool
	closed      bool   // no work may begin any more
	unable      string // the reason why no work is possible now
	noDevice    bool   // no GPU is usable
	full        bool   // the journal is full
	stats       Stats
}

// Opened is the outcome of a creation that has a container or a slot. The other outcomes
// are the errors of acks, and two without an ack: stale and undecodable.
const Opened = "opened"

// Stats is a Puller's part of /status.
type Stats struct {
	Slots     slot.Stats     `json:"slots"`
	Creations map[string]int `json:"creations"` // number of creations by outcome
	Pulled    int64          `json:"pulled"`
	Returned  int64          `json:"returned"` // to their schedulers
	Out       int            `json:"fetching"`
	Full      bool           `json:"journalFull,omitzero"` // nothing is fetched
	Status    string         `json:"status"`
}

// New returns a Puller. Use passes the invoker, and Run starts the Puller.
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

// Use sets the invoker. It is called once, before Run and before the invoker runs.
func (p *Puller) Use(c Containers) { p.containers = c }

// Run reads orders and reports the health until ctx ends.
func (p *Puller) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { p.readOrders(ctx) })
	all.Go(func() { p.reportHealth(ctx) })
	all.Wait()
}

// Stop ends the fetching. It blocks until all pulled activations are delivered to the
// invoker. Containers stay: the invoker removes them or leaves them to the next process.
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
		p.log.Warn("fetches are still unanswered at the stop: their activations are lost")
	}
}

// Close ends all waits.
func (p *Puller) Close() {
	p.mu.Lock()
	p.closed = true
	p.timer.Stop()
	p.mu.Unlock()
	p.end()
	p.calls.Wait()
}

// do applies an event to the table and carries out the resulting orders.
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
	if p.quiet != nil && p.outstanding == 0 {
		close(p.quiet)
		p.quiet = nil
	}
	if at, ok := p.table.Deadline(); ok && !p.closed {
		p.timer.Reset(max(at-now, time.Millisecond))
	}
}

// spareNames is the least number of names of ended slots that are kept.
const spareNames = 64

// poke requests a report of the health before the next interval.
func (p *Puller) poke() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// name returns schedulers' name of a slot's container. The caller must hold the lock.
func (p *Puller) name(id slot.ID) string {
	if p.names[id] == "" {
		var b [16]byte
		_, _ = rand.Read(b[:])
		p.names[id] = hex.EncodeToString(b[:])
	}
	return p.names[id]
}

// Disable makes slots end after their runs, and creations be refused. It reports whether
// the Puller was enabled.
func (p *Puller) Disable() bool { return p.setDisabled(true) }

// Enable takes Disable back. It reports whether the Puller was disabled.
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

// SetUnable sets the reason why no work is possible now; "" means that work is possible.
func (p *Puller) SetUnable(why string) {
	p.mu.Lock()
	p.unable = why
	p.mu.Unlock()
	p.poke()
}

// Stats returns a snapshot for /status.
func (p *Puller) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Creations = map[string]int{}
	for what, n := range p.stats.Creations {
		s.Creations[what] = n
	}
	s.Slots, s.Out, s.Full, s.Status = p.table.Stats(time.Since(p.began)), p.outstanding, p.full, string(p.health().Status)
	return s
}

// Count returns the number of slots.
func (p *Puller) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Len()
}
