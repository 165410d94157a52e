// Package invoker runs activations. It takes their messages from Kafka, lets the pure cores
// decide where each activation runs, runs it in a container and completes it exactly once. It
// declares the ports that it needs (ports.go) and imports no adapter of a peer. It imports
// invoker/proxy, which speaks /init and /run, and the traces of internal/operate/explain.
//
// Read the files in the order of an activation's path:
//
//	accept.go      turns a message into a pending activation and chooses its path
//	route.go       chooses the CPU path, a GPU, or an end without a run, by the action
//	dispatcher.go  the event loop that owns the cores (events.go); gpu.go is its part for GPUs
//	worker.go      runs the activation in its container (container.go); lease.go is its part for GPUs
//	completer.go   completes it exactly once: acks, event and record (send.go)
//
// Package internal/delivery decides which entries, acks and records are due. adopt.go,
// statefile.go and handover.go keep containers across restarts. observer.go counts, logs and
// traces.
//
// Its goroutines: one accepts messages from the feed, one is the event loop, one per
// activation fetches its action or runs it, and one carries out each order of a core. Run
// starts them, and returns when they have ended. Close waits for the admissions.
package invoker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
)

// Ports has the invoker's connections to the outside.
type Ports struct {
	Feed            Feed
	Actions         Actions
	Records         Records
	Outbox          Outbox
	Blacklist       Blacklist
	Journal         Journal
	Engine          Engine
	Daemon          Daemon          // nil: containers end with this process
	ContainerStates ContainerStates // nil: nothing outlives the process
	Dial            Dialer
	Mover           MemoryMover
	DeviceAdopter   DeviceAdopter // nil: containers with a device end with this process
	Tracer          Tracer        // nil: not asked for
	UserLogs        UserLogs      // nil: logs go into records alone
	Events          Events        // nil in classic mode
	GPUHosts        GPUHosts      // nil: no activation is passed on
	// OnEngineDown, when not nil, is called with the reason why no container can be created
	// now, and with "" when that is possible again. It must not block.
	OnEngineDown func(reason string)
	// HandoverExpected, when not nil, is called at the stop. It reports whether the next
	// process will adopt the idle containers.
	HandoverExpected func() bool
}

// Invoker runs the activations of one Kafka topic.
type Invoker struct {
	settings Settings
	ports    Ports
	metrics  *Metrics
	log      *slog.Logger
	observe  *observer

	completer *completer
	flush     context.CancelFunc
	dispatch  *dispatcher
	health    *engineHealth

	ended      chan struct{} // closed when the dispatcher has ended
	watching   sync.WaitGroup
	admissions sync.WaitGroup // steps of admission that may block
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
		settings: s, ports: p, metrics: m, log: log, flush: flush, ended: make(chan struct{}),
	}
	iv.observe = &observer{metrics: m, traces: explain.NewLog(s.Explain), exporter: p.Tracer, instant: epoch.Add}
	iv.health = newEngineHealth(p.Engine, p.Daemon, log, p.OnEngineDown)
	iv.completer = &completer{
		ctx: flushing, outbox: p.Outbox, records: p.Records, journal: p.Journal,
		instance: s.Instance, store: s.Store, logErrors: s.LogErrors, unstored: s.LogUnstored,
		log: log, observe: iv.observe, wall: time.Now, clock: clock, notify: p.Events, freed: make(chan struct{}, 1),
		table: delivery.New(delivery.Config{InFlight: s.InFlight, BacklogBytes: s.GPU.BacklogBytes, Events: s.Events}),
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
		executor: &executor{
			engine: iv.ports.Engine, daemon: iv.ports.Daemon, dial: iv.ports.Dial, mover: iv.ports.Mover,
			stateFiles: newStateFiles(iv.ports.ContainerStates), observe: iv.observe, log: iv.log, began: time.Now(),
		},
		settings: iv.settings, metrics: iv.metrics, clock: clock, events: iv.ports.Events, loop: newEventLoop(),
		queued: map[uint64]*pending{}, containers: map[container.SlotID]*actionContainer{}, alive: map[container.ID]*actionContainer{}, early: map[container.ID]bool{},
	}
	pool, err := container.New(iv.settings.Pool, clock())
	if err != nil {
		return nil, err
	}
	d.pool = pool
	d.pins = newPins(d, iv.ports.Events, iv.health)
	if d.gpus, err = newGPUScheduler(d, iv.ports.DeviceAdopter); err != nil {
		return nil, fmt.Errorf("start gpu scheduling: %w", err)
	}
	d.backlog.Store(-1)
	if d.gpus != nil {
		d.gpus.reportBacklog()
		d.gpus.warmStates = newWarmStates(iv.ports.Events)
		iv.ports.Mover.Listen(func(h gpu.MemoryReport) { iv.dispatch.post(memoryReport{h}) })
	}
	if iv.ports.GPUHosts != nil {
		d.passOn = iv.forward
	}
	d.completer, d.worker = iv.completer, &worker{
		executor: d.executor, post: d.post, completer: iv.completer, health: iv.health, userLogs: iv.ports.UserLogs,
		large:  semaphore.NewWeighted(largeLogs),
		bounds: iv.settings.Bounds, clock: clock,
	}
	return d, nil
}

