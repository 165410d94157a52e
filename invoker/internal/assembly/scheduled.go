package assembly

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/clients"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull/slot"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// gpuTag marks an invoker with a GPU (annotation invoker-resources).
const gpuTag = "gpu"

// lastFetches bounds the wait for fetches that are out at the stop.
const lastFetches = 30 * time.Second

// scheduled is the scheduler mode: schedulers order containers on the invoker's
// topic, and activations are fetched from them.
type scheduled struct {
	*base
	messaging  *messaging
	state      *state
	gpus       *gpus
	stores     *stores
	from       *sources
	registry   *etcd.Client
	schedulers *fetch.Client
	orders     *kafka.Feed
	puller     atomic.Pointer[pull.Puller]
	topic      string
	running    sync.WaitGroup
	halt       context.CancelFunc // ends the reading of orders
}

// awaitPrevious returns at once: the health key in etcd shows another process, and etcd is not
// open yet.
func (a *scheduled) awaitPrevious(context.Context) error { return nil }

func (a *scheduled) parts(topic string, manifest *activation.Manifest) []part {
	a.topic = topic
	return []part{
		{"etcd", a.openEtcd},
		{"schedulers", func(context.Context) (hooks, error) { return a.openPuller(manifest) }},
	}
}

// reported returns the instance for schedulers. An invoker with a GPU has the tag "gpu".
func (a *scheduled) reported() activation.Instance {
	i := a.instance
	if len(a.gpus.devices) > 0 && !slices.Contains(i.Tags, gpuTag) {
		i.Tags = append(slices.Clone(i.Tags), gpuTag)
	}
	return i
}

func (a *scheduled) openEtcd(ctx context.Context) (hooks, error) {
	cfg := clients.Etcd(a.c.Scheduler, a.Log)
	cfg.Instance = a.instance
	cfg.LeaseFile = a.state.besideJournal("lease")
	var err error
	if a.registry, err = etcd.New(cfg); err != nil {
		return hooks{}, err
	}
	h := hooks{close: closer(a.registry.Close), status: func(s *status) {
		s.Etcd = new(a.registry.State())
		s.because("etcd", s.Etcd.LastError)
	}}
	a.stage.Store("waiting for etcd, or for another process with this id to end")
	return h, a.registry.Claim(ctx)
}

func (a *scheduled) openPuller(manifest *activation.Manifest) (hooks, error) {
	c := a.c.Scheduler
	a.schedulers = fetch.New(fetch.Config{Log: a.Log, Payload: activation.Size(a.c.Limits.Payload)})
	a.orders = a.messaging.cluster.NewFeed(kafka.FeedConfig{Topic: a.topic, Delay: a.observeDelay(), Raw: true})
	a.from = newSources(a.state.journal, a.Log, nil)
	cfg := pull.Config{
		Bounds: a.c.Limits.Bounds(), Defaults: namespaceDefaults(a.c.Limits.Namespace),
		Instance: a.reported(), Cluster: activation.Cluster(c.Cluster), Manifest: manifest, MemoryMB: int64(mib(a.c.Pool.UserMemory)),
		GPUs: len(a.gpus.devices), JobTime: finite(c.JobTime), BlackboxMultiple: c.BlackboxMultiple, ReportEvery: max(finite(c.MemorySync), time.Millisecond),
		Slots: slot.Config{
			PauseGrace: orNever(a.c.Proxy.PauseGrace), IdleTimeout: orNever(a.c.Proxy.IdleContainer), Keeping: orNever(c.Keeping),
			GPU: slot.DefaultGPU(len(a.gpus.devices), a.c.GPU.Tokens.Max),
		},
	}
	ports := pull.Ports{
		Orders: orders{a.orders}, Acks: creationAcks{a.messaging}, Schedulers: a.schedulers, Registry: a.registry,
		Deliver: a.from.deliver, Limits: a.stores.store,
	}
	if j := a.state.journal; j != nil {
		ports.Journal = j
	} else {
		a.Log.Warn("there is no journal (whisk.gpu.journal): fetched activations that have not ended are lost with the process")
	}
	puller := pull.New(cfg, ports, a.Log)
	a.puller.Store(puller)
	if a.retired.Load() {
		puller.Disable()
	}
	return hooks{close: a.closePuller, status: a.pullStatus, gauges: pullGauges}, nil
}

func (a *scheduled) closePuller(ctx context.Context) error {
	if a.halt != nil {
		a.halt()
	}
	a.running.Wait()
	a.puller.Load().Close()
	return errors.Join(a.from.close(ctx), a.orders.Close(ctx), a.schedulers.Close())
}

