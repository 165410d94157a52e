package slot

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Events about a slot that does not exist any more are void.

// Acquired reports that a slot has its container; warmed is whether that is
// initialised.
func (t *Table) Acquired(now time.Duration, id ID, warmed bool) {
	s := t.get(id)
	if s == nil || s.state != acquiring {
		return
	}
	s.acquired, s.warmed = true, warmed
	if s.aim == toRemove {
		t.remove(now, s)
		return
	}
	t.register(now, s)
}

// Refused reports that the order Acquire failed: the slot has no container.
func (t *Table) Refused(now time.Duration, id ID, why activation.CreationError, reason string) {
	s := t.get(id)
	if s == nil || s.state != acquiring {
		return
	}
	s.acquired = false
	if why == activation.ResourceNotEnough && t.awaitMemory(now, s) {
		return
	}
	t.fail(s, why, reason)
	t.remove(now, s)
}

// Stored reports that a key is put.
func (t *Table) Stored(now time.Duration, id ID, k Key) {
	s := t.get(id)
	switch {
	case s == nil:
	case k == Existing && s.state == registering:
		if s.aim == toRemove {
			t.remove(now, s)
			return
		}
		t.opened(now, s)
	case k == Warmed && s.state == warming:
		t.rested(now, s)
	}
}

// rested ends the pausing of a slot: schedulers can find its warmed key.
func (t *Table) rested(now time.Duration, s *slot) {
	if s.aim == toRemove {
		t.remove(now, s)
		return
	}
	if s.existing {
		s.existing = false
		t.order(Order{Do: Delete, Slot: s.id, Key: Existing, Creation: s.Creation})
	}
	if s.state = paused; s.ack != nil {
		t.acquire(now, s)
	}
}

// Deleted reports that a key is deleted.
func (t *Table) Deleted(_ time.Duration, id ID, k Key) {
	if s := t.get(id); s != nil && k == Warmed && (s.state == open || s.state == leaving) {
		t.succeed(s)
	}
}

// Pulled reports that a fetch brought an activation, which has waited for age. keep is the
// namespace's limit for paused containers.
func (t *Table) Pulled(now time.Duration, id ID, age time.Duration, keep Keep) {
	s := t.get(id)
	if s == nil {
		return
	}
	s.calls--
	s.runs++
	s.used, s.keep, s.pulledAt = true, keep, now
	s.eager = age >= t.cfg.GPU.Aged
	if s.GPU {
		t.load.add(s, 1)
	}
	if s.state == leaving && s.aim == toPause {
		s.state, s.aim = open, toStay
	}
	t.proceed(now, s)
}

// Miss is the reason why a fetch brought no activation.
type Miss uint8

// The reasons.
const (
	Empty      Miss = iota // the queue has no activation
	QueueGone              // the scheduler has no queue, or does not answer
	Mismatched             // the scheduler has a queue of another version
)

// Missed reports that a fetch brought no activation. A slot that has had nothing to do for the
// pause grace ends with an empty answer. If the queue is gone, the container stays and waits
// for another scheduler.
func (t *Table) Missed(now time.Duration, id ID, why Miss) {
	s := t.get(id)
	if s == nil {
		return
	}
	s.calls--
	switch why {
	case Empty:
		s.eager, s.pulledAt = false, now
		t.expire(now, s)
	case QueueGone:
		if s.state == open && !s.lost && !t.stopped {
			s.lost = true
			t.order(Order{Do: Find, Slot: s.id, Creation: s.Creation})
		}
	case Mismatched:
		t.retire(now, s)
	}
	t.proceed(now, s)
}

// Seeks reports whether a slot waits for a scheduler.
func (t *Table) Seeks(id ID) bool {
	s := t.get(id)
	return s != nil && s.lost && s.state == open
}

// Fetches reports whether a slot is to fetch, if it is allowed to now.
func (t *Table) Fetches(id ID) bool {
	s := t.get(id)
	return s != nil && s.state == open && !t.stopped
}

// Found reports which scheduler has the queue now.
func (t *Table) Found(now time.Duration, id ID, at activation.Endpoint) {
	if s := t.get(id); s != nil && s.lost {
		s.lost = false
		c := *s.ContainerCreation
		c.Endpoint = at
		s.ContainerCreation = &c
		t.proceed(now, s)
	}
}

