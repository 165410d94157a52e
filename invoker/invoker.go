package invoker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/explain"
)

// Ports are what an invoker needs of the world.
type Ports struct {
	Feed      Feed
	Actions   Actions
	Records   Records
	Outbox    Outbox
	Blacklist Blacklist
	Journal   Journal
	Shelf     Shelf // nil: nothing is parked
	Engine    Engine
	Notes     Notes // nil: nothing outlives the process
	Dial      Dialer
	Mover     Mover
	Tracer    Tracer   // nil: nobody asks
	UserLogs  UserLogs // nil: logs go into records alone
	// Away, when not nil, hears why nothing can be done for now, and "" when
	// it can again. It must not block.
	Away func(reason string)
	// Successor, when not nil, tells at the stop whether a process is to follow
	// that takes over the containers that rest.
	Successor func() bool
}

// Invoker runs the activations of one Kafka topic.
type Invoker struct {
	settings Settings
	ports    Ports
	metrics  *Metrics
	log      *slog.Logger
	marks    *marks

	desk     *desk
	flush    context.CancelFunc
	dispatch *dispatcher
	router   router
	health   *engineHealth

	places *places
	ended  chan struct{} // closed when the dispatcher has ended
	owing  sync.WaitGroup
}

// cleanUpTime bounds the removal of leftover containers at start and end; the
// original gives up after the same time.
const cleanUpTime = 30 * time.Second

// New checks the settings and prepares an invoker; Run starts it.
func New(s Settings, p Ports, m *Metrics, log *slog.Logger) (*Invoker, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	epoch := time.Now()
	clock := func() time.Duration { return time.Since(epoch) }
	flushing, flush := context.WithCancel(context.Background())
	iv := &Invoker{
		settings: s, ports: p, metrics: m, log: log, flush: flush,
		router: router{settings: s, devices: len(s.GPU.Devices)},
		places: newPlaces(s.InFlight, s.GPU.Backlog), ended: make(chan struct{}),
	}
	iv.marks = newMarks(s, log)
	iv.health = newEngineHealth(p.Engine, log, p.Away)
	iv.desk = &desk{
		ctx: flushing, out: p.Outbox, records: p.Records, journal: p.Journal,
		instance: s.Instance, store: s.Store, logErrors: s.LogErrors, unstored: s.LogUnstored, events: s.Events,
		metrics: m, log: log, marks: iv.marks, wall: time.Now, release: func(t *ticket) { iv.places.release(t.place) },
		explain: explain.NewLog(s.Explain), tracer: p.Tracer, at: epoch.Add, old: newOld(s, p.Shelf, clock),
	}
	d, err := iv.newDispatcher(clock)
	if err != nil {
		return nil, err
	}
	iv.dispatch = d
	return iv, nil
}

func (iv *Invoker) newDispatcher(clock func() time.Duration) (*dispatcher, error) {
	d := &dispatcher{
		settings: iv.settings, engine: iv.ports.Engine, tabs: newTabs(iv.ports.Notes), dial: iv.ports.Dial,
		metrics: iv.metrics, log: iv.log, marks: iv.marks, clock: clock,
		turns: newTurns(),
		jobs:  map[uint64]*job{}, boxes: map[container.SlotID]*box{}, alive: map[container.ID]*box{}, early: map[container.ID]bool{},
	}
	pool, err := container.New(iv.settings.Pool, clock())
	if err != nil {
		return nil, err
	}
	d.pool = pool
	if d.gpus, err = newGPULane(d, iv.settings.GPU, iv.ports.Mover); err != nil {
		return nil, fmt.Errorf("start gpu scheduling: %w", err)
	}
	if d.gpus != nil {
		d.gpus.backlog = iv.newBacklog(d)
		iv.ports.Mover.Listen(func(h gpu.Held) { iv.tell(held{h}) })
	}
	w := &worker{
		engine: iv.ports.Engine, tabs: d.tabs, mover: iv.ports.Mover, open: d.open, post: d.post, desk: iv.desk, health: iv.health, userLogs: iv.ports.UserLogs,
		bounds: iv.settings.Bounds, metrics: iv.metrics, log: iv.log, marks: iv.marks, wall: time.Now, clock: clock,
	}
	d.run = func(r *run) { d.goWork(func(ctx context.Context) { w.do(ctx, r) }) }
	d.turnAway = func(t *ticket, j *job, r refusal) {
		d.goWork(func(context.Context) { iv.turnAway(t, j, r) })
	}
	return d, nil
}

