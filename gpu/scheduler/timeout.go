package scheduler

import (
	"cmp"
	"container/heap"
	"time"
)

// timeout is when an invocation is refused that has not begun, whatever the devices do.
// Those of invocations that have begun are dropped when their time comes.
type timeout struct {
	at         time.Duration
	invocation uint64
}

// timeouts is a heap, the earliest first.
type timeouts []timeout

func (t timeouts) Len() int      { return len(t) }
func (t timeouts) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t timeouts) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(t[i].at, t[j].at), cmp.Compare(t[i].invocation, t[j].invocation)) < 0
}
func (t *timeouts) Push(x any) { *t = append(*t, x.(timeout)) }
func (t *timeouts) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

func (t timeouts) next() (time.Duration, bool) {
	if len(t) == 0 {
		return 0, false
	}
	return t[0].at, true
}

// waits lists the invocations that have not begun, by since when each waits for a device
// that could serve it. The loss of a device moves that for all alike, so the list is in
// the order of their deadlines at any time, and no event walks it. There may be very
// many, so the links are in the invocations.
//
//	deadline == max(since, last loss of a device) + Config.DeviceTimeout
type waits struct{ first, last *invocation }

// push puts an invocation at the end; it waits since now.
func (w *waits) push(in *invocation, now time.Duration) {
	in.since, in.before, in.after = now, w.last, nil
	if w.last == nil {
		w.first = in
	} else {
		w.last.after = in
	}
	w.last = in
}

// drop takes an invocation out, if it is in.
func (w *waits) drop(in *invocation) {
	switch {
	case w.first == in:
		w.first = in.after
	case in.before == nil:
		return
	default:
		in.before.after = in.after
	}
	if in.after == nil {
		w.last = in.before
	} else {
		in.after.before = in.before
	}
	in.before, in.after = nil, nil
}

// startTimeouts has an invocation that was queued refused when it has waited too
// long; at 0 is never.
func (s *Scheduler) startTimeouts(in *invocation, at time.Duration) {
	if at > 0 {
		heap.Push(&s.timeouts, timeout{at, in.id})
	}
	if s.cfg.DeviceTimeout > 0 {
		s.waits.push(in, s.now)
	}
}

// deviceTimeout is when the first invocation has waited long enough for a device that
// could serve it; false while no device is lost.
func (s *Scheduler) deviceTimeout() (time.Duration, bool) {
	if s.lost == 0 || s.waits.first == nil {
		return 0, false
	}
	return max(s.waits.first.since, s.shrunk) + s.cfg.DeviceTimeout, true
}

// maxExpired is how many timeouts one Tick follows; for the others Deadline is due at
// once.
const maxExpired = 64

// expireTimeouts refuses the invocations that have waited too long.
func (s *Scheduler) expireTimeouts() {
	for range maxExpired {
		if !s.expireOne() {
			return
		}
	}
}

// expireOne follows one timeout; false when none is due.
func (s *Scheduler) expireOne() bool {
	if at, some := s.timeouts.next(); some && at <= s.now {
		s.refuseQueued(heap.Pop(&s.timeouts).(timeout).invocation, Overdue)
		return true
	}
	if at, some := s.deviceTimeout(); !some || at > s.now {
		return false
	}
	in := s.waits.first
	if s.stranded(in.rev) {
		s.refuseQueued(in.id, NoDevice)
		return true
	}
	s.waits.drop(in) // a device that could serve it is not lost
	s.waits.push(in, s.now)
	return true
}

// stranded reports whether every device that could serve a revision is lost. A run that is too
// big for every device is refused by any device that is not lost.
func (s *Scheduler) stranded(rev *revision) bool {
	for _, dev := range s.devices {
		n := s.need(dev, rev, nil)
		if all := n.Bytes + n.Context; dev.lost == "" && (all <= dev.MemoryBytes || all > s.largest) {
			return false
		}
	}
	return true
}
