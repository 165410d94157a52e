package container

import "fmt"

// check returns an error that names the first broken invariant.
func (p *Pool) check() error {
	used, freeing, making := p.reserved, 0, map[*cell]int{}
	for _, s := range p.slots {
		used += s.memoryMB
		if s.state == starting {
			making[s.cell]++
		}
		if s.state == removing {
			freeing += s.memoryMB
		}
		if err := p.checkSlot(s); err != nil {
			return fmt.Errorf("slot %d: %w", s.id, err)
		}
	}
	switch {
	case used != p.used || p.used > p.cfg.MemoryMB:
		return fmt.Errorf("used %d, sum %d, limit %d", p.used, used, p.cfg.MemoryMB)
	case freeing != p.freeing:
		return fmt.Errorf("freeing %d, sum %d", p.freeing, freeing)
	}
	for _, c := range p.cells {
		if c.starting != making[c] {
			return fmt.Errorf("%d containers of stem cell %+v are being made, %d slots", c.starting, c.StemCell, making[c])
		}
	}
	for key, slots := range p.warm {
		if len(slots) == 0 {
			return fmt.Errorf("key %s has an empty warm set", key)
		}
	}
	return nil
}

func (p *Pool) checkSlot(s *slot) error {
	var want *slotQueue
	switch s.state {
	case ready:
		want = &p.idle
	case paused:
		want = &p.paused
	case started:
		want = &s.cell.started
	}
	switch {
	case s.in != want:
		return fmt.Errorf("%s but in the wrong list", s.state)
	case s.active < 0 || (s.concurrency > 0 && s.active > s.concurrency):
		return fmt.Errorf("%d active of %d", s.active, s.concurrency)
	case (s.state == running || s.state == warmingUp) != s.occupied():
		return fmt.Errorf("%s with %d active, pinned: %t", s.state, s.active, s.pinned)
	}
	return nil
}
