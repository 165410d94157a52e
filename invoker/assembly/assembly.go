// Package assembly is where the invoker's adapters meet its ports: it opens
// Kafka, CouchDB, the container engine and the admin door in the original's
// order, runs the invoker between them, and closes them in reverse. The
// command `gpuwhisk invoker` and the one-process standalone both use it, so
// that what is tried on a laptop is what runs in production.
//
// Its own goroutines: the HTTP server, the caller's Beat, which ends with the
// context, and one that looks for interpreters while the first parts are opened.
// All others belong to what it opens.
package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/kamon"
	"github.com/gpuwhisk/gpuwhisk/invoker/stores"
	"github.com/gpuwhisk/gpuwhisk/invoker/trace"
	"github.com/gpuwhisk/gpuwhisk/invoker/userlogs"
	"github.com/gpuwhisk/gpuwhisk/invoker/zookeeper"
	"github.com/prometheus/client_golang/prometheus"
)

// How long a request at the admin door may take to end.
const (
	shutdownTime = 2 * time.Second
	// disableTime bounds the wait for the ping that says goodbye.
	disableTime = 2 * time.Second
	// blockedTime bounds the wait for the list of blocked namespaces.
	blockedTime = time.Second
)

// Options is what Run needs beside the configuration.
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
	// LibraryPath is where the loader finds this machine's NVIDIA driver for
	// GPU processes (process runtime), as in LD_LIBRARY_PATH; empty where it
	// needs no help.
	LibraryPath string
	// Engine, when not nil, takes the place of the configured one; Run closes
	// it.
	Engine Engine
	// Patient waits longer for a Docker daemon's words on containers than a user
	// would: for tests, on a machine that stands still now and then.
	Patient bool
	// Terminated, when not nil, tells once the context has ended whether a
	// process is to follow, as after SIGTERM, and not after Ctrl-C.
	Terminated func() bool
	// Host is the interface of the admin door; empty means all.
	Host string
	// Listening, when not nil, is told the address of the admin door.
	Listening func(addr string)
	// Ready, when not nil, is called when activations are being accepted.
	Ready func()
	// Beat, when not nil, runs in a goroutine of its own from then on until the
	// goodbye begins; alive answers when the dispatcher does.
	Beat func(ctx context.Context, alive func(context.Context) error)

	// How long another process with this id may be silent and counts as alive,
	// and how long Kafka may be away before /ping fails; zero is the usual. Tests
	// have others.
	lull time.Duration
}

// assembly is everything that is open.
type assembly struct {
	Options
	c        *config.Config
	instance activation.Instance
	admin    string // address of the admin door
	metrics  *prometheus.Registry
	// functions are the metrics of each GPU function, apart from the others: the
	// console reads those once a second.
	functions *prometheus.Registry
	steps     *invoker.Steps // what adapters do
	ready     atomic.Bool
	closing   chan struct{} // the admin door is
	stopping  atomic.Bool   // the goodbye has begun
	stage     atomic.Value  // string: what the start is waiting for
	unable    atomic.Value  // string: why nothing can be done for now
	silenced  silence
	retired   atomic.Bool // an operator disabled it

	gpus      gpus
	laneLog   *laneLog                 // nil without whisk.gpu.record
	tracer    *trace.Tracer            // nil: traces are off
	statsd    *kamon.StatsD            // nil: nothing is sent there
	userLogs  *userlogs.Files          // nil: logs go into records alone
	programs  func() runtimes.Programs // what interpreters there are, once they are looked for
	engine    Engine
	cluster   *kafka.Cluster
	feed      *kafka.Feed
	share     *kafka.Share // nil: nothing is taken that others passed on
	from      *sources
	retention invoker.Retention // of the invoker's topic
	producer  *kafka.Producer
	pinger    atomic.Pointer[kafka.Pinger]
	goodbye   func() // returns when controllers have heard that this invoker stops, or cannot be told
	store     *couchdb.Store
	// elsewhere takes the records where CouchDB does not; nil where it does.
	elsewhere stores.Store
	bucket    *bucket // nil: no code is in S3
	state     state
	invoker   atomic.Pointer[invoker.Invoker]
	began     time.Time
}

// Run is one invoker's whole life. It ends when ctx does, after draining, or
// when the start fails.
func Run(ctx context.Context, o Options) (err error) {
	a := &assembly{Options: o, c: o.Config, metrics: prometheus.NewRegistry(), functions: prometheus.NewRegistry(), closing: make(chan struct{}), began: time.Now()}
	a.stage.Store("starting")
	a.steps = invoker.NewSteps(o.Config.Metrics.Log, a.metrics, o.Log)
	manifest, err := a.manifest()
	if err != nil {
		return err
	}
	if err := a.identify(ctx); err != nil {
		return err
	}
	closeDoor, err := a.openDoor(ctx)
	if err != nil {
		return err
	}
	defer closeDoor()
	defer a.lookForPrograms(ctx)()
	p := parts{all: a.parts(manifest)}
	if err := p.open(ctx); err != nil {
		return errors.Join(err, a.close(&p))
	}
	err = a.invoker.Load().Run(ctx, func() { a.greet(ctx) })
	return errors.Join(err, a.close(&p))
}

// close ends what is open, within the time that the last acks and records have.
func (a *assembly) close(p *parts) error {
	a.ready.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), finite(a.c.Drain.Flush))
	defer cancel()
	return p.close(ctx)
}

