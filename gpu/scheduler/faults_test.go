package scheduler

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// events is how many events each seed of TestSchedulerUnderFaults has; `make long`
// sets a million.
var events = flag.Int("events", 3000, "events per seed of the simulation with faults")

// TestSchedulerUnderFaults injects every fault: containers that die, are never created,
// acknowledge late or never, or report wrong memory; devices that are lost and back
// during moves; host memory that is short; withdrawals; clocks that step. The
// invariants hold after every event, and when the faults are over every invocation
// that could run has ended, once.
func TestSchedulerUnderFaults(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newChaos(t, seed).run(*events)
		})
	}
}

// pending is an event that comes later.
type pending struct {
	at  time.Duration
	seq int
	e   Event
}

type agenda []pending

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(pending)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// chaos is a scheduler with simulated containers and devices that have faults.
type chaos struct {
	t        *testing.T
	r        *rand.Rand
	seed     uint64
	l        *Scheduler
	now      time.Duration
	coming   agenda
	seq      int
	draining bool // no faults are injected any more

	invocation uint64
	open       map[uint64]bool // submitted and not ended
	running    map[uint64]Container
	containers map[Container]bool
	removing   map[Container]bool
	hostUsed   int // MiB of host memory of containers
	size       map[Container]int
	hostMB     int
	lost       [3]bool
	functions  []Function
	ended      map[Reason]int
	observe    func(e *Event, orders []Order) // called with each event and with the orders after it
}

func newChaos(t *testing.T, seed uint64) *chaos {
	s := &chaos{
		t: t, r: rand.New(rand.NewPCG(seed, 7)), seed: seed, open: map[uint64]bool{}, running: map[uint64]Container{},
		containers: map[Container]bool{}, removing: map[Container]bool{}, size: map[Container]int{}, ended: map[Reason]int{},
	}
	policies := []string{"mqfq-sticky", "sticky-plus", "fcfs", "least-time", "newest", "shortest", "deadline", "fewest-runs"}
	policy := policies[seed%uint64(len(policies))]
	cfg := defaults(policy)
	cfg.Namespaces = seed%3 == 0 && policy != "fcfs"
	c := Config{
		Policy: policy, NewPolicy: newPolicy, Sched: cfg, Tokens: gpu.DefaultTokens(), Pool: gpu.PoolConfig{Size: 2 + int(seed%6), Rule: gpu.RetentionPolicy(seed % 4)},
		Context: 400 << 20, Memory: 1 << 30, AckTimeout: 2 * time.Second, IdleTimeout: 10 * time.Minute,
		PrefetchActive: seed%2 == 0, Faults: seed%4 < 2, SwapEachRun: seed%7 == 6,
		DeviceTimeout: 5 * time.Minute, Headroom: int64(seed%2) << 30,
		Weights: map[string]float64{"b/f1": 3},
	}
	if seed%5 == 1 {
		c.NamespaceLimits = map[string]int64{"a": 6 << 30, "*": 3 << 30}
	}
	c.Tokens.Max, c.Tokens.Dynamic = 1+int(seed%4), seed%2 == 1
	for i := range 1 + int(seed%3) {
		c.Devices = append(c.Devices, gpu.Device{Index: i, MemoryBytes: int64(8+8*((int(seed)+i)%2)) << 30})
	}
	l, err := New(c)
	check.NoError(t, err)
	s.l, s.hostMB = l, 1024<<(seed%3)
	for i := range 8 {
		s.functions = append(s.functions, Function{
			Flow: sched.FlowID{Namespace: string(rune('a' + i%3)), Function: fmt.Sprint("f", i)}, Key: fmt.Sprint("f", i, "/1"),
			HostMB: 128 << (i % 3), Memory: int64(i%5) << 31, NoShim: i == 5, Width: 1 + i%3, Weight: float64(i % 2),
		})
	}
	return s
}

func (s *chaos) chance(n int) bool { return !s.draining && s.r.IntN(n) == 0 }

func (s *chaos) upTo(most time.Duration) time.Duration {
	return time.Duration(s.r.Int64N(int64(most) + 1))
}

func (s *chaos) later(in time.Duration, e Event) {
	s.seq++
	heap.Push(&s.coming, pending{s.now + in, s.seq, e})
}

// run injects so many faults and invocations, then waits for the end of all.
func (s *chaos) run(n int) {
	for range n {
		s.inject()
		s.step()
		if s.t.Failed() {
			return
		}
	}
	s.draining = true
	for i := range s.l.devices {
		s.take(Event{Kind: DeviceBack, Device: i, Of: OfDevice})
		s.take(Event{Kind: DeviceBack, Device: i, Of: OfDaemon})
	}
	s.hostMB = 1 << 20
	s.host(0)
	for range 40 * n {
		for i := range s.l.devices {
			if s.seq%16 == 0 {
				s.take(Event{Kind: Sampled, Device: i, Used: 0})
			}
		}
		if s.step(); s.t.Failed() || s.done() {
			break
		}
	}
	st := s.l.Stats()
	check.That(check.Must(s.t), s.done(), "seed %d: %d invocations never ended, %d containers stay: %+v", s.seed, len(s.open), len(s.containers), st)
	check.AtMost(check.Must(s.t), st.Queued, 0, "seed %d: %d invocations never ended, %d containers stay", s.seed, len(s.open), len(s.containers))
	check.AtMost(check.Must(s.t), st.InFlight, 0, "seed %d: %d invocations never ended, %d containers stay", s.seed, len(s.open), len(s.containers))
	for _, d := range st.Devices {
		check.Equal(s.t, d.Used, d.Memory.Foreign, "seed %d: an idle device holds", s.seed)
		check.Equal(s.t, d.Containers, 0, "seed %d: an idle device holds", s.seed)
	}
	check.AtMost(s.t, s.ended[Broken], 0, "seed %d", s.seed)
}

