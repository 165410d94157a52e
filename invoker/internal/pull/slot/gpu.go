package slot

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// A GPU function has one slot. Activations are pulled through the slot into the queue of the
// GPU scheduler. Three decisions about the slot depend on the backlog. The backlog is the time
// for which activations that were pulled and cannot run yet will keep the devices busy.
//
// 1. How much is pulled. A scheduler hands activations out in order of arrival and fails an
// activation after a minute of waiting. The GPU scheduler is fair, and the journal keeps its
// activations. On the other hand, an activation that this host has pulled cannot run on
// another host.
//
//	backlog below Near  pull everything
//	above               pull until Few activations of the function are here, or Near of work
//	always              pull one per Probe, and all activations older than Aged
//
// So each function with work has some of its activations in the queue, as fairness requires,
// and enough of them to be served in one go while its memory is on a device.
//
// 2. Which creations are accepted. A scheduler sends one creation for each waiting activation,
// to the host with the function's warmed key or else to any host, and repeats a refused
// creation at any host. A creation is accepted if the function's warmed key is here, or if the
// backlog is below Idle. If the function has no container here and the backlog is above Deep,
// the host lets the function go: it deletes the warmed key, and the next start costs about the
// same elsewhere. A function without a slot on any host is also accepted below Near, which
// doubles at each retry, and always at the last retry. So new functions go to hosts with less
// work. A function with a slot elsewhere is refused, so that the scheduler asks another host.
// At the last retry the answer is delayed by up to Hold.
//
// 3. When the warmed key exists: while the slot does not fetch, as long as a container of the
// function is here, and for IdleTimeout after the last one. A returning function finds its
// memory, its rate and its set-up time here. On every other host it would start as a new
// function.

// GPU has the durations and bounds of GPU functions.
type GPU struct {
	Devices int
	Runs    int // at once, on all devices
	// Few is how many activations of each function the GPU scheduler compares at best:
	// one more than a device runs at once.
	Few int
	// Near is the approximate cost of a start elsewhere: a new container and its /init.
	Near time.Duration
	// Deep is more than devices that keep up with their work have for long.
	Deep time.Duration
	// Idle is a backlog that is gone before a start elsewhere would be done.
	Idle time.Duration
	// Probe and Aged together are well below the minute after which schedulers fail
	// activations.
	Probe, Aged time.Duration
	// Hold keeps a scheduler from ordering one more, and ends before the time of a
	// creation with all its retries does, 20 s.
	Hold time.Duration
}

// DefaultGPU is for devices that take so many runs at once each.
func DefaultGPU(devices, tokens int) GPU {
	return GPU{
		Devices: devices, Runs: devices * tokens, Few: tokens + 1,
		Near: 5 * time.Second, Deep: 40 * time.Second, Idle: time.Second,
		Probe: 10 * time.Second, Aged: 20 * time.Second, Hold: 15 * time.Second,
	}
}

// lastRetry is the number of the last try of a creation (CreationJobManager.scala).
const lastRetry = 5

// gpuPart has the additional state of a GPU function's slot. For such a slot, acquired means
// that a container of the function is here, and warmed means that the function's memory is on
// a device.
type gpuPart struct {
	eager    bool          // the last pulled activation was old
	pulledAt time.Duration // when a fetch was answered last
	// mean is of its runs by themselves. The GPU scheduler's estimate has the wait for
	// memory in it, which comes once for all that is served in one go.
	mean time.Duration
}

// waiting is a creation that is not answered yet: it waits for less backlog.
type waiting struct {
	Creation
	since time.Duration
}

// function is a function with containers here.
type function struct {
	activation.Queue
	resident bool
}

// gpuSlot is the slot of a function.
func (t *Table) gpuSlot(q activation.Queue) *slot {
	for _, s := range t.slots {
		if s.GPU && s.aim != toRemove && sameFunction(s.Queue, q) {
			return s
		}
	}
	return nil
}

// firstRun is the assumed duration of a run before any run has ended. Most of the five
// seconds are for the set-up of a container.
const firstRun = 5 * time.Second

// load sums up the activations that were pulled and have not ended.
type load struct {
	runs int
	work time.Duration
}

// add counts more or fewer runs of a slot.
func (l *load) add(s *slot, runs int) {
	l.runs += runs
	l.work += s.work(runs)
}

// work is how long so many runs of a slot take.
func (s *slot) work(runs int) time.Duration {
	return time.Duration(runs) * cmp.Or(s.mean, firstRun)
}

// backlog returns the time for which pulled activations that cannot run yet will keep the
// devices busy.
func (t *Table) backlog() time.Duration {
	waiting := t.load.runs - t.cfg.GPU.Runs
	if waiting <= 0 {
		return 0
	}
	return t.load.work / time.Duration(t.load.runs) * time.Duration(waiting) / time.Duration(max(t.cfg.GPU.Devices, 1))
}

