package scheduler

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// events is how many events each seed of TestLaneHoldsAgainstEverything sees;
// `make long` asks for a million.
var events = flag.Int("events", 3000, "events per seed of the simulation with faults")

// TestSchedulerStandsEverything lets everything go wrong that a world can do
// to a scheduler: containers that die, never come, answer late or never; liars about
// memory; containers that are mute; devices that are lost and back in the midst of
// moves; host memory that is short; withdrawals; clocks that step. The books are
// in order after every event, and when the storm is over everybody who could
// run has ended, once.
func TestSchedulerStandsEverything(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newStorm(t, seed).blow(*events)
		})
	}
}

// pending is an event that the world has coming.
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

// storm is a world that does its worst.
type storm struct {
	t        *testing.T
	r        *rand.Rand
	seed     uint64
	l        *Scheduler
	now      time.Duration
	coming   agenda
	seq      int
	peaceful bool

	invocation uint64
	open       map[uint64]bool // submitted and not ended
	running    map[uint64]Container
	containers map[Container]int64 // what its process holds
	removing   map[Container]bool
	hostUsed   int // MiB of host memory that containers hold
	size       map[Container]int
	hostMB     int
	lost       [3]bool
	functions  []Function
	ended      map[Reason]int
	observe    func(e *Event, orders []Order) // hears all that goes in and out
	seen       map[Container]ContainerStats   // as the scheduler told of what stirred
}

func newStorm(t *testing.T, seed uint64) *storm {
	s := &storm{
		t: t, r: rand.New(rand.NewPCG(seed, 7)), seed: seed, open: map[uint64]bool{}, running: map[uint64]Container{},
		containers: map[Container]int64{}, removing: map[Container]bool{}, size: map[Container]int{}, ended: map[Reason]int{},
		seen: map[Container]ContainerStats{},
	}
	policies := []string{"mqfq-sticky", "sticky-plus", "fcfs", "mqfq", "batch", "sjf", "eevdf", "paella"}
	policy := policies[seed%uint64(len(policies))]
	cfg, _ := sched.Defaults(policy)
	cfg.Namespaces = seed%3 == 0 && policy != "fcfs"
	c := Config{
		Policy: policy, Sched: cfg, Tokens: gpu.DefaultTokens(), Pool: gpu.PoolConfig{Size: 2 + int(seed%6), Rule: gpu.Rule(seed % 4)},
		Context: 400 << 20, Memory: 1 << 30, AckTimeout: 2 * time.Second, IdleTimeout: 10 * time.Minute,
		PrefetchActive: seed%2 == 0, PrefetchNext: seed%5 < 3, Faults: seed%4 < 2, SwapEachRun: seed%7 == 6,
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
	c.NewPolicy = func(name string, cfg sched.Config, view sched.View) (sched.Policy, error) {
		return sched.NewPolicy(name, cfg, audited{view, t, len(c.Devices)})
	}
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.l, s.hostMB = l, 1024<<(seed%3)
	for i := range 8 {
		s.functions = append(s.functions, Function{
			Flow: sched.FlowID{Namespace: string(rune('a' + i%3)), Function: fmt.Sprint("f", i)}, Key: fmt.Sprint("f", i, "/1"),
			HostMB: 128 << (i % 3), Memory: int64(i%5) << 31, NoShim: i == 5, Width: 1 + i%3, Weight: float64(i % 2),
		})
	}
	return s
}

// audited holds what a View says of all devices at once to what it says of each.
type audited struct {
	sched.View
	t       *testing.T
	devices int
}

func (a audited) Near(id sched.FlowID, buf []int) ([]int, sched.Placement) {
	near, elsewhere := a.View.Near(id, buf)
	if !slices.IsSorted(near) {
		a.t.Errorf("%s: near are %v, out of order", id, near)
	}
	for d := range a.devices {
		if slices.Contains(near, d) {
			continue
		}
		f := a.Placement(id, d)
		if f.Start != elsewhere.Start || f.Setup != elsewhere.Setup || f.Fits && !elsewhere.Fits {
			a.t.Errorf("%s on device %d: %+v, everywhere else %+v", id, d, f, elsewhere)
		}
	}
	return near, elsewhere
}

func (s *storm) roll(n int) bool { return !s.peaceful && s.r.IntN(n) == 0 }

func (s *storm) nap(most time.Duration) time.Duration {
	return time.Duration(s.r.Int64N(int64(most) + 1))
}

func (s *storm) later(in time.Duration, e Event) {
	s.seq++
	heap.Push(&s.coming, pending{s.now + in, s.seq, e})
}

// blow lets so many events happen, then waits for the end of all.
func (s *storm) blow(n int) {
	for range n {
		s.strike()
		s.step()
		if s.t.Failed() {
			return
		}
	}
	s.peaceful = true
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
		if s.step(); s.t.Failed() || s.quiet() {
			break
		}
	}
	st := s.l.Stats()
	if !s.quiet() || st.Queued > 0 || st.Sched.InFlight > 0 {
		s.t.Fatalf("seed %d: %d invocations never ended, %d boxes stay: %+v", s.seed, len(s.open), len(s.containers), st)
	}
	for _, d := range st.Devices {
		if d.Used != d.Memory.Foreign || d.Containers != 0 {
			s.t.Errorf("seed %d: an idle device holds %+v", s.seed, d)
		}
	}
	if s.ended[Broken] > 0 {
		s.t.Errorf("seed %d: %d broken", s.seed, s.ended[Broken])
	}
}