func (a *scheduled) pullStatus(s *status) {
	stats := a.puller.Load().Stats()
	s.Schedulers = &schedulerStatus{Stats: stats, Calls: a.schedulers.States()}
	k := &s.Kafka
	k.Feed = a.orders.Stats()
	k.Lag = k.Feed.Lag()
	s.because("reading orders of schedulers", k.Feed.Interrupted)
	s.because("committing offsets", k.Feed.CommitFailing)
	if stats.Full {
		s.because("fetching", "the journal is full (whisk.gpu.journal-size): nothing is fetched until activations have ended")
	}
	if !a.puller.Load().Enabled() && !a.stopping.Load() {
		s.because("disabled", "POST /enable makes schedulers send work again")
	}
}

// schedulerStatus is the health of the parts of scheduler mode.
type schedulerStatus struct {
	pull.Stats
	Calls []fetch.State `json:"schedulers"`
}

func (a *scheduled) fill(p *invoker.Ports) {
	p.Feed, p.Events = a.from, a.puller.Load()
}

func (a *scheduled) use(iv *invoker.Invoker) { a.puller.Load().Use(iv) }

func (a *scheduled) begin(ctx context.Context) {
	var running context.Context
	running, a.halt = context.WithCancel(context.WithoutCancel(ctx))
	a.running.Go(func() { a.puller.Load().Run(running) })
	a.running.Go(func() { a.followSchedulers(running) })
	a.running.Go(func() { a.samplePool(running) })
}

// followSchedulers opens a channel to each new scheduler in advance, because the first call
// takes long. It closes the channels of schedulers that are gone.
func (a *scheduled) followSchedulers(ctx context.Context) {
	var before []activation.Endpoint
	for ctx.Err() == nil {
		all, changed := a.registry.Schedulers()
		var live []activation.Endpoint
		for _, s := range all {
			at := s.Endpoints.Endpoint
			live = append(live, at)
			if !slices.Contains(before, at) {
				a.running.Go(func() { a.warmUp(ctx, at) })
			}
		}
		a.schedulers.Retain(live)
		before = live
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// warmUp makes the first call to a scheduler. A starting scheduler puts its key into etcd
// before it listens.
func (a *scheduled) warmUp(ctx context.Context, at activation.Endpoint) {
	listed := func() bool {
		all, _ := a.registry.Schedulers()
		return slices.ContainsFunc(all, func(s activation.SchedulerState) bool { return s.Endpoints.Endpoint == at })
	}
	pause := retry.Default()
	for {
		err := a.schedulers.WarmUp(ctx, at)
		if err == nil || errors.Is(err, fetch.ErrRejected) || !pause.Wait(ctx) || !listed() {
			return
		}
	}
}

// working returns a context that ends after the fetches in flight are answered. Their
// activations exist nowhere else.
func (a *scheduled) working(ctx context.Context) context.Context {
	working, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		defer end()
		a.stops()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFetches)
		defer cancel()
		a.puller.Load().Stop(last)
	})
	return working
}

func (a *scheduled) follow(why string) { a.puller.Load().SetUnable(why) }

// Enabled reports whether schedulers send work (admin.Pings).
func (a *scheduled) Enabled() bool {
	p := a.puller.Load()
	return p != nil && p.Enabled()
}

// Enable makes schedulers send work.
func (a *scheduled) Enable() bool {
	changed := a.retired.Swap(false)
	if p := a.puller.Load(); p != nil {
		p.Enable()
	}
	return changed
}

// Disable tells schedulers to send no more work. Containers end when they have nothing to do.
func (a *scheduled) Disable() bool {
	changed := !a.retired.Swap(true)
	if p := a.puller.Load(); p != nil {
		p.Disable()
	}
	return changed
}

// pool counts activations that have not ended, whether or not they run in a container of a
// scheduler.
func (a *scheduled) pool() func(context.Context) (any, int, error) {
	return func(ctx context.Context) (any, int, error) {
		iv := a.invoker.Load()
		if iv == nil {
			return nil, 0, errors.New("the invoker is not ready")
		}
		work, err := iv.Status(ctx)
		if err != nil {
			return nil, 0, err
		}
		pool := a.puller.Load().Pool()
		for _, c := range work.Containers {
			if c.State == "prewarmed" {
				pool.Prewarmed.Kinds[c.Kind]++
				pool.Prewarmed.Total++
			}
		}
		pool.Total += pool.Prewarmed.Total
		return pool, max(a.puller.Load().Count(), iv.InFlight()), nil
	}
}

func (a *scheduled) away() string {
	select {
	case <-a.registry.Taken():
		return "another process is this invoker: its health key in etcd is not ours"
	default:
	}
	return kafkaAway(kafka.PingStatus{}, a.orders.Stats(), time.Now(), cmp.Or(a.silence, kafkaTimeout))
}
