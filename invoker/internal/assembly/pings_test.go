package assembly

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

func (p *slowPings) isEnabled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.enabled
}

// TestPingsFollow: the pings are enabled while the invoker can work and neither an
// operator nor the stop has disabled them, whatever the order in which these
// change, also while the pings are being enabled.
func TestPingsFollow(t *testing.T) {
	type step struct {
		change func(c *condition)
		want   bool
		hold   bool // from now on enabling waits for the next step that does not hold
	}
	away, back := func(c *condition) { c.unable.Store("away") }, func(c *condition) { c.unable.Store("") }
	disable, enable := func(c *condition) { c.retired.Store(true) }, func(c *condition) { c.retired.Store(false) }
	stop := func(c *condition) { c.stopping.Store(true) }
	for name, steps := range map[string][]step{
		"the engine goes and comes":                 {{away, false, false}, {back, true, false}, {away, false, false}, {back, true, false}},
		"it goes while pings are being enabled":     {{away, false, false}, {back, true, true}, {away, false, false}, {back, true, false}},
		"an operator disables before":               {{disable, false, false}, {away, false, false}, {back, false, false}, {enable, true, false}},
		"an operator disables meanwhile":            {{away, false, false}, {disable, false, false}, {back, false, false}, {enable, true, false}},
		"an operator enables meanwhile":             {{disable, false, false}, {away, false, false}, {enable, false, false}, {back, true, false}},
		"an operator disables while they are being": {{away, false, false}, {back, true, true}, {disable, false, false}, {enable, true, false}},
		"the stop while they are being enabled":     {{away, false, false}, {back, true, true}, {stop, false, false}, {enable, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, c := &slowPings{enabled: true}, &condition{}
				for i, s := range steps {
					release := p.hold
					p.hold = nil
					if s.hold {
						p.hold = make(chan struct{})
					}
					s.change(c)
					go func() { _ = follow(p, c.wanted) }()
					if release != nil {
						synctest.Wait()
						close(release)
					}
					synctest.Wait()
					if p.isEnabled() != s.want {
						t.Errorf("step %d: enabled %t, want %t", i, !s.want, s.want)
					}
				}
			})
		})
	}
}

// TestLateEnablingIsUndone: an Enable that was under way when the pings were
// disabled, and comes through after that, is followed by another Disable.
func TestLateEnablingIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var on atomic.Bool
		on.Store(true)
		p := &latePings{release: make(chan struct{})}
		go func() { _ = follow(p, on.Load) }()
		synctest.Wait()
		on.Store(false)
		_ = follow(p, on.Load)
		close(p.release)
		synctest.Wait()
		if p.isEnabled() {
			t.Error("the pings are enabled")
		}
	})
}

// latePings are enabled only when that is released.
type latePings struct {
	slowPings
	release chan struct{}
}

func (p *latePings) Enable(context.Context) error {
	<-p.release
	p.set(true)
	return nil
}