// pulls reports whether a slot with no fetch out asks for another activation.
func (t *Table) pulls(now time.Duration, s *slot) bool {
	cfg := &t.cfg.GPU
	return s.eager || t.backlog() < cfg.Near || s.runs < cfg.Few || s.work(s.runs) < cfg.Near || now-s.pulledAt >= cfg.Probe
}

// createGPU takes a creation of a GPU function.
func (t *Table) createGPU(now time.Duration, c Creation) {
	s := t.gpuSlot(c.Queue)
	last := c.Retry >= lastRetry
	switch {
	case s != nil && s.state == paused && !s.acquired && !last && t.backlog() >= t.cfg.GPU.Deep:
		t.remove(now, s)
		t.refuse(c, activation.ResourceNotEnough, reasonDeep)
	case s != nil && s.resting():
		t.reuse(now, s, c)
	case t.accept(now, c):
	case s == nil && (last || t.backlog() < t.cfg.GPU.Near<<max(c.Retry, 0)):
		t.waiting = append(t.waiting, waiting{c, now})
		t.order(Order{Do: Count, Creation: c})
	case s == nil || s.state == open && !last:
		t.refuse(c, activation.ResourceNotEnough, reasonDeep)
	default:
		t.waiting = append(t.waiting, waiting{c, now})
	}
}

// accept accepts a creation if that is possible now. If the function already has a slot, that
// slot fetches the activation.
func (t *Table) accept(now time.Duration, c Creation) bool {
	s, backlog := t.gpuSlot(c.Queue), t.backlog()
	switch {
	case s == nil && backlog < t.cfg.GPU.Idle:
		t.begin(now, c)
	case s != nil && s.state == open && backlog < t.cfg.GPU.Near:
		t.order(Order{Do: Ack, Slot: s.id, Creation: c})
	default:
		return false
	}
	return true
}

// admit accepts the creations that wait, as far as that can be, in their order.
func (t *Table) admit(now time.Duration) {
	all := t.waiting
	t.waiting = nil
	for _, w := range all {
		if t.closed || !t.accept(now, w.Creation) {
			t.waiting = append(t.waiting, w)
		}
	}
}

// CountedOpen reports how many slots the function of a creation that waits has on all
// hosts. ok is false where they could not be counted.
func (t *Table) CountedOpen(now time.Duration, id activation.ID, n int, ok bool) {
	i := slices.IndexFunc(t.waiting, func(w waiting) bool { return w.ID == id })
	if i < 0 {
		return
	}
	c := t.waiting[i].Creation
	none := ok && n == 0 && t.gpuSlot(c.Queue) == nil
	if !none && c.Retry >= lastRetry {
		return
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	if none {
		t.begin(now, c)
		return
	}
	t.refuse(c, activation.ResourceNotEnough, reasonDeep)
}

// endedGPU takes the end of a run, after which more may be pulled of all functions.
func (t *Table) endedGPU(now time.Duration, s *slot, took time.Duration) {
	t.load.add(s, -s.runs-1)
	if took > 0 { // else it never ran
		s.mean = (3*cmp.Or(s.mean, took) + took) / 4 // older runs count less and less
	}
	t.load.add(s, s.runs)
	t.proceed(now, s)
	for _, s := range t.slots {
		if s.GPU && s.state == open {
			t.fetch(now, s)
		}
	}
	t.admit(now)
}

// SetWarm sets whether a GPU function has a container here that could serve it, and whether
// the function's memory is on a device. The setting holds until the next one.
func (t *Table) SetWarm(now time.Duration, q activation.Queue, warm, resident bool) {
	i := slices.IndexFunc(t.warm, func(f function) bool { return sameFunction(f.Queue, q) })
	known := i >= 0
	switch {
	case warm && !known:
		t.warm = append(t.warm, function{q, resident})
	case warm:
		t.warm[i].resident = resident
	case known:
		t.warm = slices.Delete(t.warm, i, i+1)
	}
	s := t.gpuSlot(q)
	if s == nil {
		if warm && !known {
			t.restWarm(function{q, resident})
		}
		return
	}
	if s.state == paused && s.acquired && !warm {
		s.since = now
	}
	s.acquired, s.warmed = warm, warm && resident
}

// restWarm puts the warmed key of a function that has containers here and no slot.
func (t *Table) restWarm(f function) {
	if t.closed || t.gpuSlot(f.Queue) != nil {
		return
	}
	t.rest(t.add(Creation{ContainerCreation: &activation.ContainerCreation{Queue: f.Queue}, GPU: true, Concurrency: 1}))
}

// setWarm applies the last report about the function to a new slot.
func (t *Table) setWarm(s *slot) {
	for _, f := range t.warm {
		if s.GPU && sameFunction(f.Queue, s.Queue) {
			s.acquired, s.warmed = true, f.resident
		}
	}
}
