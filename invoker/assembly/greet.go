package assembly

import (
	"context"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/goheap"
)

// greet tells the world that work is welcome, and prepares the goodbye: when
// ctx ends, controllers hear it before the drain begins.
func (a *assembly) greet(ctx context.Context) {
	p := a.cluster.NewPinger(kafka.PingerConfig{
		Topic: a.c.Kafka.TopicPrefix + "health", Instance: a.instance, Taken: a.state.pinged.taken,
	})
	a.pinger.Store(p)
	said := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		a.stopping.Store(true)
		a.Log.Info("invoker stops: nothing more is pulled, what runs is finished", "version", a.Version, "instance", a.instance.String(),
			"unfinished", a.invoker.Load().InFlight(), "deadline", a.c.Drain.Deadline)
		a.disable(p)
		close(said)
	})
	a.goodbye = func() {
		if !stop() {
			<-said
		}
		// Already said, unless the invoker ended by itself, or somebody
		// enabled it again.
		a.disable(p)
	}
	a.gpus.watch(a.invoker.Load(), a.engine, a.Log)
	a.stage.Store("")
	a.ready.Store(true)
	goheap.Tune()
	a.Log.Info("invoker is ready", "version", a.Version, "instance", a.instance.String(), "topic", a.c.Kafka.TopicPrefix+a.instance.Topic(),
		"memory", a.instance.UserMemory.String(), "runtime", a.c.Runtimes.Kind, "gpus", a.gpus.describe(), "policy", a.c.GPU.Policy,
		"admin", a.admin, "took", time.Since(a.began).Round(time.Millisecond))
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

// closePings ends the pings; controllers have heard the goodbye.
func (a *assembly) closePings(context.Context) error {
	if p := a.pinger.Load(); p != nil {
		a.goodbye() // who had nothing to drain has not said it yet
		p.Close()
	}
	return nil
}

// disable tells controllers to send nothing more.
func (a *assembly) disable(p *kafka.Pinger) {
	ctx, cancel := context.WithTimeout(context.Background(), disableTime)
	defer cancel()
	if err := p.Disable(ctx); err != nil {
		a.Log.Warn("tell controllers that this invoker stops", "error", err)
	}
}
