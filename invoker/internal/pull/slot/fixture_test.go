package slot

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

const (
	grace = 10 * time.Second
	idle  = 10 * time.Minute
)

// fixture is a table with the orders that it gave.
type fixture struct {
	*testing.T
	t    *Table
	now  time.Duration
	made int
	last Creation
}

func newFixture(t *testing.T) *fixture {
	return &fixture{T: t, t: New(Config{
		PauseGrace: grace, IdleTimeout: idle, Keeping: time.Hour, GPU: DefaultGPU(1, 2),
	})}
}

func creation(n int, name, revision string) Creation {
	return Creation{
		ContainerCreation: &activation.ContainerCreation{
			ID:       activation.ID(fmt.Sprintf("%032x", n)),
			Queue:    activation.NewQueue("guest", activation.ActionRef{Path: "guest", Name: name, Version: "0.0.1"}, revision),
			Endpoint: activation.Endpoint{Host: "s", Port: 1},
		},
		MemoryMB: 256, Concurrency: 1,
	}
}

// create gives the table a creation of an action.
func (f *fixture) create(name string, change ...func(*Creation)) Creation {
	f.made++
	c := creation(f.made, name, "1-a")
	for _, do := range change {
		do(&c)
	}
	f.last = c
	f.t.Create(f.now, c)
	return c
}

// check asserts the invariants.
func (t *Table) check() error {
	var last ID
	var sum load
	for _, s := range t.slots {
		if s.GPU {
			sum.add(s, s.runs)
		}
	}
	if sum != t.load {
		return fmt.Errorf("load %+v, of the slots %+v", t.load, sum)
	}
	for _, s := range t.slots {
		limit := 1
		if s.warmed {
			limit = s.Concurrency
		}
		switch {
		case s.id <= last:
			return fmt.Errorf("slot %d after %d", s.id, last)
		case s.calls < 0 || s.runs < 0:
			return fmt.Errorf("slot %d: %d calls, %d runs", s.id, s.calls, s.runs)
		case s.calls > 0 && !s.existing:
			return fmt.Errorf("slot %d fetches without a key", s.id)
		case !s.GPU && s.state == open && s.calls+s.runs > limit:
			return fmt.Errorf("slot %d: %d calls and %d runs, limit %d", s.id, s.calls, s.runs, limit)
		case s.GPU && s.calls > 1:
			return fmt.Errorf("slot %d: %d calls", s.id, s.calls)
		case s.state >= pausing && s.calls+s.runs > 0:
			return fmt.Errorf("slot %d rests with %d calls and %d runs", s.id, s.calls, s.runs)
		case s.state == leaving && s.calls+s.runs == 0:
			return fmt.Errorf("slot %d has left and waits for nothing", s.id)
		case s.state == paused && (s.existing || !s.warm):
			return fmt.Errorf("slot %d is paused with its keys %v, %v", s.id, s.existing, s.warm)
		case (s.state == open || s.state == pausing) && s.aim != toRemove && !s.existing:
			return fmt.Errorf("slot %d has no key", s.id)
		}
		last = s.id
	}
	return nil
}
