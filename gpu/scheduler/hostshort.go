package scheduler

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// A flow that lacks only host memory has a claim. Its shortfall is taken from idle containers,
// and from containers of flows beyond the window after their runs have ended. Until the
// claiming flow has its container, no other flow gets a new container out of the freed memory.
// One flow at a time has a claim, in turns, and only while its whole shortfall can be met in
// this way. Runs inside the window are not disturbed, as with device memory.
//
// A flow beyond the window has a claim while no flow inside it lacks only host memory. Such a
// claim holds against flows beyond the window alone, and takes containers in use only from
// flows that lead it by more than T. It ends when the memory is free: the policy decides who
// gets that.
//
// The claiming flow is searched among the flows with queued work, a few with each event, since
// there may be very many.

const (
	// shortSearch is how many flows one event looks at.
	shortSearch = 64
	// shortPause is until the search goes on by itself, while nothing runs whose end
	// would be an event.
	shortPause = time.Millisecond
)

// hostSearch is how far the search for a flow that is short of host memory has come.
type hostSearch struct {
	next       *list.Element // in the backlog, the flow that is looked at next; nil for the first
	unsearched int           // flows that were not looked at since the last event but a Tick
	resumeAt   time.Duration // when the search goes on, 0 for never
}

// skip has the search go on behind a flow that leaves the backlog.
func (h *hostSearch) skip(at *list.Element) {
	if h.next == at {
		h.next = at.Next()
	}
}

// freeHost frees host memory where it is short. Before grants it frees memory for the
// claim, but spares the containers of flows that may run next; after grants it frees memory
// for other pools of the host as well, and from any idle container. Memory that the host can
// reclaim is used first, and containers of the devices for the rest.
func (s *Scheduler) freeHost(granted bool) {
	if !s.limited {
		return
	}
	s.kept = 0
	s.checkClaim()
	s.findClaim(granted)
	lack, freed := s.claimShortfall(), 0
	others := 0
	if granted {
		others = s.host.Needed
	}
	if lack > 0 || others > 0 {
		victims, leaving, obtainable := s.hostVictims(granted)
		if lack > leaving+obtainable {
			s.claim, lack = nil, 0 // another may have its turn
		}
		s.sortVictims(victims)
		freed = leaving
		for ; freed < max(lack, others) && len(victims) > 0; victims = victims[1:] {
			freed += victims[0].hostMB
			s.takeAway(victims[0])
		}
	}
	s.keepForClaim(freed)
}

// claimShortfall returns the MiB that containers of the devices must give back for the claim:
// the need that neither free nor reclaimable memory covers.
func (s *Scheduler) claimShortfall() int {
	if s.claim == nil {
		return 0
	}
	return max(0, s.claim.next().hostMB-s.host.Free-s.host.Reclaimable)
}

// keepForClaim sets aside the host memory of the claim. It orders the host to reclaim the part
// that is neither free nor freed by the removal of containers.
func (s *Scheduler) keepForClaim(freed int) {
	if s.claim == nil {
		return
	}
	s.kept = s.claim.next().hostMB
	if reclaim := min(s.kept-s.host.Free-freed, s.host.Reclaimable); reclaim > 0 && !s.asked {
		s.asked = true
		s.order(Order{Do: ReclaimHost, Flow: s.claim.id, HostMB: s.host.Free + reclaim})
	}
}

// hostVictims lists the containers that may be removed for host memory. leaving is the memory
// that is being freed already, and obtainable is the memory of the victims.
func (s *Scheduler) hostVictims(granted bool) (victims []*container, leaving, obtainable int) {
	for _, dev := range s.devices {
		for _, c := range dev.containers {
			switch f := c.rev.flow; {
			case c.removing || c.failed:
				if !c.overdue {
					leaving += c.hostMB
				}
			case c.isIdle() && (granted || f.queue.Len() == 0), s.claim != nil && s.yields(f):
				victims, obtainable = append(victims, c), obtainable+c.hostMB
			}
		}
	}
	return victims, leaving, obtainable
}

// sortVictims sorts containers by the pool's rule, containers with runs last.
func (s *Scheduler) sortVictims(victims []*container) {
	as := map[*container]gpu.Candidate{}
	for _, c := range victims {
		as[c] = s.candidate(c)
	}
	slices.SortFunc(victims, func(a, b *container) int {
		if a.isIdle() != b.isIdle() {
			return cmp.Compare(len(a.runs), len(b.runs))
		}
		ca, cb := as[a], as[b]
		if s.cfg.Pool.Rule.Before(&ca, &cb) {
			return -1
		}
		return 1
	})
}

