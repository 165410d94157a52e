// Package assembly connects the invoker's ports with their adapters. It opens Kafka, CouchDB,
// the container engine and the admin listener in the original's order, runs the invoker
// between them, and closes them in reverse. Both `gpuwhisk invoker` and the one-process
// standalone use it, so a laptop runs the same code as production.
//
// Its own goroutines: the HTTP server; the caller's Beat, which ends with the context; and a
// search for interpreters while the first parts are opened. All other goroutines belong to the
// opened parts.
package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
	"github.com/prometheus/client_golang/prometheus"
)

// Bounds for steps that must not hold up the start or the stop.
const (
	// shutdownTime bounds the wait for requests at the admin listener.
	shutdownTime = 2 * time.Second
	// disableTime bounds the wait for the last ping.
	disableTime = 2 * time.Second
	// blockedTime bounds the wait for the list of blocked namespaces.
	blockedTime = time.Second
)

// Options has the input of Run.
type Options struct {
	Config *config.Config
	Log    *slog.Logger
	// Self is the path of this program; the process runtime starts it as the
	// proxy of native actions.
	Self string
	// Version of this program, for its first and its last line.
	Version string
	// Path is the PATH of action processes (process runtime); empty means the
	// usual one.
	Path string
	// LibraryPath is the LD_LIBRARY_PATH of GPU processes (process runtime), by
	// which the loader finds the NVIDIA driver; empty: its usual path.
	LibraryPath string
	// Engine, when not nil, replaces the configured one; Run closes it.
	Engine Engine
	// EngineWaits, when not nil, changes how long an engine waits for its daemon's reports of
	// logs and of changes.
	EngineWaits func(w *logs.Waits, settle *time.Duration)
	// LocalImages lets users' images without a tag run from Docker's copy where they
	// cannot be pulled.
	LocalImages bool
	// Terminated, when not nil, reports once the context has ended whether a
	// process is to follow, as after SIGTERM, and not after Ctrl-C.
	Terminated func() bool
	// Host is the interface of the admin listener; empty means all.
	Host string
	// Listening, when not nil, is called with the address of the admin listener.
	Listening func(addr string)
	// Ready, when not nil, is called when activations are being accepted.
	Ready func()
	// Beat, when not nil, runs in a goroutine of its own from then on until the
	// stop begins; alive answers when the dispatcher does.
	Beat func(ctx context.Context, alive func(context.Context) error)

	// silence is how long another process with this id may be silent and counts as
	// alive, and how long Kafka may be away before /ping fails; zero is the usual.
	// Tests set it.
	silence time.Duration
}

// assembly wires the pieces of one invoker. Its parts open in order, and a part reads only the
// fields that earlier parts have set.
type assembly struct {
	*base
	messaging  messaging
	state      state
	gpus       gpus
	containers actionEngine
	stores     stores
	telemetry  telemetry
	intake     intake
	parts      openParts
	overview   overview
	port       adminPort
}

// newAssembly makes the pieces and tells each the pieces that it uses. Nothing is open yet.
func newAssembly(o Options) *assembly {
	b := &base{
		Options: o, c: o.Config, metrics: prometheus.NewRegistry(), functions: prometheus.NewRegistry(), began: time.Now(),
		condition: condition{closing: make(chan struct{})},
	}
	a := &assembly{base: b}
	a.messaging.base, a.state.base, a.gpus.base, a.telemetry.base = b, b, b, b
	a.containers.base, a.containers.gpus = b, &a.gpus
	a.stores.base, a.stores.state = b, &a.state
	if a.c.Scheduler.Enabled {
		a.intake = &scheduled{base: b, messaging: &a.messaging, state: &a.state, gpus: &a.gpus, stores: &a.stores}
	} else {
		a.intake = &classic{base: b, messaging: &a.messaging, state: &a.state, gpus: &a.gpus}
	}
	a.overview = overview{base: b, parts: &a.parts, intake: a.intake}
	a.port = adminPort{overview: &a.overview, gpus: &a.gpus, containers: &a.containers}
	return a
}

