package scheduler

import "fmt"

// Check returns an error that names the first broken invariant. Tests call it
// after every event.
func (s *Scheduler) Check() error {
	runs, of, err := s.checkContainers()
	if err != nil {
		return err
	}
	for _, dev := range s.devices {
		if err := s.checkDevice(dev, of[dev]); err != nil {
			return fmt.Errorf("device %d: %w", dev.Index, err)
		}
	}
	_, inFlight := s.policy.Len()
	switch {
	case runs != inFlight:
		return fmt.Errorf("%d runs have tokens, the policy has %d in flight", runs, inFlight)
	case s.misjudged > 0:
		return fmt.Errorf("%d grants had no slot", s.misjudged)
	}
	if err := s.checkWaits(); err != nil {
		return err
	}
	return s.checkFlows()
}

// checkWaits compares the runs that wait for a device with the runs that have not begun.
func (s *Scheduler) checkWaits() error {
	waiting, listed := 0, 0
	for _, in := range s.invocations {
		if s.cfg.DeviceTimeout > 0 && (in.run == nil || !in.run.begun) {
			waiting++
		}
	}
	for in := s.waits.first; in != nil; in = in.after {
		if in.after != nil && in.after.since < in.since {
			return fmt.Errorf("invocation %d waits since %s, the one after it since %s", in.id, in.since, in.after.since)
		}
		listed++
	}
	if waiting != listed {
		return fmt.Errorf("%d invocations have not begun, %d are listed", waiting, listed)
	}
	return nil
}

// counts has the counters of a device's containers.
type counts struct{ kept, idle, launched, tokens int }

// checkContainers checks each container, and counts the runs that have a token.
func (s *Scheduler) checkContainers() (runs int, of map[*device]counts, err error) {
	of = map[*device]counts{}
	starting := map[*container]int{}
	for _, r := range s.starting {
		starting[r.container]++
	}
	for _, c := range s.containers {
		t := of[c.dev]
		if !c.removing {
			t.kept++
		}
		if c.isIdle() {
			t.idle++
		}
		for _, r := range c.runs {
			if !r.over {
				t.tokens++
				runs++
			}
			if r.begun && !r.over {
				t.launched++
			}
			if r.in.run != r || r.container != c {
				return 0, nil, fmt.Errorf("container %d: its run of invocation %d is another's", c.id, r.in.id)
			}
		}
		of[c.dev] = t
		taken, _ := c.slots()
		switch {
		case taken > c.width || len(c.runs) > 0 && taken == 0:
			return 0, nil, fmt.Errorf("container %d: %d slots taken of %d, %d runs", c.id, taken, c.width, len(c.runs))
		case c.inside() > c.width:
			return 0, nil, fmt.Errorf("container %d: %d runs inside, %d allowed", c.id, c.inside(), c.width)
		case len(c.waiting)+len(c.blocked)+starting[c] != len(c.runs)-c.inside():
			return 0, nil, fmt.Errorf("container %d: %d runs, %d inside, %d waiting, %d blocked, %d starting",
				c.id, len(c.runs), c.inside(), len(c.waiting), len(c.blocked), starting[c])
		case (c.idle != nil) != (len(c.runs) == 0 && !c.removing):
			return 0, nil, fmt.Errorf("container %d: listed as idle %t with %d runs", c.id, c.idle != nil, len(c.runs))
		case c.failed && len(c.runs) == 0 && !c.removing:
			return 0, nil, fmt.Errorf("container %d: failed, empty, and stays", c.id)
		}
	}
	return runs, of, nil
}

func (s *Scheduler) checkDevice(dev *device, t counts) error {
	if err := dev.ledger.Check(); err != nil {
		return err
	}
	switch {
	case dev.kept != t.kept:
		return fmt.Errorf("%d containers are kept, counted %d", t.kept, dev.kept)
	case s.cfg.Pool.Size > 0 && dev.kept > s.cfg.Pool.Size:
		return fmt.Errorf("%d containers in a pool of %d", dev.kept, s.cfg.Pool.Size)
	case t.launched != len(dev.running):
		return fmt.Errorf("%d runs use it, %d counted", t.launched, len(dev.running))
	case t.tokens != dev.inFlight:
		return fmt.Errorf("%d runs hold tokens, %d counted", t.tokens, dev.inFlight)
	case !s.cfg.Tokens.Dynamic && dev.inFlight > dev.d:
		return fmt.Errorf("%d tokens given of %d", dev.inFlight, dev.d)
	case dev.lost != "" && t.idle > 0:
		return fmt.Errorf("lost, with %d idle containers", t.idle)
	}
	return nil
}

// checkFlows compares the flows with the queues, the containers and the policy.
func (s *Scheduler) checkFlows() error {
	invocations, containers, backlogged := 0, 0, s.backlog.Len()
	for _, f := range s.flows {
		n, seq := 0, uint64(0)
		for at := f.queue.Front(); at != nil; at = at.Next() {
			in := at.Value.(*invocation)
			if in.run != nil || in.rev.flow != f || in.seq <= seq || in.queued != at {
				return fmt.Errorf("flow %s: invocation %d is out of order in its queue", f.id, in.id)
			}
			seq = in.seq
			n++
		}
		of := 0
		for _, rev := range f.revs {
			invocations += rev.invocations
			of += len(rev.containers)
		}
		containers += of
		st, known := s.policy.Flow(f.id)
		switch {
		case n != st.Queued || n > 0 && !known:
			return fmt.Errorf("flow %s: %d queued, %d counted, the policy has %d", f.id, n, f.queue.Len(), st.Queued)
		case of != f.containers:
			return fmt.Errorf("flow %s: %d containers, counted %d", f.id, of, f.containers)
		}
		if n > 0 {
			backlogged--
		}
	}
	switch {
	case backlogged != 0:
		return fmt.Errorf("the backlog lists %d flows too many", backlogged)
	case invocations != len(s.invocations):
		return fmt.Errorf("%d invocations of revisions, %d known", invocations, len(s.invocations))
	case containers != len(s.containers):
		return fmt.Errorf("%d containers of flows, %d known", containers, len(s.containers))
	}
	return nil
}