// Run takes over or removes containers of an earlier process, calls ready, and
// works until ctx ends. Then it drains: nothing more is pulled, what was
// accepted is finished within Settings.Drain, and containers are removed, or
// left to the process that follows. What was not finished by then is delivered
// again to that one. The desk goes on sending until Close.
func (iv *Invoker) Run(ctx context.Context, ready func()) error {
	work, stopWork := context.WithCancel(context.Background())
	defer stopWork()
	iv.dispatch.work = work
	if err := iv.begin(); err != nil {
		return err
	}
	ready()
	idle := make(chan struct{})
	go func() {
		defer close(iv.ended)
		iv.dispatch.loop(idle)
	}()
	var listeners sync.WaitGroup
	listeners.Go(func() { iv.listen(work) })
	listeners.Go(func() { iv.health.watch(work) })
	listeners.Go(func() { iv.desk.old.watch(work) })
	iv.owing.Go(func() { iv.desk.watchOwed(iv.desk.ctx) })

	iv.accept(ctx)
	iv.dispatch.post(draining{})
	iv.drain()
	shutting := shut{make(chan struct{})}
	iv.dispatch.post(shutting)
	<-shutting.done
	stopWork()
	listeners.Wait()
	iv.dispatch.workers.Wait()
	close(idle)
	<-iv.ended
	iv.dispatch.hangUp()
	return iv.leave()
}

// begin takes over or removes what an earlier process left.
func (iv *Invoker) begin() error {
	if keeper, ok := iv.ports.Engine.(Keeper); ok {
		return iv.inherit(keeper)
	}
	if err := iv.cleanUp("leftover"); err != nil {
		return err
	}
	iv.dispatch.settleHeirs(iv.dispatch.clock())
	return nil
}

// Close lets no more acks and records out, and has the journal keep what is owed.
// It is called after the outbox and the store have been flushed, and before the
// journal is closed.
func (iv *Invoker) Close() {
	iv.flush()
	iv.owing.Wait()
	iv.desk.keepOwed()
}

func (iv *Invoker) cleanUp(whose string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
	defer cancel()
	if err := iv.ports.Engine.CleanUp(ctx, iv.settings.Prefix); err != nil {
		return fmt.Errorf("remove %s containers %s*: %w", whose, iv.settings.Prefix, err)
	}
	return nil
}

// listen tells the dispatcher about containers that died by themselves.
func (iv *Invoker) listen(ctx context.Context) {
	for {
		select {
		case id, ok := <-iv.ports.Engine.Died():
			if !ok {
				return
			}
			iv.dispatch.post(died{id})
		case <-ctx.Done():
			return
		}
	}
}

// drain waits until every accepted activation is completed, or until the time is
// up.
func (iv *Invoker) drain() {
	late := time.NewTimer(iv.settings.Drain)
	defer late.Stop()
	if n := iv.places.drain(late.C); n > 0 {
		iv.log.Warn("drain deadline passed, unfinished activations will be delivered again",
			"unfinished", n, "deadline", iv.settings.Drain)
	}
}

// tell hands the dispatcher news from outside of its workers, which it may not
// outlive: once it has ended the news is of no use.
func (iv *Invoker) tell(e event) { iv.dispatch.tell(e) }

// shut makes the dispatcher start nothing more, from the closing of done on.
type shut struct{ done chan struct{} }

func (e shut) apply(d *dispatcher, _ time.Duration) {
	d.closed = true
	close(e.done)
}

// InFlight is how many activations are accepted and not completed, those that
// are parked included.
func (iv *Invoker) InFlight() int { return int(iv.places.taken.Load() + iv.places.parked.Load()) }
