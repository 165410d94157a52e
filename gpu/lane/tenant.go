package lane

// A namespace may have a limit of device memory, which holds for each device by
// itself: for what its running boxes there have or were promised, and what its idle
// ones have left there. Contexts are not counted, nor is what was moved out.

// most is the limit of a namespace, 0 for none.
func (l *Lane) most(namespace string) int64 {
	if len(l.cfg.NamespaceLimits) == 0 {
		return 0
	}
	if n, ok := l.cfg.NamespaceLimits[namespace]; ok {
		return n
	}
	return l.cfg.NamespaceLimits["*"]
}

// permits tells whether the limit of a revision's namespace leaves so many bytes to
// a run in the box own, or when that is nil in a new one: what runs stays, what is
// idle can be moved out or given up.
func (l *Lane) permits(dev *device, rev *revision, own *box, bytes int64) bool {
	most := l.most(rev.flow.id.Namespace)
	if most == 0 {
		return true
	}
	if own != nil && len(own.runs) > 0 {
		bytes = max(bytes, dev.ledger.Data(own.name))
	}
	return bytes+l.tenantData(dev, rev, own, true) <= most
}

// leaves tells whether the limit of an idle box's namespace has room for all that
// the box holds beside what the others have.
func (l *Lane) leaves(b *box) bool {
	most := l.most(b.rev.flow.id.Namespace)
	if most == 0 {
		return true
	}
	_, footprint := b.dev.ledger.Residency(b.name)
	return footprint+l.tenantData(b.dev, b.rev, b, false) <= most
}

// tenantData is what the boxes of a revision's namespace have on a device, but for
// one; of those that run alone, or of all.
func (l *Lane) tenantData(dev *device, rev *revision, but *box, running bool) (sum int64) {
	for _, b := range dev.boxes {
		if b != but && b.rev.flow.id.Namespace == rev.flow.id.Namespace && (len(b.runs) > 0 || !running) {
			sum += dev.ledger.Data(b.name)
		}
	}
	return sum
}

// crowd has idle boxes of a run's namespace make way where that is beyond its
// limit: their memory is moved out, the longest idle first, or if it cannot be they
// are given up.
func (l *Lane) crowd(r *run) {
	b := r.box
	most := l.most(b.rev.flow.id.Namespace)
	if most == 0 {
		return
	}
	own := max(b.dev.ledger.Data(b.name), r.need.Bytes)
	over := own + l.tenantData(b.dev, b.rev, b, false) - most
	for i := l.idle.oldest; i != nil && over > 0; {
		next := i.newer
		if n := b.dev.ledger.Data(i.name); i.dev == b.dev && n > 0 && i.rev.flow.id.Namespace == b.rev.flow.id.Namespace {
			over -= n
			if !b.dev.ledger.Expel(l.now, i.name) {
				l.dispose(i)
			}
		}
		i = next
	}
}
