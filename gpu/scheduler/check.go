package scheduler

import (
	"fmt"
)

// Check returns an error that names the first broken invariant. Tests call it
// after every event.
func (l *Scheduler) Check() error {
	runs, of, err := l.checkContainers()
	if err != nil {
		return err
	}
	for _, dev := range l.devices {
		if err := l.checkDevice(dev, of[dev]); err != nil {
			return fmt.Errorf("device %d: %w", dev.Index, err)
		}
	}
	stats := l.policy.Stats()
	switch {
	case runs != stats.InFlight:
		return fmt.Errorf("%d runs hold tokens, the policy has %d in flight", runs, stats.InFlight)
	case l.queued != stats.Queued:
		return fmt.Errorf("%d invocations queued, the policy has %d", l.queued, stats.Queued)
	case l.misjudged > 0:
		return fmt.Errorf("%d grants had no slot", l.misjudged)
	}
	return l.checkFlows()
}

// counts is what was counted of a device's containers.
type counts struct{ all, idle, launched, tokens int }

// checkContainers looks at each container, and counts the runs that hold a token.
func (l *Scheduler) checkContainers() (runs int, of map[*device]counts, err error) {
	of = map[*device]counts{}
	leaving := 0
	starting := map[*container]int{}
	for _, r := range l.starting {
		starting[r.container]++
	}
	for _, b := range l.containers {
		t := of[b.dev]
		if b.removing {
			leaving += b.hostMB
		} else {
			t.all++
			if len(b.runs) == 0 && !b.failed {
				t.idle++
			}
		}
		begun := 0
		for _, r := range b.runs {
			if r.begun {
				begun++
			}
			if !r.over {
				t.tokens++
				runs++
			}
			if r.begun && !r.over {
				t.launched++
			}
			if r.in.run != r || r.container != b {
				return 0, nil, fmt.Errorf("container %d: its run of invocation %d is another's", b.id, r.in.id)
			}
		}
		of[b.dev] = t
		switch {
		case begun != b.inside || b.inside > b.width:
			return 0, nil, fmt.Errorf("container %d: %d runs inside, %d counted, %d allowed", b.id, begun, b.inside, b.width)
		case len(b.waiting)+len(b.blocked)+starting[b] != len(b.runs)-b.inside:
			return 0, nil, fmt.Errorf("container %d: %d runs, %d inside, %d waiting, %d blocked, %d starting",
				b.id, len(b.runs), b.inside, len(b.waiting), len(b.blocked), starting[b])
		case (b.idle != nil) != (len(b.runs) == 0 && !b.removing):
			return 0, nil, fmt.Errorf("container %d: listed as idle %t with %d runs", b.id, b.idle != nil, len(b.runs))
		case b.failed && len(b.runs) == 0 && !b.removing:
			return 0, nil, fmt.Errorf("container %d: failed, empty, and stays", b.id)
		}
	}
	if leaving != l.leaving {
		return 0, nil, fmt.Errorf("%d MiB leave, %d counted", leaving, l.leaving)
	}
	return runs, of, nil
}

func (l *Scheduler) checkDevice(dev *device, t counts) error {
	if err := dev.ledger.Check(); err != nil {
		return err
	}
	if err := dev.pool.Check(); err != nil {
		return err
	}
	all, idle := dev.pool.Len()
	switch {
	case all != t.all || idle != t.idle:
		return fmt.Errorf("%d containers, %d idle; the pool has %d, %d idle", t.all, t.idle, all, idle)
	case l.cfg.Pool.Size > 0 && all > l.cfg.Pool.Size:
		return fmt.Errorf("%d containers in a pool of %d", all, l.cfg.Pool.Size)
	case t.launched != len(dev.running):
		return fmt.Errorf("%d runs use it, %d counted", t.launched, len(dev.running))
	case t.tokens != dev.inFlight:
		return fmt.Errorf("%d runs hold tokens, %d counted", t.tokens, dev.inFlight)
	case !l.cfg.Tokens.Dynamic && dev.inFlight > dev.d:
		return fmt.Errorf("%d tokens given of %d", dev.inFlight, dev.d)
	case dev.lost != "" && idle > 0:
		return fmt.Errorf("lost, with %d idle containers", idle)
	}
	return nil
}

// checkFlows holds the flow book against the queue, the containers and the policy.
func (l *Scheduler) checkFlows() error {
	invocations, containers, backlogged := 0, 0, l.backlog.Len()
	for _, f := range l.flows {
		n, resident := 0, int64(0)
		seq := uint64(0)
		for at := f.queue.Front(); at != nil; at = at.Next() {
			in := at.Value.(*invocation)
			if in.run != nil || in.rev.flow != f || in.seq <= seq || in.queued != at {
				return fmt.Errorf("flow %s: invocation %d is out of order in its queue", f.name, in.id)
			}
			seq = in.seq
			n++
		}
		of := 0
		for _, rev := range f.revs {
			invocations += rev.invocations
			of += len(rev.containers)
			for _, b := range rev.containers {
				resident += b.resident
			}
		}
		containers += of
		st, known := l.policy.Flow(f.id)
		switch {
		case n != st.Queued || n > 0 && !known:
			return fmt.Errorf("flow %s: %d queued, %d counted, the policy has %d", f.name, n, f.queue.Len(), st.Queued)
		case of != f.containers || resident != f.resident:
			return fmt.Errorf("flow %s: %d containers with %d bytes, counted %d with %d", f.name, of, resident, f.containers, f.resident)
		}
		if n > 0 {
			backlogged--
		}
	}
	switch {
	case backlogged != 0:
		return fmt.Errorf("the backlog lists %d flows too many", backlogged)
	case invocations != len(l.invocations):
		return fmt.Errorf("%d invocations of revisions, %d known", invocations, len(l.invocations))
	case containers != len(l.containers) || len(l.containers) != len(l.byName):
		return fmt.Errorf("%d containers of flows, %d known, %d named", containers, len(l.containers), len(l.byName))
	}
	return nil
}