func (a *assembly) manifest() (*activation.Manifest, error) {
	r := a.c.Runtimes
	m, err := activation.ParseManifest([]byte(r.Manifest), activation.ManifestOptions{
		RuntimesRegistry: r.Registry, UserImagesRegistry: r.UserRegistry,
		BypassPull: r.BypassPullForLocalImages, LocalPrefix: r.LocalImagePrefix,
	})
	if err != nil {
		return nil, fmt.Errorf("read RUNTIMES_MANIFEST: %w", err)
	}
	return m, nil
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

// parts lists what the invoker stands on, in the original's order: Kafka, the
// container engine, the database. Each may use those before it.
func (a *assembly) parts(manifest *activation.Manifest) []part {
	topic := a.c.Kafka.TopicPrefix + a.instance.Topic()
	return []part{
		{name: "Kafka", open: func(ctx context.Context) error { return a.openKafka(ctx, topic) }},
		// Of the last activations, too; nobody waits for it.
		{name: "traces", open: a.openTracer, close: a.closeTracer},
		{name: "StatsD", open: a.openStatsD, close: a.closeStatsD},
		{name: "log files", open: a.openUserLogs, close: a.closeUserLogs},
		// Closed last of what others meet: who waits for its lock starts at
		// once, and must find nothing of ours.
		{name: "state", open: a.awaitElder, close: func(context.Context) error { return a.state.close() }},
		{name: "GPUs", open: func(ctx context.Context) (err error) {
			if a.gpus, err = openGPUs(ctx, a.c, prefix(a.instance), a.Options); err == nil {
				a.openFallbacks()
			}
			return err
		}, close: func(context.Context) error { return a.gpus.close() }},
		{name: "log of the GPU lane", open: a.openLaneLog, close: a.closeLaneLog},
		{name: "engine", open: a.openEngine, close: a.closeEngine},
		{name: "bucket of code", open: a.openBucket, close: a.closeBucket},
		{name: "store of records", open: a.openElsewhere, flush: a.flushElsewhere, close: a.closeElsewhere},
		{name: "database", open: func(ctx context.Context) error { return a.openStore(ctx, manifest) }, flush: a.flushStore, close: a.closeStore},
		// They begin when the invoker is ready, and end after the last commit:
		// who waits for them to fall silent reads it.
		{name: "pings", close: a.closePings},
		// The last commit of all that touches messages: only then is it true
		// that acks and records are safe.
		{name: "activations", open: func(ctx context.Context) error { return a.openSources(ctx, topic) }, close: a.closeSources},
		{name: "acks", open: a.openProducer, flush: a.closeProducer},
		{name: "invoker", open: func(context.Context) error { return a.newInvoker(manifest) }, close: a.closeInvoker},
	}
}

func (a *assembly) openKafka(ctx context.Context, topic string) (err error) {
	k := a.c.Kafka
	if a.cluster, err = OpenKafka(k, "consumer-"+topic, a.Log); err != nil {
		return err
	}
	a.stage.Store("waiting for Kafka at " + fmt.Sprint(k.Hosts) + " to have the topic " + topic)
	spec := kafka.InvokerTopic(topic, k.ReplicationFactor, k.TopicConfig)
	spec.Partitions = k.Partitions
	if err := a.cluster.EnsureTopic(ctx, spec); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}

func (a *assembly) openProducer(context.Context) error {
	a.producer = a.cluster.NewProducer(kafka.ProducerConfig{
		Name: "acks", MessageBytes: int(a.c.Limits.Payload.MaxMessage()),
	})
	return nil
}

func (a *assembly) closeProducer(ctx context.Context) error {
	if a.producer == nil {
		return nil
	}
	return a.producer.Close(ctx)
}

func (a *assembly) newInvoker(manifest *activation.Manifest) error {
	s, err := settings(a.c, a.instance, manifest, a.gpus.devices)
	if err != nil {
		return err
	}
	if a.laneLog != nil {
		s.GPU.Record = a.laneLog
	}
	if a.gpus.fallbacks != nil {
		s.GPU.Fallbacks = a.gpus.fallbacks
	}
	s.Retention = a.retention
	out := outbox{producer: a.producer, prefix: a.c.Kafka.TopicPrefix}
	if a.c.Events.Enabled {
		out.events = a.c.Kafka.UserEventPrefix + "events"
	}
	ports := invoker.Ports{
		Feed: a.from, Actions: actions{a.store}, Records: a.recordStore(), Outbox: out,
		Blacklist: a.store, Journal: a.account(), Shelf: a.shelf(), Engine: a.engine, Dial: dial,
		Mover: a.gpus.mover, Away: a.setUnable, Notes: a.notes(), Successor: a.successor,
	}
	if a.tracer != nil {
		ports.Tracer = a.tracer
	}
	if a.userLogs != nil {
		ports.UserLogs = a.userLogs
	}
	iv, err := invoker.New(s, ports, invoker.NewMetrics(a.metrics, a.functions), a.Log)
	if err != nil {
		return err
	}
	a.invoker.Store(iv)
	a.stage.Store("looking after containers that a former process left")
	return nil
}

// closeInvoker lets nothing more out; what it had to say is flushed.
func (a *assembly) closeInvoker(context.Context) error {
	if iv := a.invoker.Load(); iv != nil {
		iv.Close()
	}
	return nil
}
