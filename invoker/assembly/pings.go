package assembly

import (
	"context"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
)

// announce starts the pings, and prepares the last one, which is sent when ctx
// ends, before the drain begins.
func (a *assembly) announce(ctx context.Context) {
	p := a.cluster.NewPinger(kafka.PingerConfig{
		Topic: a.c.Kafka.TopicPrefix + "health", Instance: a.instance, Acknowledged: a.state.pinged.taken, Disabled: !a.wanted(),
	})
	a.pinger.Store(p)
	sent := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		a.Log.Info("invoker stops: nothing more is pulled, what runs is finished", "version", a.Version, "instance", a.instance.String(),
			"unfinished", a.invoker.Load().InFlight(), "deadline", a.c.Drain.Deadline)
		a.stopping.Store(true)
		a.follow(p)
		close(sent)
	})
	a.announceStop = func() {
		if stop() { // the invoker ended by itself
			a.stopping.Store(true)
			a.follow(p)
			return
		}
		<-sent
	}
	a.gpus.watch(a.invoker.Load(), a.deviceEngine, a.Log)
	a.stage.Store("")
	a.ready.Store(true)
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

// openPings has the pings, which announce begins, end with the last one.
func (a *assembly) openPings(context.Context) (hooks, error) {
	return hooks{close: func(context.Context) error {
		if p := a.pinger.Load(); p != nil {
			a.announceStop()
			a.following.Wait()
			p.Close()
		}
		return nil
	}, status: a.pingsStatus}, nil
}

func (a *assembly) pingsStatus(s *status) {
	p := a.pinger.Load().Status()
	s.Kafka.Pings = p
	if !p.Enabled && !a.stopping.Load() {
		s.because("disabled", "POST /enable makes controllers send work again")
	}
	s.because("pings", p.Interrupted)
	s.because("another process pings with this id", p.Duplicate)
}

// pinging is what follow switches: a kafka.Pinger.
type pinging interface {
	Enable(ctx context.Context) error
	Disable(ctx context.Context) error
}

// follow switches the pings to what is wanted, and again where that changes
// meanwhile: each change is followed by a call, and calls may overlap. A change
// that cannot be sent counts as made: the pinger sends it when the broker is
// back.
func follow(p pinging, wanted func() bool) error {
	for {
		on, change := wanted(), p.Disable
		if on {
			change = p.Enable
		}
		ctx, cancel := context.WithTimeout(context.Background(), disableTime)
		err := change(ctx)
		cancel()
		if wanted() == on {
			return err
		}
	}
}

// wanted reports whether controllers may send work: neither an operator nor the
// stop has disabled the pings, and the invoker can work.
func (a *assembly) wanted() bool {
	why, _ := a.unable.Load().(string)
	return !a.retired.Load() && !a.stopping.Load() && why == ""
}

func (a *assembly) follow(p *kafka.Pinger) {
	if err := follow(p, a.wanted); err != nil {
		a.Log.Warn("switch pings", "enabled", a.wanted(), "error", err)
	}
}

// setUnable is called with why the invoker cannot work, or "", so that controllers
// choose another one meanwhile. It does not block.
func (a *assembly) setUnable(why string) {
	a.unable.Store(why)
	if p := a.pinger.Load(); p != nil {
		a.following.Go(func() { a.follow(p) })
	}
}

// pings lets the admin endpoints switch the pinger.
type pings struct{ a *assembly }

func (p pings) Enabled() bool {
	k := p.a.pinger.Load()
	return k != nil && k.Status().Enabled
}

func (p pings) Enable() bool { return p.set(true) }

func (p pings) Disable() bool { return p.set(false) }

// set reports whether it changed anything. While the invoker cannot work the pings
// stay disabled, and are enabled when it can.
func (p pings) set(on bool) bool {
	k := p.a.pinger.Load()
	if k == nil {
		return false
	}
	was := k.Status().Enabled
	p.a.retired.Store(!on)
	p.a.follow(k)
	if on && !p.a.wanted() {
		p.a.Log.Info("pings are enabled when the invoker can work")
	}
	return was != on
}

// kafkaTimeout is how long Kafka may be away before /ping fails: a controller
// without a ping for so long sends nothing more, either.
const kafkaTimeout = 10 * time.Second

// kafkaAway is why Kafka delivers no work, empty where it does: the pings or the
// reading have failed for too long.
func kafkaAway(pings kafka.PingStatus, feed kafka.FeedStats, now time.Time, timeout time.Duration) string {
	long := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) >= timeout }
	switch {
	case long(feed.Since):
		return "activations cannot be read since " + feed.Since.UTC().Format(time.RFC3339) + ": " + feed.Interrupted
	case long(pings.Since):
		return "controllers receive no ping since " + pings.Since.UTC().Format(time.RFC3339) + ": " + pings.Interrupted
	}
	return ""
}

func (a *assembly) kafkaAway() string {
	timeout := a.silence
	if timeout == 0 {
		timeout = kafkaTimeout
	}
	return kafkaAway(a.pinger.Load().Status(), a.feed.Stats(), time.Now(), timeout)
}