// Run adopts or removes containers of an earlier process, calls ready, and works until ctx
// ends. Then it drains: it pulls nothing more, finishes accepted activations within
// Settings.Drain, and removes containers or leaves them to the next process. Unfinished
// activations are delivered again to the next process. The completer goes on sending until
// Close.
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
		iv.dispatch.serve(idle)
	}()
	var listeners sync.WaitGroup
	listeners.Go(func() { iv.listen(work) })
	listeners.Go(func() { iv.health.watch(work) })
	iv.watching.Go(func() { iv.completer.watch(iv.completer.ctx) })

	iv.accept(ctx)
	drains := draining{make(chan struct{})}
	iv.dispatch.post(drains)
	<-drains.begun
	iv.drain()
	shutting := shut{make(chan struct{})}
	iv.dispatch.post(shutting)
	<-shutting.done
	stopWork()
	listeners.Wait()
	iv.dispatch.workers.Wait()
	close(idle)
	<-iv.ended
	iv.dispatch.closeClients()
	return iv.leave()
}

// begin adopts or removes the containers of an earlier process.
func (iv *Invoker) begin() error {
	if iv.ports.Daemon != nil {
		return iv.adoptLeftovers()
	}
	if err := iv.cleanUp("leftover"); err != nil {
		return err
	}
	iv.dispatch.finishAdoption(iv.dispatch.clock())
	return nil
}

// Close ends the sending of acks and records, and makes the journal keep everything that is
// unacknowledged. Call it after the outbox and the store have been flushed, and before the
// journal is closed.
func (iv *Invoker) Close() {
	iv.flush()
	iv.watching.Wait()
	iv.admissions.Wait()
	iv.completer.stop()
}

func (iv *Invoker) cleanUp(whose string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
	defer cancel()
	if err := iv.ports.Engine.CleanUp(ctx, iv.settings.Prefix); err != nil {
		return fmt.Errorf("remove %s containers %s*: %w", whose, iv.settings.Prefix, err)
	}
	return nil
}

// listen reports to the dispatcher the containers that died by themselves.
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

// drain waits until every accepted activation is completed, or until the deadline.
func (iv *Invoker) drain() {
	late := time.NewTimer(iv.settings.Drain)
	defer late.Stop()
	if n := iv.completer.drain(late.C); n > 0 {
		iv.log.Warn("drain deadline passed, unfinished activations will be delivered again",
			"unfinished", n, "deadline", iv.settings.Drain)
	}
}

// shut makes the dispatcher start nothing more, from the closing of done on.
type shut struct{ done chan struct{} }

func (e shut) apply(d *dispatcher, _ time.Duration) {
	d.closed = true
	d.pins.handOver(d.clock())
	close(e.done)
}

// GPUBacklog returns for how long the activations that wait keep the devices busy. It
// returns false if no device can be used. It does not block.
func (iv *Invoker) GPUBacklog() (time.Duration, bool) {
	backlog := iv.dispatch.backlog.Load()
	return time.Duration(max(backlog, 0)), backlog >= 0
}

// InFlight returns how many activations are accepted and not completed.
func (iv *Invoker) InFlight() int { return iv.completer.unfinished() }
