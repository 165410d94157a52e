package scheduler

import (
	"container/list"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Which flow is short of host memory, and of nothing else, is looked for among those with
// work queued: a few with each event, since there may be very many.

const (
	// shortSearch is how many flows one event looks at.
	shortSearch = 64
	// shortPause is until the search goes on by itself, while nothing runs whose end
	// would be an event.
	shortPause = time.Millisecond
)

// hostSearch is how far the search for a flow that is short of host memory has come.
type hostSearch struct {
	next *list.Element // in the backlog, the flow that is looked at next; nil for the first
	left int           // flows that were not looked at since the last event but a Tick
	at   time.Duration // when the search goes on, 0 for never
}

// skip has the search go on behind a flow that leaves the backlog.
func (h *hostSearch) skip(at *list.Element) {
	if h.next == at {
		h.next = at.Next()
	}
}

// shortOfHost is a flow whose work waits for host memory and nothing else; nil where none
// was found so far. It is found again until it has what it waits for.
func (s *Scheduler) shortOfHost() *flow {
	h := &s.search
	h.at = 0
	if s.backlog.Len() == 0 || s.host.Free >= s.largestHost {
		return nil
	}
	devices, busy := s.couldTakeMore()
	if len(devices) == 0 {
		return nil
	}
	for n := 0; n < shortSearch && h.left > 0; n++ {
		if h.next == nil {
			h.next = s.backlog.Front()
		}
		f := h.next.Value.(*flow)
		if rev := f.next(); !s.affords(rev) && s.policy.State(f.id) == sched.Active && s.lacksOnlyHost(devices, rev) {
			return f
		}
		h.next = h.next.Next()
		h.left--
	}
	if h.left > 0 && !busy {
		h.at = s.now + shortPause
	}
	return nil
}

// couldTakeMore lists the devices that have a token and a slot for a container, and
// reports whether anything runs.
func (s *Scheduler) couldTakeMore() (devices []*device, busy bool) {
	for _, dev := range s.devices {
		if dev.open() && s.hasSlot(dev) {
			devices = append(devices, dev)
		}
		busy = busy || dev.inFlight > 0
	}
	return devices, busy
}

// lacksOnlyHost reports whether one of some devices has everything for a new container of
// a revision but host memory, and no container that would do.
func (s *Scheduler) lacksOnlyHost(devices []*device, rev *revision) bool {
	for _, dev := range devices {
		if own, _, _ := s.serving(dev, rev); own == nil && s.hasMemory(dev, rev, nil) {
			return true
		}
	}
	return false
}

// searchDue is when the search goes on; false for not before another event.
func (s *Scheduler) searchDue() (time.Duration, bool) { return s.search.at, s.search.at > 0 }
