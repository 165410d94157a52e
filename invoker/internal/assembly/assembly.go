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
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/clients"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/zookeeper"
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

// assembly is everything that is open. Its parts open in order, and a part reads only the
// fields that earlier parts have set.
type assembly struct {
	Options
	condition
	messaging
	stores
	actionEngine
	c        *config.Config
	instance activation.Instance
	admin    string // address of the admin listener
	began    time.Time

	metrics *prometheus.Registry
	// functions are the metrics of each GPU function, apart from the others: the
	// console reads those once a second.
	functions *prometheus.Registry
	steps     *invoker.StepObserver // of adapters
	recording io.Writer             // nil without whisk.gpu.record
	tracer    invoker.Tracer        // nil: traces are off
	userLogs  invoker.UserLogs      // nil: logs go into records alone

	intake  intake
	parts   openParts
	gpus    gpus
	state   state
	invoker atomic.Pointer[invoker.Invoker]
}

// condition says whether the invoker can work, for /ping, /status and the pings. The fields
// that are not atomic are set before the admin listener opens.
type condition struct {
	ready       atomic.Bool
	stopping    atomic.Bool       // the stop has begun
	retired     atomic.Bool       // an operator disabled it
	stage       atomic.Value      // string: the step that the start waits for
	unable      atomic.Value      // string: why the invoker cannot work
	closing     chan struct{}     // closed when the admin listener closes
	login       string            // why the admin port's login protects nothing; empty if it does
	manifest    string            // why actions of every kind fail; empty if they do not
	certificate *x509.Certificate // of the admin port; nil without https
}

// messaging has the connections to Kafka.
type messaging struct {
	cluster      *kafka.Cluster
	feed         *kafka.Feed
	from         *sources
	gpuHosts     *gpuHosts // nil: no activation is passed on
	producer     *kafka.Producer
	pinger       atomic.Pointer[kafka.Pinger]
	following    sync.WaitGroup // the switching of the pings
	announceStop func()         // sends the last ping and waits for the broker
}

// stores has the databases.
type stores struct {
	store *couchdb.Store
	// records is the store of records; nil where that is CouchDB.
	records clients.Store
	bucket  *bucket // nil: no code is in S3
}

// actionEngine runs the actions.
type actionEngine struct {
	programs     func() runtimes.Programs // the interpreters of this host, searched by findPrograms
	engine       Engine
	deviceEngine deviceEngine   // nil: actions run as processes
	daemon       invoker.Daemon // nil: actions run as processes
	// fromContainer reports whether an address is that of an action container. It is nil
	// before the engine is open, and for processes.
	fromContainer atomic.Pointer[func(netip.Addr) bool]
}

// Run runs one invoker from its start to its end. It returns when ctx has ended and the
// invoker has drained, or when the start fails.
func Run(ctx context.Context, o Options) (err error) {
	a := &assembly{Options: o, c: o.Config, metrics: prometheus.NewRegistry(), functions: prometheus.NewRegistry(), began: time.Now()}
	a.closing = make(chan struct{})
	a.intake = classic{a}
	if a.c.Scheduler.Enabled {
		a.intake = &scheduled{assembly: a}
	}
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
	closeListener, err := a.openListener(ctx)
	if err != nil {
		return err
	}
	defer closeListener()
	defer a.findPrograms(ctx)()
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

// identify finds the invoker's number: given, or assigned by ZooKeeper.
func (a *assembly) identify(ctx context.Context) error {
	id := a.c.Identity
	a.instance = activation.Instance{
		UniqueName: id.UniqueName, DisplayedName: id.DisplayedName,
		UserMemory: activation.Size(a.c.Pool.UserMemory),
		Tags:       id.Tags, DedicatedNamespaces: id.DedicatedNamespaces,
	}
	if id.ID != nil {
		a.instance.ID = *id.ID
		return nil
	}
	a.stage.Store("asking ZooKeeper for an invoker id")
	n, err := zookeeper.Assign(ctx, zookeeper.Request{
		Hosts: id.ZooKeeperHosts, Name: id.UniqueName, Overwrite: id.OverwriteID, Log: a.Log,
	})
	if err != nil {
		return fmt.Errorf("assign invoker id: %w (or give one with --id)", err)
	}
	a.instance.ID = n
	return nil
}

// partsInOrder lists the invoker's parts in the original's order: Kafka, the container engine,
// the database. A part may use the parts before it.
func (a *assembly) partsInOrder(manifest *activation.Manifest) []part {
	topic := a.c.Kafka.TopicPrefix + a.instance.Topic()
	return slices.Concat([]part{
		{"Kafka", func(ctx context.Context) (hooks, error) { return hooks{}, a.openKafka(ctx, topic) }},
		// Closed late, for the traces of the last activations.
		{"traces", a.openTracer},
		{"StatsD", a.openStatsD},
		{"log files", a.openUserLogs},
		// Closed after everything that other processes share: a process that waits
		// for its lock starts at once.
		{"state", a.awaitPrevious},
		{"GPUs", a.openGPUs},
		{"recording", a.openRecording},
		{"engine", a.openEngine},
		{"bucket of code", a.openBucket},
		{"store of records", a.openRecordStore},
		{"database", func(ctx context.Context) (hooks, error) { return a.openStore(ctx, manifest) }},
	}, a.intake.parts(topic, manifest), []part{
		{"acks", a.openProducer},
		{"invoker", func(context.Context) (hooks, error) { return a.newInvoker(manifest) }},
	})
}

func (a *assembly) newInvoker(manifest *activation.Manifest) (hooks, error) {
	s := settings(a.c, a.instance, manifest, a.gpus.devices)
	s.GPU.Record = a.recording
	if a.gpus.fallbacks != nil {
		s.GPU.Fallbacks = a.gpus.fallbacks
	}
	out := outbox{producer: a.producer, prefix: a.c.Kafka.TopicPrefix}
	if a.c.Events.Enabled {
		out.events = a.c.Kafka.UserEventPrefix + "events"
	}
	ports := invoker.Ports{
		Feed: a.from, Actions: actions{a.store}, Records: a.recordStore(), Outbox: out,
		Blacklist: a.store, Journal: a.journal(), Engine: a.engine, Daemon: a.daemon, Dial: a.dial,
		Mover: a.gpus.mover, OnEngineDown: a.setUnable, ContainerStates: a.containerStates(), HandoverExpected: a.handoverExpected,
		Tracer: a.tracer, UserLogs: a.userLogs,
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
