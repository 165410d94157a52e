package assembly

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/admin"
)

// intake is the source of the invoker's work: its topic in OpenWhisk's classic mode, fetches
// from schedulers in scheduler mode.
type intake interface {
	// Pings switches the work on and off.
	admin.Pings
	// awaitPrevious blocks until no other process works under this id.
	awaitPrevious(ctx context.Context) error
	// parts returns the intake's own parts, opened between the database and the acks.
	parts(topic string, manifest *activation.Manifest) []part
	// fill adds the intake's ports to the invoker's, and use passes the invoker to the intake.
	fill(p *invoker.Ports)
	use(iv *invoker.Invoker)
	// begin lets work come, until ctx ends.
	begin(ctx context.Context)
	// working returns a context that ends when nothing more can come. That may be later than
	// the end of ctx.
	working(ctx context.Context) context.Context
	// follow is called with the reason why the invoker cannot work, or "". It does not block.
	follow(why string)
	// away returns why no work comes, or "".
	away() string
	// pool returns a function that describes the containers as OpenWhisk's invoker of the mode
	// does. It is nil if that invoker has no such page.
	pool() func(ctx context.Context) (any, int, error)
}

// announce lets work come and reports that the invoker is ready.
func (a *assembly) announce(ctx context.Context) {
	a.intake.begin(ctx)
	a.gpus.watch(a.containers.deviceEngine)
	a.stage.Store("")
	a.ready.Store(true)
	a.Log.Info("invoker is ready", "version", a.Version, "instance", a.instance.String(), "topic", a.c.Kafka.TopicPrefix+a.instance.Topic(),
		"memory", a.instance.UserMemory.String(), "runtime", a.engineName(), "gpus", a.gpus.describe(), "policy", a.c.GPU.Policy,
		"admin", a.address, "took", time.Since(a.began).Round(time.Millisecond))
	if a.Ready != nil {
		a.Ready()
	}
	if a.Beat != nil {
		go a.Beat(ctx, func(ctx context.Context) error {
			_, err := a.invoker.Load().Status(ctx)
			return err
		})
	}
}

// stops logs that the stop begins.
func (b *base) stops() {
	b.Log.Info("invoker stops: nothing more is pulled, running activations are finished", "version", b.Version, "instance", b.instance.String(),
		"unfinished", b.invoker.Load().InFlight(), "deadline", b.c.Drain.Deadline)
	b.stopping.Store(true)
}

// classic is the classic mode: controllers send activations to the invoker's topic
// while it pings.
type classic struct {
	*base
	messaging *messaging
	state     *state
	gpus      *gpus

	feed         *kafka.Feed
	from         *sources
	gpuHosts     *gpuHosts // nil: no activation is passed on
	pinger       atomic.Pointer[kafka.Pinger]
	following    sync.WaitGroup // the switching of the pings
	announceStop func()         // sends the last ping and waits for the broker
}

func (a *classic) parts(topic string, _ *activation.Manifest) []part {
	return []part{
		// The pings begin when the invoker is ready. They end after the last commit, which the
		// next process reads when the pings have ended.
		{"pings", a.openPings},
		// The feed commits offsets. It closes after acks and records, which are safe then.
		{"activations", func(context.Context) (hooks, error) { return a.openSources(topic), nil }},
	}
}

func (*classic) pool() func(context.Context) (any, int, error) { return nil }

func (a *classic) fill(p *invoker.Ports) {
	p.Feed = a.from
	if a.gpuHosts != nil {
		p.GPUHosts = a.gpuHosts
	}
}

func (*classic) use(*invoker.Invoker) {}

func (*classic) working(ctx context.Context) context.Context { return ctx }
