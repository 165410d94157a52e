package assembly

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
)

// slowPings are pings whose enabling a test can hold up.
type slowPings struct {
	mu      sync.Mutex
	enabled bool
	hold    chan struct{} // Enable returns when it is closed; nil: at once
}

func (p *slowPings) set(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enabled = on
}

func (p *slowPings) Enable(context.Context) error {
	p.set(true)
	if p.hold != nil {
		<-p.hold
	}
	return nil
}

func (p *slowPings) Disable(context.Context) error {
	p.set(false)
	return nil
}

func (p *slowPings) Status() kafka.PingStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return kafka.PingStatus{Enabled: p.enabled}
}

// silenced runs f with pings that are enabled, and a function that silences them.
// want waits until that is done.
func silenced(t *testing.T, f func(p *slowPings, change func(silent bool), barred *atomic.Bool, want func(on bool))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, s, barred := &slowPings{enabled: true}, &silence{}, &atomic.Bool{}
		f(p, func(silent bool) { s.set(silent, p, barred.Load, slog.New(slog.DiscardHandler)) }, barred, func(on bool) {
			t.Helper()
			synctest.Wait()
			if got := p.Status().Enabled; got != on {
				t.Errorf("pings are enabled: %t, want %t", got, on)
			}
		})
	})
}

// An engine that goes away while the pings are being enabled again silences them.
func TestSilenceWhilePingsAreBeingEnabled(t *testing.T) {
	silenced(t, func(p *slowPings, change func(bool), _ *atomic.Bool, want func(bool)) {
		change(true)
		want(false)
		p.hold = make(chan struct{})
		change(false)
		want(true)
		change(true)
		close(p.hold)
		want(false)
		change(false)
		want(true)
	})
}

// Pings that an operator enables while the engine is away stay silent until it is
// back, also where the operator had disabled them.
func TestSilenceIsKeptUntilTheEngineIsBack(t *testing.T) {
	for _, whose := range []string{"ours", "the operator's"} {
		t.Run(whose, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s, barred := &slowPings{enabled: whose == "ours"}, &silence{}, &atomic.Bool{}
				change := func(silent bool) { s.set(silent, p, barred.Load, slog.New(slog.DiscardHandler)) }
				change(true)
				synctest.Wait()
				if !s.keep() || p.Status().Enabled {
					t.Error("pings without an engine")
				}
				change(false)
				synctest.Wait()
				if s.keep() || !p.Status().Enabled {
					t.Error("no pings although the engine is back")
				}
			})
		})
	}
}

// Pings that an operator disabled, or the stop, before, during or after the engine
// was away, stay so.
func TestSilenceEnablesNothingOfOthers(t *testing.T) {
	bar := func(p *slowPings, barred *atomic.Bool) {
		barred.Store(true)
		_ = p.Disable(t.Context())
	}
	for name, f := range map[string]func(p *slowPings, change func(bool), barred *atomic.Bool, want func(bool)){
		"before": func(p *slowPings, change func(bool), barred *atomic.Bool, want func(bool)) {
			bar(p, barred)
			change(true)
			want(false)
			change(false)
		},
		"while it was away": func(p *slowPings, change func(bool), barred *atomic.Bool, want func(bool)) {
			change(true)
			want(false)
			bar(p, barred)
			change(false)
		},
		"while they were being enabled": func(p *slowPings, change func(bool), barred *atomic.Bool, want func(bool)) {
			change(true)
			want(false)
			p.hold = make(chan struct{})
			change(false)
			want(true)
			// The bar is seen before the pings are switched, whose order is left open.
			barred.Store(true)
			close(p.hold)
		},
	} {
		t.Run(name, func(t *testing.T) {
			silenced(t, func(p *slowPings, change func(bool), barred *atomic.Bool, want func(bool)) {
				f(p, change, barred, want)
				want(false)
				barred.Store(false) // and an operator enables them
				p.set(true)
				change(true)
				want(false)
				p.hold = nil
				change(false)
				want(true)
			})
		})
	}
}