// Host returns the host memory that the scheduler counts on: the last report, less the memory
// of the containers ordered since. It returns false before the first report.
func (s *Scheduler) Host() (HostMemory, bool) { return s.host, s.limited }

// Claimed returns the host memory, in MiB, that is set aside for a waiting flow, 0 for none.
func (s *Scheduler) Claimed() int { return s.kept }

// ReclaimableMB returns the host memory, in MiB, that containers give back when others need it: the
// memory of idle containers and of containers that are being removed.
func (s *Scheduler) ReclaimableMB() (mb int) {
	for _, c := range s.containers {
		if c.isIdle() || c.removing && !c.overdue {
			mb += c.hostMB
		}
	}
	return mb
}

// checkClaim ends the claim of a flow that does not wait for host memory any more.
func (s *Scheduler) checkClaim() {
	f := s.claim
	if f == nil {
		return
	}
	s.claimBeyond = s.leads(f)
	if f.queue.Len() == 0 || !s.policy.Competes(f.id) || !s.lacksOnlyHost(s.devices, f.next()) || s.claimBeyond && f.next().hostMB <= s.host.Free {
		s.claim = nil
	}
}

// findClaim finds the next flow that waits for host memory and for nothing else: a flow inside
// the window or, if there is none, a flow beyond it.
func (s *Scheduler) findClaim(granted bool) {
	h := &s.search
	h.resumeAt = 0
	if s.claim != nil && !s.claimBeyond || s.backlog.Len() == 0 || s.host.Free >= s.largestHost {
		return
	}
	devices, busy := s.couldTakeMore()
	if len(devices) == 0 {
		return
	}
	for range min(shortSearch, h.unsearched) {
		if h.next == nil {
			h.next = s.backlog.Front()
		}
		f := h.next.Value.(*flow)
		h.next = h.next.Next()
		if granted { // flows may still wait for things that the grants give them
			h.unsearched--
		}
		if rev := f.next(); s.affords(rev) || !s.policy.Competes(f.id) || !s.lacksOnlyHost(devices, rev) {
			continue
		}
		if !s.leads(f) {
			s.claim, s.claimBeyond = f, false
			return
		}
		s.claimFromBeyond(f)
	}
	if h.unsearched > 0 && !busy {
		h.resumeAt = s.now + shortPause
	}
}

// claimFromBeyond gives the claim to a flow beyond the window if its shortfall can be met,
// unless a flow has it that the flow does not trail by more than T.
func (s *Scheduler) claimFromBeyond(f *flow) {
	former := s.claim
	if former != nil && !s.policy.Leads(former.id, f.id) {
		return
	}
	s.claim, s.claimBeyond = f, true
	if _, leaving, obtainable := s.hostVictims(false); s.claimShortfall() > leaving+obtainable {
		s.claim = former
	}
}

// couldTakeMore lists the devices that have a token, or one with a flow beyond the window,
// and reports whether anything runs.
func (s *Scheduler) couldTakeMore() (devices []*device, busy bool) {
	for _, dev := range s.devices {
		if dev.open() || dev.lost == "" && slices.ContainsFunc(dev.running, func(r *run) bool { return s.leads(r.rev.flow) }) {
			devices = append(devices, dev)
		}
		busy = busy || dev.inFlight > 0
	}
	return devices, busy
}

// leads reports whether a flow is beyond the window.
func (s *Scheduler) leads(f *flow) bool { return s.policy.State(f.id) == sched.Throttled }

// yields reports whether a flow's containers are removed for the claim after their runs: the
// flow is beyond the window and, if the claiming flow is, too, leads that by more than T.
func (s *Scheduler) yields(f *flow) bool {
	return f != s.claim && s.leads(f) && (!s.claimBeyond || s.policy.Leads(f.id, s.claim.id))
}

// lacksOnlyHost reports whether one of some devices has everything for a new container of
// a revision but host memory and a token, and no container that would do.
func (s *Scheduler) lacksOnlyHost(devices []*device, rev *revision) bool {
	for _, dev := range devices {
		if dev.lost != "" || s.lacks(dev, rev, nil, s.need(dev, rev, nil))&^sched.LacksHost != 0 {
			continue
		}
		if own, _, _ := s.serving(dev, rev); own == nil {
			return true
		}
	}
	return false
}
