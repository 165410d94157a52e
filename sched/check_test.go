package sched

import "fmt"

// checker asserts the invariants of a Scheduler after each step. It remembers the clocks,
// which must never go back.
type checker struct {
	root   int64
	clocks map[*group]int64
}

func newChecker() *checker { return &checker{clocks: map[*group]int64{}} }

func (c *checker) check(s *Scheduler) error {
	for _, f := range []func(*Scheduler) error{checkTokens, checkFlows, c.checkClocks} {
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

// checkTokens checks that free tokens and runs in flight make up D on each device, except
// while a lowered D drains.
func checkTokens(s *Scheduler) error {
	flying := 0
	for i, d := range s.devices {
		flying += len(d.flights)
		if i > 0 && s.devices[i-1].index >= d.index {
			return fmt.Errorf("devices out of order")
		}
		for _, it := range d.flights {
			if it.run == nil || it.run.device != d {
				return fmt.Errorf("device %d: holds invocation %d, which does not run there", d.index, it.id)
			}
		}
		if sum := d.free() + len(d.flights); !d.leaving && sum != max(d.tokens, len(d.flights)) {
			return fmt.Errorf("device %d: %d free, %d in flight, D %d", d.index, d.free(), len(d.flights), d.tokens)
		}
	}
	if _, inFlight := s.Len(); flying != inFlight {
		return fmt.Errorf("%d in flight, counted %d", flying, inFlight)
	}
	return nil
}

func checkFlows(s *Scheduler) error {
	queued, backlogged, spaces := 0, 0, map[*group]int{}
	for id, f := range s.flows {
		if f.id != id || s.groups[f.group.name] != f.group {
			return fmt.Errorf("flow %s: listed as %s", f.id, id)
		}
		last, n := int64(0), 0
		for _, it := range f.queue {
			if it.flow != f || it.run != nil || it.seq <= last || s.invocations[it.id] != it {
				return fmt.Errorf("flow %s: invocation %d is out of place", f.id, it.id)
			}
			last = it.seq
			n++
		}
		queued += n
		idle := n == 0 && len(f.flights) == 0
		switch {
		case n > 0 && (f.at >= len(s.backlog) || s.backlog[f.at] != f):
			return fmt.Errorf("flow %s: not in the backlog", f.id)
		case n == 0 && (f.competes || f.aside):
			return fmt.Errorf("flow %s: competes %t, aside %t with nothing queued", f.id, f.competes, f.aside)
		case f.competes && f.aside:
			return fmt.Errorf("flow %s: competes and stands aside", f.id)
		case idle != (f.byIdle.at > 0):
			return fmt.Errorf("flow %s: idle %t, listed %t", f.id, idle, f.byIdle.at > 0)
		}
		if n > 0 {
			backlogged++
			spaces[f.group]++
		}
	}
	switch {
	case queued != s.queued:
		return fmt.Errorf("%d queued, counted %d", queued, s.queued)
	case backlogged != len(s.backlog):
		return fmt.Errorf("%d flows with work queued, listed %d", backlogged, len(s.backlog))
	case len(spaces) != len(s.spaces):
		return fmt.Errorf("%d namespaces with work queued, listed %d", len(spaces), len(s.spaces))
	}
	for g, n := range spaces {
		if g.queued != n || s.spaces[g.at] != g {
			return fmt.Errorf("namespace %s: %d flows with work queued, counted %d", g.name, n, g.queued)
		}
	}
	return nil
}

// checkClocks checks that no clock goes back.
func (c *checker) checkClocks(s *Scheduler) error {
	if s.root.clock < c.root {
		return fmt.Errorf("the clock of namespaces went back from %d to %d", c.root, s.root.clock)
	}
	c.root = s.root.clock
	for _, g := range s.groups {
		if g.level.clock < c.clocks[g] {
			return fmt.Errorf("the clock of %s went back from %d to %d", g.name, c.clocks[g], g.level.clock)
		}
		c.clocks[g] = g.level.clock
	}
	return nil
}
