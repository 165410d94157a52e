package gpu

import "fmt"

// Check returns an error that names the first broken invariant. Tests call it
// after every event.
func (l *Ledger) Check() error {
	sum := l.foreign
	for _, a := range l.containers {
		sum += a.charge()
		if err := a.check(); err != nil {
			return err
		}
	}
	switch counted, available := l.counted, l.available; {
	case counted && available != l.availableWith(nil):
		return fmt.Errorf("available for %d bytes, counted %d", l.availableWith(nil), available)
	case sum != l.used:
		return fmt.Errorf("used %d, sum of charges %d", l.used, sum)
	case l.used > l.cfg.Capacity && !l.overReported:
		return fmt.Errorf("granted %d on a device of %d", l.used, l.cfg.Capacity)
	case l.overReported && l.used <= l.cfg.Capacity:
		return fmt.Errorf("taken as over at %d of %d", l.used, l.cfg.Capacity)
	case len(l.containers) != len(l.byID):
		return fmt.Errorf("%d containers, %d ids", len(l.containers), len(l.byID))
	case len(l.waiting) > 0 && l.fits(l.waiting[0].a, l.waiting[0].need):
		return fmt.Errorf("the reservation of container %d fits and waits", l.waiting[0].a.id)
	}
	return nil
}

func (a *memory) check() error {
	switch {
	case a.runs < 0 || a.reservations < a.runs:
		return fmt.Errorf("container %d: %d runs, %d reservations", a.id, a.runs, a.reservations)
	case a.runs != len(a.promises):
		return fmt.Errorf("container %d: %d runs, %d promises", a.id, a.runs, len(a.promises))
	case a.runs == 0 && a.forRuns != 0:
		return fmt.Errorf("container %d: %d bytes promised to no run", a.id, a.forRuns)
	case a.runs > 0 && a.move == evicting:
		return fmt.Errorf("container %d: evicted while it runs", a.id)
	case a.forPrefetch > 0 && a.move == settled && !a.interrupted && !a.removing:
		return fmt.Errorf("container %d: %d bytes for a prefetch that was not ordered", a.id, a.forPrefetch)
	case a.movable() < 0:
		return fmt.Errorf("container %d: %d bytes movable", a.id, a.movable())
	}
	return nil
}
