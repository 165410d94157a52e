package scheduler

import (
	"cmp"
	"container/heap"
	"time"
)

// timeout is when an invocation is checked for having waited too long. Those of
// invocations that have run meanwhile are dropped when their time comes. With all
// devices lost there is one for each invocation that waits, so they are small.
type timeout struct {
	at         time.Duration
	invocation uint64
	device     bool // for a device that is lost; else the invocation's own, whatever the devices do
}

// timeouts is a heap, the earliest first. Of one invocation its own comes first.
type timeouts []timeout

func (t timeouts) Len() int      { return len(t) }
func (t timeouts) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t timeouts) Less(i, j int) bool {
	a, b := t[i], t[j]
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.invocation, b.invocation)) < 0 ||
		a.at == b.at && a.invocation == b.invocation && !a.device && b.device
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

// startTimeouts has an invocation that was queued refused when it has waited too
// long; at 0 is never.
func (s *Scheduler) startTimeouts(in *invocation, at time.Duration) {
	if at > 0 {
		heap.Push(&s.timeouts, timeout{at, in.id, false})
	}
	s.startDeviceTimeout(in)
}

// startDeviceTimeout does so for one that waits for a lost device.
func (s *Scheduler) startDeviceTimeout(in *invocation) {
	if s.lost > 0 && s.cfg.DeviceTimeout > 0 && !in.timed {
		in.timed = true
		heap.Push(&s.timeouts, timeout{s.deviceTimeout(in), in.id, true})
	}
}

// deviceTimeout is when an invocation has waited long enough for a device that could
// serve it.
func (s *Scheduler) deviceTimeout(in *invocation) time.Duration {
	return max(in.at, s.shrunk) + s.cfg.DeviceTimeout
}

// startDeviceTimeouts does so for all that are queued, now that a device is lost.
func (s *Scheduler) startDeviceTimeouts() {
	s.shrunk = s.now
	for at := s.backlog.Front(); at != nil; at = at.Next() {
		for in := at.Value.(*flow).queue.Front(); in != nil; in = in.Next() {
			s.startDeviceTimeout(in.Value.(*invocation))
		}
	}
}

// expireTimeouts refuses those that have waited too long.
func (s *Scheduler) expireTimeouts() {
	for at, some := s.timeouts.next(); some && at <= s.now; at, some = s.timeouts.next() {
		t := heap.Pop(&s.timeouts).(timeout)
		in := s.invocations[t.invocation]
		if in != nil && t.device {
			in.timed = false
		}
		if in == nil || in.run != nil && in.run.begun {
			continue
		}
		switch {
		case !t.device:
			s.refuseQueued(in.id, Overdue)
		case s.lost == 0:
		case s.deviceTimeout(in) > s.now: // a device was lost since
			s.startDeviceTimeout(in)
		case s.stranded(in.rev):
			s.refuseQueued(in.id, NoDevice)
		default: // a device that could serve it is not lost
			in.timed = true
			heap.Push(&s.timeouts, timeout{s.now + s.cfg.DeviceTimeout, in.id, true})
		}
	}
}

// stranded reports whether every device that could serve a revision is lost. What
// is too big for any is refused by whichever is not.
func (s *Scheduler) stranded(rev *revision) bool {
	for _, dev := range s.devices {
		n := s.need(dev, rev, nil)
		if all := n.Bytes + n.Context; dev.lost == "" && (all <= dev.MemoryBytes || all > s.largest) {
			return false
		}
	}
	return true
}
