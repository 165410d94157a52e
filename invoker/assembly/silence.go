package assembly

import (
	"context"
	"sync"
)

// silence has pings say "disabled" while nothing can be done, so that
// controllers choose another invoker, and enabled when it can again, unless an
// operator or the stop disabled them meanwhile.
type silence struct {
	mu     sync.Mutex
	wanted bool // nothing can be done
	ours   bool // it was us who disabled the pings
	busy   bool // a goroutine carries the wish out
}

// setUnable is told why nothing can be done, or "". It does not block.
func (a *assembly) setUnable(why string) {
	a.unable.Store(why)
	s := &a.silenced
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = why != ""
	if !s.busy {
		s.busy = true
		go a.followWish()
	}
}

// followWish ends when the pings say what is wished for.
func (a *assembly) followWish() {
	s := &a.silenced
	for {
		s.mu.Lock()
		wanted, p := s.wanted, a.pinger.Load()
		if p == nil || wanted == s.ours || a.stopping.Load() {
			s.busy = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), disableTime)
		var err error
		operators := false
		switch {
		case !wanted:
			err = p.Enable(ctx)
		case p.Status().Enabled:
			err = p.Disable(ctx)
		default: // an operator was first, and enables them again
			wanted, operators = false, true
		}
		cancel()
		if err != nil { // it is said when the broker is back
			a.Log.Warn("switch pings", "error", err)
		}
		s.mu.Lock()
		s.ours = wanted
		if operators && s.wanted {
			s.busy = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}