func (s *chaos) done() bool { return len(s.open) == 0 && len(s.containers) == 0 }

// step delivers the next event: a pending one, or a tick at the scheduler's deadline.
func (s *chaos) step() {
	at, due := s.l.Deadline()
	switch {
	case len(s.coming) > 0 && (!due || s.coming[0].at <= at):
		p := heap.Pop(&s.coming).(pending)
		s.now = max(s.now, p.at)
		s.deliver(p.e)
	case due:
		s.now = max(s.now, at)
		s.take(Event{Kind: Tick})
	}
}

// deliver applies a pending event, with its consequences outside the scheduler.
func (s *chaos) deliver(e Event) {
	switch e.Kind {
	case Left:
		if _, runs := s.running[e.Invocation]; !runs {
			return
		}
		delete(s.running, e.Invocation)
		delete(s.open, e.Invocation)
		if e.Unused && !s.draining && s.r.IntN(2) == 0 { // it comes again, as another invocation
			defer s.submit()
		}
	case Removed:
		check.That(s.t, s.containers[e.Container], "seed %d: container %d is gone twice", s.seed, e.Container)
		s.hostUsed -= s.size[e.Container]
		delete(s.containers, e.Container)
		defer s.host(0)
	case Moved:
		if s.removing[e.Container] {
			return
		}
	}
	s.take(e)
}

// take has the scheduler take an event, checks it and carries its orders out.
func (s *chaos) take(e Event) {
	e.At = s.now
	if s.chance(50) {
		e.At -= s.upTo(time.Hour) // the clock steps back
	}
	if s.chance(5000) {
		s.now += s.upTo(24 * time.Hour)
	}
	s.l.Take(e)
	s.check(e)
	orders := s.l.Ready()
	if s.observe != nil {
		s.observe(&e, nil)
		s.observe(nil, orders)
	}
	for _, o := range orders {
		s.carryOut(o)
	}
	s.check(e)
}

func (s *chaos) check(e Event) {
	if err := s.l.Check(); err != nil && !s.t.Failed() {
		s.t.Errorf("seed %d, after %s: %v", s.seed, e.Kind, err)
	}
}

func (s *chaos) submit() {
	f := s.functions[s.r.IntN(len(s.functions))]
	if s.chance(40) {
		f.Key += "new"
	}
	s.invocation++
	s.open[s.invocation] = true
	e := Event{Kind: Submitted, Invocation: s.invocation, Function: &f}
	if s.chance(30) {
		e.Due = s.now + s.upTo(time.Minute)
	}
	s.take(e)
}

// inject adds an invocation or a fault.
func (s *chaos) inject() {
	switch s.r.IntN(30) {
	case 0, 1, 2, 3, 4, 5:
		if len(s.open) < 200 {
			s.submit()
		}
	case 6:
		i := s.r.IntN(len(s.l.devices))
		kind := DeviceLost
		if s.lost[i] {
			kind = DeviceBack
		}
		s.lost[i] = !s.lost[i]
		s.take(Event{Kind: kind, Device: i, Of: Loss(s.r.IntN(2)), Why: "a test"})
	case 7:
		s.take(Event{Kind: Sampled, Device: s.r.IntN(5) - 1, Utilization: s.r.Float64()*1.4 - 0.2, Used: int64(s.r.IntN(20)-1) << 30})
	case 8:
		s.misreport(Container(1 + s.r.IntN(int(s.l.created)+1)))
	case 9:
		s.take(Event{Kind: Died, Container: Container(1 + s.r.IntN(int(s.l.created)+1))})
	case 10:
		if s.invocation > 0 {
			s.take(Event{Kind: Withdrawn, Invocation: 1 + s.r.Uint64N(s.invocation)})
		}
	case 11:
		s.host(s.r.IntN(600) - 300)
	}
}

// host reports the remaining host memory.
func (s *chaos) host(more int) {
	s.hostMB = max(s.hostMB+more, 512)
	h := HostMemory{Free: s.hostMB - s.hostUsed}
	if s.chance(3) {
		h.Needed = s.r.IntN(400)
	}
	if s.chance(3) {
		h.Reclaimable = s.r.IntN(400)
	}
	s.take(Event{Kind: HostReported, Host: h})
}

