package scheduler

import (
	"container/heap"
	"time"
)

// due is when an invocation is looked at for having waited too long.
type due struct {
	at         time.Duration
	invocation uint64
}

func (d due) before(other due) bool {
	return d.at < other.at || d.at == other.at && d.invocation < other.invocation
}

// dues is a heap of them, the earliest first. Those of invocations that have run
// meanwhile are dropped when their time comes. With all devices lost there is one
// for each invocation that waits, so they are small.
type dues []due

func (d dues) next() (time.Duration, bool) {
	if len(d) == 0 {
		return 0, false
	}
	return d[0].at, true
}

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].before(d[j]) }
func (d dues) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(x any)        { *d = append(*d, x.(due)) }
func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// timeouts says when which invocations have waited too long.
type timeouts struct {
	own    dues // each its own time, whatever the devices do
	device dues // for a device that is lost
}

func (w *timeouts) next() (time.Duration, bool) {
	at, some := w.own.next()
	if other, more := w.device.next(); more && (!some || other < at) {
		return other, true
	}
	return at, some
}

// pop takes the earliest. Of one invocation its own time comes first.
func (w *timeouts) pop() (d due, own bool) {
	if len(w.device) == 0 || len(w.own) > 0 && !w.device[0].before(w.own[0]) {
		return heap.Pop(&w.own).(due), true
	}
	return heap.Pop(&w.device).(due), false
}

// startTimeouts has an invocation that was queued refused when it has waited too
// long; at 0 is never.
func (l *Scheduler) startTimeouts(in *invocation, at time.Duration) {
	if at > 0 {
		heap.Push(&l.timeouts.own, due{at, in.id})
	}
	l.startDeviceTimeout(in)
}

// startDeviceTimeout does so for one that waits for a lost device.
func (l *Scheduler) startDeviceTimeout(in *invocation) {
	if l.lost > 0 && l.cfg.DeviceTimeout > 0 {
		heap.Push(&l.timeouts.device, due{l.deviceTimeout(in), in.id})
	}
}

// deviceTimeout is when an invocation has waited long enough for a device that could
// serve it.
func (l *Scheduler) deviceTimeout(in *invocation) time.Duration {
	return max(in.at, l.shrunk) + l.cfg.DeviceTimeout
}

// startDeviceTimeouts does so for all that are queued, now that a device is lost.
func (l *Scheduler) startDeviceTimeouts() {
	l.shrunk = l.now
	for at := l.backlog.Front(); at != nil; at = at.Next() {
		for in := at.Value.(*flow).queue.Front(); in != nil; in = in.Next() {
			l.startDeviceTimeout(in.Value.(*invocation))
		}
	}
}

// expireTimeouts refuses those that have waited too long.
func (l *Scheduler) expireTimeouts() {
	for {
		if at, some := l.timeouts.next(); !some || at > l.now {
			return
		}
		d, own := l.timeouts.pop()
		in := l.invocations[d.invocation]
		if in == nil || in.run != nil && in.run.begun {
			continue
		}
		switch {
		case own:
			l.refuseQueued(in.id, Overdue)
		case l.lost == 0 || l.deviceTimeout(in) > l.now: // or there is a later one
		case l.stranded(in.rev):
			l.refuseQueued(in.id, NoDevice)
		default: // it can be served as far as is known now
			heap.Push(&l.timeouts.device, due{l.now + l.cfg.DeviceTimeout, in.id})
		}
	}
}

// stranded tells whether no device is there that could serve a revision. What
// is too big for any is refused by whichever there is.
func (l *Scheduler) stranded(rev *revision) bool {
	for _, dev := range l.devices {
		n := l.need(dev, rev, nil)
		if all := n.Bytes + n.Context; dev.lost == "" && (all <= dev.MemoryBytes || all > l.largest) {
			return false
		}
	}
	return true
}
