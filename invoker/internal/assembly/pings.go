package assembly

import (
	"cmp"
	"context"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
)

// begin starts the pings, and prepares the last one, which is sent when ctx ends,
// before the drain begins.
func (a *classic) begin(ctx context.Context) {
	cfg := kafka.PingerConfig{
		Topic: a.c.Kafka.TopicPrefix + "health", Instance: a.instance, Process: a.state.namePinger(), Disabled: !a.wanted(),
	}
	if len(a.gpus.devices) > 0 {
		cfg.Backlog = a.invoker.Load().GPUBacklog
	}
	if a.gpuHosts != nil {
		cfg.Heard = a.gpuHosts.heard
	}
	p := a.messaging.cluster.NewPinger(cfg)
	a.pinger.Store(p)
	if p.Status().Enabled != a.wanted() { // that has changed since it was made
		a.following.Go(func() { a.switchPings(p) })
	}
	sent := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		a.stops()
		a.switchPings(p)
		close(sent)
	})
	a.announceStop = func() {
		if stop() { // the invoker ended by itself
			a.stopping.Store(true)
			a.switchPings(p)
			return
		}
		<-sent
	}
}

// openPings returns the hooks of the pings. begin starts the pings, and the close hook ends
// them.
func (a *classic) openPings(context.Context) (hooks, error) {
	return hooks{close: func(context.Context) error {
		if p := a.pinger.Load(); p != nil {
			a.announceStop()
			a.following.Wait()
			p.Close()
		}
		return nil
	}, status: a.pingsStatus}, nil
}

func (a *classic) pingsStatus(s *status) {
	p := a.pinger.Load().Status()
	s.Kafka.Pings = p
	if !p.Enabled && !a.stopping.Load() {
		s.because("disabled", "POST /enable makes controllers send work again")
	}
	s.because("pings", p.Interrupted)
	s.because("another process pings with this id", p.Duplicate)
}

// pinging is a kafka.Pinger; follow switches it.
type pinging interface {
	Enable(ctx context.Context) error
	Disable(ctx context.Context) error
}

// follow switches the pings on or off as wanted says, and again if that changes meanwhile. It
// is called after each change, and calls may overlap. A change that cannot be sent counts as
// made, because the pinger sends it when the broker is back.
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
func (c *condition) wanted() bool {
	why, _ := c.unable.Load().(string)
	return !c.retired.Load() && !c.stopping.Load() && why == ""
}

func (b *base) switchPings(p *kafka.Pinger) {
	if err := follow(p, b.wanted); err != nil {
		b.Log.Warn("switch pings", "enabled", b.wanted(), "error", err)
	}
}

// setUnable is called with the reason why the invoker cannot work, or "". Controllers then
// choose another invoker. It does not block.
func (a *assembly) setUnable(why string) {
	a.unable.Store(why)
	a.intake.follow(why)
}

func (a *classic) follow(string) {
	if p := a.pinger.Load(); p != nil {
		a.following.Go(func() { a.switchPings(p) })
	}
}

func (a *classic) Enabled() bool {
	k := a.pinger.Load()
	return k != nil && k.Status().Enabled
}

func (a *classic) Enable() bool { return a.set(true) }

func (a *classic) Disable() bool { return a.set(false) }

// set switches the pings and reports whether that changed anything. While the invoker cannot
// work, the pings stay disabled and are enabled later. Before there is a pinger, set
// determines its initial state.
func (a *classic) set(on bool) bool {
	was := !a.retired.Swap(!on)
	k := a.pinger.Load()
	if k == nil {
		return was != on
	}
	was = k.Status().Enabled
	a.switchPings(k)
	if on && !a.wanted() {
		a.Log.Info("pings are enabled when the invoker can work")
	}
	return was != on
}

// kafkaTimeout is how long Kafka may be away before /ping fails: a controller that receives no
// ping for so long sends nothing more, either.
const kafkaTimeout = 10 * time.Second

// kafkaAway returns why Kafka delivers no work, or "": the pings or the reading have failed for
// too long. Until the first ping has arrived no controller knows the invoker, so a failed ping
// counts at once. Otherwise a rollout would take the invoker for ready and go on.
func kafkaAway(pings kafka.PingStatus, feed kafka.FeedStats, now time.Time, timeout time.Duration) string {
	long := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) >= timeout }
	switch {
	case long(feed.Since):
		return "activations cannot be read since " + feed.Since.UTC().Format(time.RFC3339) + ": " + feed.Interrupted
	case long(pings.Since), pings.Last.IsZero() && !pings.Since.IsZero():
		return "controllers receive no ping since " + pings.Since.UTC().Format(time.RFC3339) + ": " + pings.Interrupted
	}
	return ""
}

func (a *classic) away() string {
	return kafkaAway(a.pinger.Load().Status(), a.feed.Stats(), time.Now(), cmp.Or(a.silence, kafkaTimeout))
}
