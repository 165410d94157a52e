package lane

import "github.com/gpuwhisk/gpuwhisk/sched"

// inherit takes a box over that another process has made, and gives it up at
// once where its device has no place for it.
func (l *Lane) inherit(e Event) {
	if e.Function == nil || e.Device < 0 || e.Device >= len(l.devices) {
		return
	}
	dev := l.devices[e.Device]
	f := l.flow(e.Function.Flow)
	rev := l.revision(f, e.Function)
	l.weigh(f, e.Function.Weight)
	full := dev.pool.Full()
	b := l.newBox(dev, rev, e.Item)
	b.made, b.out = true, true // what was ordered before is not known
	dev.ledger.Enter(b.name)
	dev.pool.Limit(b.name, b.width)
	dev.pool.Put(l.now, b.name)
	b.since = l.now - max(e.Idle, 0)
	if o := l.idle.newest; o != nil {
		b.since = max(b.since, o.since) // the list is in this order
	}
	l.idle.push(b)
	dev.ledger.SetEvictable(l.now, b.name, l.cfg.SwapEachRun || l.policy.State(f.id) != sched.Active)
	dev.ledger.Follow(b.name, &f.mark)
	if full || dev.lost != "" {
		l.shut(b)
		l.dispose(b)
	}
	l.touch(f)
}
