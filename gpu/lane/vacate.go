package lane

// vacating finds a box of a revision that would take another run but for the
// books and logs of one that has answered, and that run, whose place in the
// pool the next may have: it begins when those are done, which is sooner than a
// cold start. Who has an answer may call again before they are.
// Nil where the pool keeps no box, or there is none such.
func (l *Lane) vacating(dev *device, rev *revision) (at *box, place *run) {
	if all, _ := dev.pool.Len(); all > l.cfg.Pool.Size {
		return nil, nil
	}
	for _, b := range rev.on(dev) {
		if b.failed || b.doomed {
			continue
		}
		for _, r := range b.runs {
			if r.closing && !r.lent {
				return b, r
			}
		}
	}
	return nil, nil
}

// answered takes the news that a run has its answer and its box stays.
func (l *Lane) answered(r *run) {
	if !r.closing {
		r.closing = true
		l.touch(r.rev.flow)
	}
}

// vacate gives the place of a run that leaves its box back, and tells whether
// the pool has room for the box. A place that was promised is another's; and a
// run that had such a place returns it to who promised it.
func (l *Lane) vacate(r *run) (fits bool) {
	if r.lent {
		return true
	}
	for _, owner := range r.box.runs {
		if owner.lent {
			owner.lent = false
			return true
		}
	}
	return r.box.dev.pool.Put(l.now, r.box.name)
}