func (s *chaos) misreport(b Container) {
	sizes := []int64{0, 1, 1 << 30, 16 << 30, 17 << 30, 1 << 48, 1 << 60, 1<<63 - 1, -1, -1 << 63}
	size := func() int64 { return sizes[s.r.IntN(len(sizes))] }
	s.take(Event{
		Kind: MemoryReported, Container: b, PID: s.r.IntN(3), Exited: s.chance(4),
		Usage: gpu.Usage{Allocated: size(), Resident: size(), Context: size() >> s.r.IntN(40)},
	})
}

// carryOut carries an order out, well or badly.
func (s *chaos) carryOut(o Order) {
	switch o.Do {
	case Create:
		s.containers[o.Container], s.size[o.Container] = true, o.HostMB
		s.hostUsed += o.HostMB
		if s.size[o.Container] > s.hostMB && !s.draining {
			s.t.Errorf("seed %d: a container of %d MiB on a host of %d", s.seed, o.HostMB, s.hostMB)
		}
	case Start:
		check.That(check.Must(s.t), s.open[o.Invocation], "seed %d: invocation %d starts twice, or in a container that goes", s.seed, o.Invocation)
		check.Equal(s.t, s.running[o.Invocation], 0, "seed %d: invocation %d starts twice, or in a container that goes", s.seed, o.Invocation)
		check.That(s.t, !s.removing[o.Container], "seed %d: invocation %d starts twice, or in a container that goes", s.seed, o.Invocation)
		s.running[o.Invocation] = o.Container
		s.start(o)
	case Move:
		s.move(o)
	case Remove:
		check.That(s.t, !s.removing[o.Container], "seed %d: container %d is removed twice", s.seed, o.Container)
		s.removing[o.Container] = true
		s.later(s.upTo(3*time.Second), Event{Kind: Removed, Container: o.Container})
	case Refuse:
		check.That(check.Must(s.t), s.open[o.Invocation], "seed %d: invocation %d is refused and runs", s.seed, o.Invocation)
		check.Equal(s.t, s.running[o.Invocation], 0, "seed %d: invocation %d is refused and runs", s.seed, o.Invocation)
		delete(s.open, o.Invocation)
		s.ended[o.Reason]++
	case ReclaimHost:
		s.later(s.upTo(time.Second), Event{Kind: HostReported, Host: HostMemory{Free: s.hostMB - s.hostUsed}})
	}
}

// start schedules the events of a run.
func (s *chaos) start(o Order) {
	b, at := o.Container, time.Duration(0)
	next := func(most time.Duration, e Event) {
		at += s.upTo(most)
		e.Invocation, e.Container = o.Invocation, b
		s.later(at, e)
	}
	if !o.Start.Warm() {
		if s.chance(12) { // it is never created, or only after very long
			next(5*time.Minute, Event{Kind: Failed})
			next(0, Event{Kind: Left, Unused: s.r.IntN(2) == 0, Unstartable: s.r.IntN(2) == 0})
			return
		}
		next(5*time.Second, Event{Kind: Created})
		next(3*time.Second, Event{Kind: Initialized})
	}
	setup := at
	switch {
	case s.chance(20): // it dies
		next(2*time.Second, Event{Kind: Died})
		next(2*time.Second, Event{Kind: Left})
		return
	case s.chance(20): //nolint:gocritic // independent of the one above: it never answers
		next(time.Minute, Event{Kind: Left, Setup: setup, Ran: time.Minute})
		return
	case s.chance(30): // it was not usable
		next(0, Event{Kind: Left, Unused: true})
		return
	}
	ran := s.upTo(4 * time.Second)
	at += ran
	used := s.r.Int64N(o.Need.Bytes + 1)
	next(0, Event{Kind: Answered})
	next(0, Event{Kind: MemoryReported, PID: 1, Usage: gpu.Usage{Allocated: used, Resident: used, Context: o.Need.Context}})
	if !s.chance(10) {
		next(time.Second, Event{Kind: Ended, Keep: true, Setup: setup, Ran: ran})
	}
	if s.chance(10) {
		next(10*time.Second, Event{Kind: Died})
	}
	next(3*time.Second, Event{Kind: Left, Keep: true, Setup: setup, Ran: ran})
}

// move acknowledges a move, if at all.
func (s *chaos) move(o Order) {
	at := s.upTo(2 * time.Second)
	switch s.r.IntN(12) {
	case 0:
		if !s.draining {
			return // never
		}
	case 1:
		if !s.draining {
			s.later(at, Event{Kind: Moved, Container: o.Container, Epoch: o.Epoch})
			return
		}
	case 2:
		at += s.upTo(10 * time.Second)
	case 3:
		if !s.draining { // an acknowledgement that means nothing
			s.later(at, Event{Kind: Moved, Container: o.Container, Epoch: o.Epoch - uint64(s.r.IntN(2)), Bytes: -5, OK: true})
			return
		}
	}
	resident := int64(0)
	if o.Move == gpu.Prefetch {
		resident = o.Footprint
	}
	s.later(at, Event{Kind: MemoryReported, Container: o.Container, PID: 1, Usage: gpu.Usage{Allocated: o.Footprint, Resident: resident}})
	s.later(at, Event{Kind: Moved, Container: o.Container, Epoch: o.Epoch, Bytes: o.Bytes, OK: true})
}