func (s *storm) quiet() bool { return len(s.open) == 0 && len(s.containers) == 0 }

// step lets the next thing happen: what the world has coming, or the scheduler's
// deadline.
func (s *storm) step() {
	at, due := s.l.Deadline()
	switch {
	case len(s.coming) > 0 && (!due || s.coming[0].at <= at):
		p := heap.Pop(&s.coming).(pending)
		s.now = max(s.now, p.at)
		s.happen(p.e)
	case due:
		s.now = max(s.now, at)
		s.take(Event{Kind: Tick})
	}
}

// happen lets an event happen that was coming, with what goes with it.
func (s *storm) happen(e Event) {
	switch e.Kind {
	case Left:
		if _, runs := s.running[e.Invocation]; !runs {
			return
		}
		delete(s.running, e.Invocation)
		delete(s.open, e.Invocation)
		if e.Unused && !s.peaceful && s.r.IntN(2) == 0 { // it comes again, as another invocation
			defer s.submit()
		}
	case Removed:
		if _, known := s.containers[e.Container]; !known {
			s.t.Errorf("seed %d: box %d is gone twice", s.seed, e.Container)
		}
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

// take tells the scheduler an event, holds it to its books and does what it orders.
func (s *storm) take(e Event) {
	e.At = s.now
	if s.roll(50) {
		e.At -= s.nap(time.Hour) // the clock steps back
	}
	if s.roll(5000) {
		s.now += s.nap(24 * time.Hour)
	}
	s.l.Take(e)
	s.check(e)
	orders := s.l.Ready()
	if s.r.IntN(4) == 0 {
		s.readDirty(e)
	}
	if s.observe != nil {
		s.observe(&e, nil)
		s.observe(nil, orders)
	}
	for _, o := range orders {
		s.carryOut(o)
	}
	s.check(e)
}

func (s *storm) check(e Event) {
	if err := s.l.Check(); err != nil && !s.t.Failed() {
		s.t.Errorf("seed %d, after %s: %v", s.seed, e.Kind, err)
	}
}

// readDirty holds what the scheduler tells of containers that stirred to how all of them are.
func (s *storm) readDirty(e Event) {
	for n := s.l.DirtyCount(); n > 0; {
		n = s.l.Dirty(n, 3, func(b ContainerStats) { s.seen[b.ID] = b })
	}
	all := s.l.Containers(nil)
	for _, b := range all {
		if s.seen[b.ID] != b && !s.t.Failed() {
			s.t.Errorf("seed %d, after %s: box %d is %+v, last told as %+v", s.seed, e.Kind, b.ID, b, s.seen[b.ID])
		}
	}
	if n := len(s.l.dirty); n > 0 {
		s.t.Errorf("seed %d: %d boxes are still to be told of", s.seed, n)
	}
}

func (s *storm) submit() {
	f := s.functions[s.r.IntN(len(s.functions))]
	if s.roll(40) {
		f.Key += "new"
	}
	s.invocation++
	s.open[s.invocation] = true
	e := Event{Kind: Submitted, Invocation: s.invocation, Function: &f, Spilled: s.roll(2)}
	if s.roll(30) {
		e.Due = s.now + s.nap(time.Minute)
	}
	s.take(e)
}

// strike lets something new happen, mostly somebody's call.
func (s *storm) strike() {
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
		s.misreport(Container(1 + s.r.IntN(int(s.l.counted)+1)))
	case 9:
		s.take(Event{Kind: Died, Container: Container(1 + s.r.IntN(int(s.l.counted)+1))})
	case 10:
		if s.invocation > 0 {
			s.take(Event{Kind: Withdrawn, Invocation: 1 + s.r.Uint64N(s.invocation)})
		}
	case 11:
		s.host(s.r.IntN(600) - 300)
	}
}

// host tells what host memory is left.
func (s *storm) host(more int) {
	s.hostMB = max(s.hostMB+more, 512)
	h := HostMemory{Free: s.hostMB - s.hostUsed}
	if s.roll(3) {
		h.Needed = s.r.IntN(400)
	}
	if s.roll(3) {
		h.Reclaimable = s.r.IntN(400)
	}
	s.take(Event{Kind: HostReported, Host: h})
}

func (s *storm) misreport(b Container) {
	sizes := []int64{0, 1, 1 << 30, 16 << 30, 17 << 30, 1 << 48, 1 << 60, 1<<63 - 1, -1, -1 << 63}
	size := func() int64 { return sizes[s.r.IntN(len(sizes))] }
	s.take(Event{
		Kind: MemoryReported, Container: b, PID: s.r.IntN(3), Exited: s.roll(4),
		Usage: gpu.Usage{Allocated: size(), Resident: size(), Context: size() >> s.r.IntN(40)},
	})
}

// carryOut answers an order, well or badly.
func (s *storm) carryOut(o Order) {
	switch o.Do {
	case Create:
		s.containers[o.Container], s.size[o.Container] = 0, o.HostMB
		s.hostUsed += o.HostMB
		if s.size[o.Container] > s.hostMB && !s.peaceful {
			s.t.Errorf("seed %d: a box of %d MiB on a host of %d", s.seed, o.HostMB, s.hostMB)
		}
	case Start:
		if !s.open[o.Invocation] || s.running[o.Invocation] != 0 || s.removing[o.Container] {
			s.t.Errorf("seed %d: invocation %d starts twice, or in a box that goes", s.seed, o.Invocation)
		}
		s.running[o.Invocation] = o.Container
		s.run(o)
	case Move:
		s.move(o)
	case Remove:
		if s.removing[o.Container] {
			s.t.Errorf("seed %d: box %d is removed twice", s.seed, o.Container)
		}
		s.removing[o.Container] = true
		s.later(s.nap(3*time.Second), Event{Kind: Removed, Container: o.Container})
	case Refuse:
		if !s.open[o.Invocation] || s.running[o.Invocation] != 0 {
			s.t.Errorf("seed %d: invocation %d is refused and runs", s.seed, o.Invocation)
		}
		delete(s.open, o.Invocation)
		s.ended[o.Reason]++
	case ReclaimHost:
		s.later(s.nap(time.Second), Event{Kind: HostReported, Host: HostMemory{Free: s.hostMB - s.hostUsed}})
	}
}

// run lets a run go its way, or none.
func (s *storm) run(o Order) {
	b, at := o.Container, time.Duration(0)
	next := func(most time.Duration, e Event) {
		at += s.nap(most)
		e.Invocation, e.Container = o.Invocation, b
		s.later(at, e)
	}
	if !o.Start.Warm() {
		if s.roll(12) { // it never comes, or only after very long
			next(5*time.Minute, Event{Kind: Failed})
			next(0, Event{Kind: Left, Unused: s.r.IntN(2) == 0})
			return
		}
		next(5*time.Second, Event{Kind: Created})
		next(3*time.Second, Event{Kind: Initialized})
	}
	setup := at
	switch {
	case s.roll(20): // it dies
		next(2*time.Second, Event{Kind: Died})
		next(2*time.Second, Event{Kind: Left})
		return
	case s.roll(20): //nolint:gocritic // another throw: it never answers
		next(time.Minute, Event{Kind: Left, Setup: setup, Ran: time.Minute})
		return
	case s.roll(30): // it was not usable
		next(0, Event{Kind: Left, Unused: true})
		return
	}
	ran := s.nap(4 * time.Second)
	at += ran
	used := s.r.Int64N(o.Need.Bytes + 1)
	next(0, Event{Kind: Answered})
	next(0, Event{Kind: MemoryReported, PID: 1, Usage: gpu.Usage{Allocated: used, Resident: used, Context: o.Need.Context}})
	if !s.roll(10) {
		next(time.Second, Event{Kind: Ended, Keep: true, Setup: setup, Ran: ran})
	}
	if s.roll(10) {
		next(10*time.Second, Event{Kind: Died})
	}
	next(3*time.Second, Event{Kind: Left, Keep: true, Setup: setup, Ran: ran})
}

// move answers about memory, if at all.
func (s *storm) move(o Order) {
	at := s.nap(2 * time.Second)
	switch s.r.IntN(12) {
	case 0:
		if !s.peaceful {
			return // mute
		}
	case 1:
		if !s.peaceful {
			s.later(at, Event{Kind: Moved, Container: o.Container, Epoch: o.Epoch})
			return
		}
	case 2:
		at += s.nap(10 * time.Second)
	case 3:
		if !s.peaceful { // an answer that means nothing
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
