package assembly

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
)

// pinging is what silence switches: a kafka.Pinger.
type pinging interface {
	Enable(ctx context.Context) error
	Disable(ctx context.Context) error
	Status() kafka.PingStatus
}

// silence has pings say "disabled" while nothing can be done, so that
// controllers choose another invoker, and enabled when it can again, unless an
// operator or the stop disabled them.
type silence struct {
	mu     sync.Mutex
	wanted bool // nothing can be done
	ours   bool // it was us who disabled the pings
	busy   bool // a goroutine carries the wish out
}

// setUnable is told why nothing can be done, or "". It does not block.
func (a *assembly) setUnable(why string) {
	a.unable.Store(why)
	if p := a.pinger.Load(); p != nil {
		a.silenced.wish(why != "", p, a.barred, a.Log)
	}
}

// barred tells whether others want the pings to be disabled.
func (a *assembly) barred() bool { return a.retired.Load() || a.stopping.Load() }

func (s *silence) wish(silent bool, p pinging, barred func() bool, log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = silent
	if !s.busy {
		s.busy = true
		go s.follow(p, barred, log)
	}
}

// keep is called when somebody else wants pings again. While nothing can be done
// they stay silent, and are enabled when it can.
func (s *silence) keep() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted {
		s.ours = true
	}
	return s.wanted
}

// follow ends when the pings say what is wished for. A switch that fails has been
// made all the same: the pinger tells of it when the broker is back.
func (s *silence) follow(p pinging, barred func() bool, log *slog.Logger) {
	for {
		s.mu.Lock()
		wanted := s.wanted
		if wanted == s.ours {
			s.busy = false
			s.mu.Unlock()
			return
		}
		if wanted && !p.Status().Enabled { // others were first, and enable them again
			s.busy = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if err := turn(!wanted, p, barred); err != nil {
			log.Warn("switch pings", "error", err)
		}
		s.mu.Lock()
		s.ours = wanted
		s.mu.Unlock()
	}
}

// turn switches pings on, unless they are barred before or meanwhile, or off.
func turn(on bool, p pinging, barred func() bool) error {
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