// Ended reports that an activation that a slot pulled has ended. keeps is whether its
// container can be used again. Unless it ran, took says nothing.
func (t *Table) Ended(now time.Duration, id ID, took time.Duration, keeps, ran bool) {
	s := t.get(id)
	if s == nil {
		return
	}
	s.runs--
	if ran {
		s.last, s.ended = took, true
	}
	if s.runs == 0 {
		s.since = now
	}
	if s.GPU {
		t.endedGPU(now, s, took)
		return
	}
	s.warmed = s.warmed || keeps && ran
	if !keeps {
		t.retire(now, s)
	}
	t.proceed(now, s)
}

// Lost reports that a slot's container is gone, or is being removed, and not by the
// slot's own order.
func (t *Table) Lost(now time.Duration, id ID) {
	s := t.get(id)
	if s == nil || s.state == acquiring { // which has an answer of its own
		return
	}
	s.acquired, s.warmed = false, false
	switch s.state {
	case registering:
		s.aim = toRemove
	case warming, paused:
		if s.ack != nil && s.aim != toRemove {
			t.acquire(now, s)
			return
		}
		t.remove(now, s)
	default:
		t.retire(now, s)
		t.proceed(now, s)
	}
}

// Paused reports how a pause ended. A container that could not be paused is gone.
func (t *Table) Paused(now time.Duration, id ID, ok bool) {
	s := t.get(id)
	if s == nil || s.state != pausing {
		return
	}
	s.acquired = ok
	switch {
	case s.aim == toRemove || !ok && s.ack == nil:
		t.remove(now, s)
	case s.ack != nil: // it was asked for meanwhile
		t.acquire(now, s)
	default:
		s.since = now
		t.rest(s)
	}
}

// Counted reports how many keys a paused slot's function has, its own included. ok
// is false where they could not be counted.
func (t *Table) Counted(now time.Duration, id ID, n int, ok bool) {
	s := t.get(id)
	if s == nil || s.state != paused || !s.counting {
		return
	}
	s.counting = false
	if !ok || n > s.keep.Containers {
		t.remove(now, s)
		return
	}
	s.kept, s.since = true, now
}

// Retire ends the slots that match a deletion. Their running activations are finished.
func (t *Table) Retire(now time.Duration, d *activation.ContainerDeletion) {
	t.warm = slices.DeleteFunc(t.warm, func(f function) bool { return d.Covers(f.Queue) })
	t.retireAll(now, func(s *slot) bool { return d.Covers(s.Queue) })
}

// Close ends all slots, and refuses creations until Open.
func (t *Table) Close(now time.Duration) {
	t.closed = true
	for _, w := range t.waiting {
		t.refuse(w.Creation, activation.CreationUnknown, reasonClosed)
	}
	t.waiting = nil
	t.retireAll(now, func(*slot) bool { return true })
}

// Stop ends all fetching. Fetches in flight are answered soon. Slots keep their state, because
// their keys end with the invoker's lease.
func (t *Table) Stop(now time.Duration) {
	t.closed, t.stopped = true, true
	for _, w := range t.waiting {
		t.refuse(w.Creation, activation.CreationUnknown, reasonClosed)
	}
	t.waiting = nil
	for _, s := range slices.Clone(t.slots) {
		switch {
		case s.calls > 0:
			t.order(Order{Do: Leave, Slot: s.id, Creation: s.Creation})
		case s.again > 0:
			t.remove(now, s)
		}
	}
}

// RetireGPU ends the slots of GPU functions, and refuses creations that wait.
func (t *Table) RetireGPU(now time.Duration) {
	for _, w := range t.waiting { // which are of GPU functions
		t.refuse(w.Creation, activation.ResourceNotEnough, reasonNoDevice)
	}
	t.waiting = nil
	t.retireAll(now, func(s *slot) bool { return s.GPU })
}

// Open has creations accepted again.
func (t *Table) Open() {
	t.closed = false
	for _, f := range t.warm {
		t.restWarm(f)
	}
}

func (t *Table) retireAll(now time.Duration, covers func(*slot) bool) {
	for _, s := range slices.Clone(t.slots) {
		if covers(s) {
			t.retire(now, s)
			t.proceed(now, s)
		}
	}
}