// Run runs one invoker from its start to its end. It returns when ctx has ended and the
// invoker has drained, or when the start fails.
func Run(ctx context.Context, o Options) (err error) {
	a := newAssembly(o)
	a.stage.Store("starting")
	a.steps = invoker.NewStepObserver(a.metrics)
	manifest, err := a.c.Runtimes.ParseManifest()
	if err != nil {
		return fmt.Errorf("read RUNTIMES_MANIFEST, which must be the controllers' manifest: %w", err)
	}
	if len(manifest.Runtimes()) == 0 {
		a.manifest = "RUNTIMES_MANIFEST has no runtime: actions fail unless they have an image of their own, and so does the controllers' test action"
		a.Log.Warn(a.manifest)
	}
	if err := a.identify(ctx); err != nil {
		return err
	}
	closeListener, err := a.port.open(ctx)
	if err != nil {
		return err
	}
	defer closeListener()
	defer a.containers.findPrograms(ctx)()
	if err := a.parts.open(ctx, a.partsInOrder(manifest)); err != nil {
		return errors.Join(err, a.close())
	}
	err = a.invoker.Load().Run(a.intake.working(ctx), func() { a.announce(ctx) })
	return errors.Join(err, a.close())
}

// close closes the open parts. It is bounded by the time for the last acks and records.
func (a *assembly) close() error {
	a.ready.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), finite(a.c.Drain.Flush))
	defer cancel()
	return a.parts.close(ctx)
}

// partsInOrder lists the invoker's parts in the original's order: Kafka, the container engine,
// the database. A part may use the parts before it.
func (a *assembly) partsInOrder(manifest *activation.Manifest) []part {
	topic := a.c.Kafka.TopicPrefix + a.instance.Topic()
	return slices.Concat([]part{
		{"Kafka", func(ctx context.Context) (hooks, error) { return hooks{}, a.messaging.openKafka(ctx, topic) }},
		// Closed late, for the traces of the last activations.
		{"traces", a.telemetry.openTracer},
		{"StatsD", a.overview.openStatsD},
		{"log files", a.telemetry.openUserLogs},
		// Closed after everything that other processes share: a process that waits
		// for its lock starts at once.
		{"state", a.awaitPrevious},
		{"GPUs", a.gpus.open},
		{"recording", a.gpus.openRecording},
		{"engine", a.containers.open},
		{"bucket of code", a.stores.openBucket},
		{"store of records", a.stores.openRecordStore},
		{"database", func(ctx context.Context) (hooks, error) { return a.stores.open(ctx, manifest) }},
	}, a.intake.parts(topic, manifest), []part{
		{"acks", a.messaging.openProducer},
		{"invoker", func(context.Context) (hooks, error) { return a.newInvoker(manifest) }},
	})
}

func (a *assembly) newInvoker(manifest *activation.Manifest) (hooks, error) {
	s := settings(a.c, a.instance, manifest, a.gpus.devices)
	s.GPU.Record = a.gpus.recording
	if a.gpus.fallbacks != nil {
		s.GPU.Fallbacks = a.gpus.fallbacks
	}
	out := outbox{producer: a.messaging.producer, prefix: a.c.Kafka.TopicPrefix}
	if a.c.Events.Enabled {
		out.events = a.c.Kafka.UserEventPrefix + "events"
	}
	ports := invoker.Ports{
		Actions: actions{a.stores.store}, Records: a.stores.recordStore(), Outbox: out,
		Blacklist: a.stores.store, Journal: a.journal(), Engine: a.containers.engine, Daemon: a.containers.daemon, Dial: a.containers.dial,
		Mover: a.gpus.mover, OnEngineDown: a.setUnable, ContainerStates: a.state.containerStates(), HandoverExpected: a.handoverExpected,
		Tracer: a.telemetry.tracer, UserLogs: a.telemetry.userLogs,
	}
	a.intake.fill(&ports)
	if a.gpus.shim != nil {
		ports.DeviceAdopter = a.gpus.shim
	}
	iv, err := invoker.New(s, ports, invoker.NewMetrics(a.metrics, a.functions), a.Log)
	if err != nil {
		return hooks{}, err
	}
	a.invoker.Store(iv)
	a.intake.use(iv)
	a.stage.Store("adopting or removing containers that a former process left")
	return hooks{close: closer(func() error { iv.Close(); return nil }), status: workStatus, gauges: workGauges}, nil
}
