package lane

import (
	"fmt"
	"slices"
)

// Check returns an error that names the first broken invariant. Tests call it
// after every event.
func (l *Lane) Check() error {
	runs, boxes, err := l.checkBoxes()
	if err != nil {
		return err
	}
	for _, dev := range l.devices {
		if err := l.checkDevice(dev, boxes[dev]); err != nil {
			return fmt.Errorf("device %d: %w", dev.Index, err)
		}
	}
	stats := l.policy.Stats()
	switch {
	case runs != stats.InFlight:
		return fmt.Errorf("%d runs hold tokens, the policy has %d in flight", runs, stats.InFlight)
	case l.queue.queued != stats.Queued:
		return fmt.Errorf("%d items queued, the policy has %d", l.queue.queued, stats.Queued)
	case l.misjudged > 0:
		return fmt.Errorf("%d grants had no place", l.misjudged)
	}
	return l.checkFlows()
}

// tally is what was counted of a device's boxes.
type tally struct{ all, idle, launched, tokens int }

// checkBoxes looks at each box, and counts the runs that hold a token.
func (l *Lane) checkBoxes() (runs int, of map[*device]tally, err error) {
	of = map[*device]tally{}
	leaving := 0
	starting := map[*box]int{}
	for _, r := range l.starting {
		starting[r.box]++
	}
	for _, b := range l.boxes {
		t := of[b.dev]
		if b.doomed {
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
			if l.queue.at(r.item).run != r || r.box != b {
				return 0, nil, fmt.Errorf("box %d: its run of item %d is another's", b.id, r.id)
			}
		}
		of[b.dev] = t
		switch {
		case begun != b.inside || b.inside > b.width:
			return 0, nil, fmt.Errorf("box %d: %d runs inside, %d counted, %d allowed", b.id, begun, b.inside, b.width)
		case len(b.waiting)+len(b.held)+starting[b] != len(b.runs)-b.inside:
			return 0, nil, fmt.Errorf("box %d: %d runs, %d inside, %d waiting, %d held, %d starting",
				b.id, len(b.runs), b.inside, len(b.waiting), len(b.held), starting[b])
		case b.listed != (len(b.runs) == 0 && !b.doomed):
			return 0, nil, fmt.Errorf("box %d: listed as idle %t with %d runs", b.id, b.listed, len(b.runs))
		case b.failed && len(b.runs) == 0 && !b.doomed:
			return 0, nil, fmt.Errorf("box %d: failed, empty, and stays", b.id)
		}
	}
	if leaving != l.leaving {
		return 0, nil, fmt.Errorf("%d MiB leave, %d counted", leaving, l.leaving)
	}
	return runs, of, nil
}

func (l *Lane) checkDevice(dev *device, t tally) error {
	if err := dev.ledger.Check(); err != nil {
		return err
	}
	if err := dev.pool.Check(); err != nil {
		return err
	}
	all, idle := dev.pool.Len()
	switch {
	case all != t.all || idle != t.idle:
		return fmt.Errorf("%d boxes, %d idle; the pool has %d, %d idle", t.all, t.idle, all, idle)
	case l.cfg.Pool.Size > 0 && all > l.cfg.Pool.Size:
		return fmt.Errorf("%d boxes in a pool of %d", all, l.cfg.Pool.Size)
	case t.launched != len(dev.running):
		return fmt.Errorf("%d runs use it, %d counted", t.launched, len(dev.running))
	case t.tokens != dev.inFlight:
		return fmt.Errorf("%d runs hold tokens, %d counted", t.tokens, dev.inFlight)
	case !l.cfg.Tokens.Dynamic && dev.inFlight > dev.d:
		return fmt.Errorf("%d tokens given of %d", dev.inFlight, dev.d)
	case dev.lost != "" && idle > 0:
		return fmt.Errorf("lost, with %d idle boxes", idle)
	}
	return nil
}

// checkFlows holds the flow book against the queue, the boxes and the policy.
func (l *Lane) checkFlows() error {
	items, boxes, backlogged := 0, 0, 0
	for f := l.backlog.first; f != nil; f = f.after {
		backlogged++
	}
	for _, f := range l.flows {
		n, resident := 0, int64(0)
		for i, seq := f.head, uint64(0); i != none; i = l.queue.at(i).next {
			it := l.queue.at(i)
			if it.run != nil || it.rev.flow != f || it.seq <= seq {
				return fmt.Errorf("flow %s: item %d is out of place in its queue", f.name, it.id)
			}
			seq = it.seq
			n++
		}
		of := 0
		for _, rev := range f.revs {
			items += rev.items
			of += len(rev.boxes)
			if n := len(slices.Concat(rev.by...)); n != len(rev.boxes) || n == 0 && rev.by != nil {
				return fmt.Errorf("flow %s: %d boxes by device, %d altogether", f.name, n, len(rev.boxes))
			}
			for _, b := range rev.boxes {
				resident += b.resident
			}
		}
		boxes += of
		st, known := l.policy.Flow(f.id)
		switch {
		case n != f.queued || n != st.Queued || n > 0 && !known:
			return fmt.Errorf("flow %s: %d queued, %d counted, the policy has %d", f.name, n, f.queued, st.Queued)
		case of != f.boxes || resident != f.resident:
			return fmt.Errorf("flow %s: %d boxes with %d bytes, counted %d with %d", f.name, of, resident, f.boxes, f.resident)
		}
		if n > 0 {
			backlogged--
		}
	}
	switch {
	case backlogged != 0:
		return fmt.Errorf("the backlog lists %d flows too many", backlogged)
	case items != len(l.queue.byID):
		return fmt.Errorf("%d items of revisions, %d known", items, len(l.queue.byID))
	case boxes != len(l.boxes) || len(l.boxes) != len(l.named):
		return fmt.Errorf("%d boxes of flows, %d known, %d named", boxes, len(l.boxes), len(l.named))
	}
	return nil
}