// retire removes a slot as soon as none of its fetches and runs is open.
func (t *Table) retire(now time.Duration, s *slot) {
	if s.aim == toRemove {
		return
	}
	s.aim = toRemove
	switch {
	case s.state == open || s.state == leaving:
		s.state = leaving
		t.order(Order{Do: Leave, Slot: s.id, Creation: s.Creation})
	case s.state == paused || s.again > 0:
		t.remove(now, s)
	}
}

// proceed goes on with a slot whose fetches or runs have changed.
func (t *Table) proceed(now time.Duration, s *slot) {
	if s.state != leaving {
		t.fetch(now, s)
		return
	}
	if s.calls > 0 {
		return
	}
	if s.aim == toRemove && s.existing { // it fetches no more, whatever still runs
		s.existing = false
		t.order(Order{Do: Delete, Slot: s.id, Key: Existing, Creation: s.Creation})
	}
	switch {
	case s.runs > 0:
	case s.aim == toRemove:
		t.remove(now, s)
	default:
		s.state = pausing
		t.order(Order{Do: Leave, Slot: s.id, Creation: s.Creation})
		if s.GPU {
			t.rest(s)
			return
		}
		t.order(Order{Do: Pause, Slot: s.id, Creation: s.Creation})
	}
}

// expire has a slot leave that was idle for the pause grace.
func (t *Table) expire(now time.Duration, s *slot) {
	if s.state != open || t.stopped || s.runs > 0 || s.ack != nil || t.cfg.PauseGrace < 0 || now-s.since < t.cfg.PauseGrace {
		return
	}
	if ready := s.used && s.warmed && s.acquired; !ready && !s.GPU {
		t.retire(now, s)
		return
	}
	s.state, s.aim = leaving, toPause
}

// Tick carries out due work.
func (t *Table) Tick(now time.Duration) {
	for _, w := range slices.Clone(t.waiting) {
		if now-w.since >= t.cfg.GPU.Hold {
			t.refuse(w.Creation, activation.ResourceNotEnough, reasonDeep)
			t.waiting = slices.DeleteFunc(t.waiting, func(one waiting) bool { return one == w })
		}
	}
	for _, s := range slices.Clone(t.slots) {
		switch s.state {
		case acquiring:
			t.askAgain(now, s)
		case open:
			if s.lost && s.calls == 0 {
				t.expire(now, s)
			}
			t.proceed(now, s)
		case paused:
			t.expirePaused(now, s)
		}
	}
}

// expirePaused has a slot removed that was paused for long, unless its namespace
// keeps some.
func (t *Table) expirePaused(now time.Duration, s *slot) {
	at, ok := t.due(s)
	switch {
	case !ok || now < at || s.counting:
	case s.keep.Containers > 0 && !s.kept && !s.GPU:
		s.counting = true
		t.order(Order{Do: Count, Slot: s.id, Creation: s.Creation})
	default:
		t.remove(now, s)
	}
}

// due is when Tick changes something of a slot.
func (t *Table) due(s *slot) (time.Duration, bool) {
	switch {
	case t.stopped:
	case s.again > 0:
		return s.again, true
	case s.state == open && s.lost && s.calls == 0 && s.runs == 0 && s.ack == nil:
		return s.since + t.cfg.PauseGrace, t.cfg.PauseGrace >= 0
	case s.state == open && s.GPU && s.calls == 0 && !s.lost:
		return s.pulledAt + t.cfg.GPU.Probe, true
	case s.state == paused && s.GPU: // its containers end by the GPU scheduler's rules
		return s.since + t.cfg.IdleTimeout, !s.acquired && s.ack == nil && t.cfg.IdleTimeout >= 0
	case s.state == paused && s.ack == nil && !s.counting:
		if s.kept {
			keeping := cmp.Or(s.keep.Time, t.cfg.Keeping)
			return s.since + keeping, keeping >= 0
		}
		return s.since + t.cfg.IdleTimeout, t.cfg.IdleTimeout >= 0
	}
	return 0, false
}

// Deadline gives the next time at which Tick would change something; false when
// there is none.
func (t *Table) Deadline() (at time.Duration, any bool) {
	sooner := func(d time.Duration) {
		if !any || d < at {
			at, any = d, true
		}
	}
	for _, w := range t.waiting {
		sooner(w.since + t.cfg.GPU.Hold)
	}
	for _, s := range t.slots {
		if d, ok := t.due(s); ok {
			sooner(d)
		}
	}
	return at, any
}
