package assembly

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
)

// announce starts the pings, and prepares the last one, which is sent when ctx
// ends, before the drain begins.
func (a *assembly) announce(ctx context.Context) {
	p := a.cluster.NewPinger(kafka.PingerConfig{
		Topic: a.c.Kafka.TopicPrefix + "health", Instance: a.instance, Acknowledged: a.state.pinged.taken,
	})
	a.pinger.Store(p)
	message := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		a.stopping.Store(true)
		a.Log.Info("invoker stops: nothing more is pulled, what runs is finished", "version", a.Version, "instance", a.instance.String(),
			"unfinished", a.invoker.Load().InFlight(), "deadline", a.c.Drain.Deadline)
		a.disable(p)
		close(message)
	})
	a.announceStop = func() {
		if !stop() {
			<-message
		}
		// Sent before, unless the invoker ended by itself, or an operator
		// enabled it again.
		a.disable(p)
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
			a.announceStop() // where nothing had to drain it was not sent yet
			p.Close()
		}
		return nil
	}, status: a.pingsStatus}, nil
}

// disable has controllers send nothing more.
func (a *assembly) disable(p *kafka.Pinger) {
	ctx, cancel := context.WithTimeout(context.Background(), disableTime)
	defer cancel()
	if err := p.Disable(ctx); err != nil {
		a.Log.Warn("announce to controllers that this invoker stops", "error", err)
	}
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

// pinging is what silence switches: a kafka.Pinger.
type pinging interface {
	Enable(ctx context.Context) error
	Disable(ctx context.Context) error
	Status() kafka.PingStatus
}

// silence disables the pings while the invoker cannot work, so that controllers
// choose another one, and enables them when it can, unless an operator or the
// stop disabled them.
type silence struct {
	mu     sync.Mutex
	wanted bool // the invoker cannot work
	ours   bool // the pings were disabled here
	busy   bool // follow runs
}

// setUnable is called with why the invoker cannot work, or "". It does not block.
func (a *assembly) setUnable(why string) {
	a.unable.Store(why)
	if p := a.pinger.Load(); p != nil {
		a.silenced.set(why != "", p, a.barred, a.Log)
	}
}

// barred reports whether an operator or the stop has disabled the pings.
func (a *assembly) barred() bool { return a.retired.Load() || a.stopping.Load() }

func (s *silence) set(silent bool, p pinging, barred func() bool, log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = silent
	if !s.busy {
		s.busy = true
		go s.follow(p, barred, log)
	}
}

// keep is called when an operator enables the pings. While the invoker cannot work
// they stay disabled, and are enabled when it can.
func (s *silence) keep() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted {
		s.ours = true
	}
	return s.wanted
}

// follow ends when the pings are as wanted. A change that cannot be sent counts
// as made: the pinger sends it when the broker is back.
func (s *silence) follow(p pinging, barred func() bool, log *slog.Logger) {
	for {
		s.mu.Lock()
		wanted := s.wanted
		if wanted == s.ours {
			s.busy = false
			s.mu.Unlock()
			return
		}
		if wanted && !p.Status().Enabled { // an operator or the stop disabled them
			s.busy = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if err := switchPings(!wanted, p, barred); err != nil {
			log.Warn("switch pings", "error", err)
		}
		s.mu.Lock()
		s.ours = wanted
		s.mu.Unlock()
	}
}

// switchPings switches pings on, unless they are barred before or meanwhile, or off.
func switchPings(on bool, p pinging, barred func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), disableTime)
	defer cancel()
	switch {
	case !on:
		return p.Disable(ctx)
	case barred():
		return nil
	}
	err := p.Enable(ctx)
	if barred() {
		err = errors.Join(err, p.Disable(ctx))
	}
	return err
}

// pings lets the admin endpoints switch the pinger.
type pings struct{ a *assembly }

func (p pings) Enabled() bool {
	k := p.a.pinger.Load()
	return k != nil && k.Status().Enabled
}

func (p pings) Enable() bool { return p.set(true) }

// Disable sends a last ping in any case, as the original does.
func (p pings) Disable() bool { return p.set(false) }

func (p pings) set(on bool) bool {
	k := p.a.pinger.Load()
	if k == nil {
		return false
	}
	p.a.retired.Store(!on)
	was := k.Status().Enabled
	if on && p.a.silenced.keep() {
		p.a.Log.Info("pings are enabled when the container engine is back")
		return was != on
	}
	ctx, cancel := context.WithTimeout(context.Background(), disableTime)
	defer cancel()
	change := k.Disable
	if on {
		change = k.Enable
	}
	if err := change(ctx); err != nil {
		p.a.Log.Warn("switch pings", "enabled", on, "error", err)
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
