package scheduler

import (
	"container/heap"
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// caller is a function that always has so many invocations submitted.
type caller struct {
	Function
	keep      int
	init, run time.Duration
	fails     bool          // its initialization fails
	crashes   bool          // its runs end with the container
	pause     time.Duration // before it calls again
	wait      time.Duration // the longest from a call to its start
	service   time.Duration // time of tokens
	starts    int
}

// fixture runs callers on a scheduler whose orders are carried out at once and well, but
// for removals, which may take time.
type fixture struct {
	t       *testing.T
	l       *Scheduler
	now     time.Duration
	coming  agenda
	seq     int
	id      uint64
	callers []*caller
	of      map[uint64]*caller
	began   map[uint64]time.Duration
	idle    []time.Duration // by device: no run, while invocations are queued

	hostMB   int // of the host, 0 without limit
	taken    map[Container]int
	removing time.Duration
}

func newFixture(t *testing.T, c Config, callers ...*caller) *fixture {
	l, err := New(c)
	check.NoError(t, err)
	w := &fixture{t: t, l: l, callers: callers, of: map[uint64]*caller{}, began: map[uint64]time.Duration{}, idle: make([]time.Duration, len(c.Devices)), taken: map[Container]int{}}
	for _, x := range callers {
		w.call(x)
	}
	return w
}

// call submits the invocations of a caller.
func (w *fixture) call(x *caller) {
	for range x.keep {
		w.submit(x)
	}
}

// limitHost limits the host's memory from now on.
func (w *fixture) limitHost(mb int) {
	w.hostMB = mb
	w.take(w.hostReport())
}

// hostReport returns the event with the free host memory.
func (w *fixture) hostReport() Event {
	free := w.hostMB
	for _, mb := range w.taken {
		free -= mb
	}
	check.AtLeast(check.Must(w.t), free, 0, "%s", w.now)
	return Event{Kind: HostReported, Host: HostMemory{Free: free}}
}

func (w *fixture) submit(x *caller) {
	w.take(w.submission(x))
}

func (w *fixture) submission(x *caller) Event {
	w.id++
	w.of[w.id] = x
	return Event{Kind: Submitted, Invocation: w.id, Function: &x.Function}
}

func (w *fixture) later(in time.Duration, e Event) {
	w.seq++
	heap.Push(&w.coming, pending{w.now + in, w.seq, e})
}

func (w *fixture) take(e Event) {
	e.At = w.now
	w.l.Take(e)
	if e.Kind == Removed && w.hostMB > 0 {
		delete(w.taken, e.Container)
		w.l.Take(w.hostReport())
	}
	for _, o := range w.l.Ready() {
		switch o.Do {
		case Create:
			w.taken[o.Container] = o.HostMB
		case Start:
			w.start(o)
		case Move:
			resident := int64(0)
			if o.Move == gpu.Prefetch {
				resident = o.Footprint
			}
			w.later(0, Event{Kind: MemoryReported, Container: o.Container, PID: 1, Usage: gpu.Usage{Allocated: o.Footprint, Resident: resident}})
			w.later(0, Event{Kind: Moved, Container: o.Container, Epoch: o.Epoch, Bytes: o.Bytes, OK: true})
		case Remove:
			w.later(w.removing, Event{Kind: Removed, Container: o.Container})
		}
	}
	check.NoError(w.t, w.l.Check(), "%s after %s", w.now, e.Kind)
}

func (w *fixture) start(o Order) {
	x := w.of[o.Invocation]
	x.starts++
	w.began[o.Invocation] = w.now
	x.wait = max(x.wait, o.Waited)
	setup := time.Duration(0)
	if !o.Start.Warm() {
		setup = x.init
	}
	if x.fails {
		w.later(setup, Event{Kind: Left, Invocation: o.Invocation, Setup: setup})
		return
	}
	end := Event{Kind: Left, Invocation: o.Invocation, Keep: !x.crashes, Setup: setup, Ran: x.run}
	used := gpu.Usage{Allocated: x.Memory, Resident: x.Memory}
	w.later(setup, Event{Kind: Initialized, Container: o.Container})
	w.later(setup+x.run, Event{Kind: MemoryReported, Container: o.Container, PID: 1, Usage: used})
	w.later(setup+x.run, end)
}

// until lets time pass up to a time.
func (w *fixture) until(end time.Duration) {
	for {
		at, due := w.l.Deadline()
		tick := due && (len(w.coming) == 0 || at < w.coming[0].at)
		if !tick {
			if len(w.coming) == 0 {
				return
			}
			at = w.coming[0].at
		}
		if at = max(at, w.now); at > end {
			return
		}
		w.pass(at)
		if tick {
			w.take(Event{Kind: Tick})
			continue
		}
		e := heap.Pop(&w.coming).(pending).e
		x := w.of[e.Invocation]
		if e.Kind == Left {
			x.service += w.now - w.began[e.Invocation]
			delete(w.of, e.Invocation)
		}
		w.take(e)
		if e.Kind == Left {
			w.later(x.pause, w.submission(x))
		}
	}
}

// pass counts the time of idle devices.
func (w *fixture) pass(at time.Duration) {
	for i := range w.idle {
		if w.l.devices[i].inFlight == 0 && w.l.backlog.Len() > 0 {
			w.idle[i] += at - w.now
		}
	}
	w.now = at
}

func function(namespace, name string, memory int64) Function {
	return Function{Flow: sched.FlowID{Namespace: namespace, Function: name}, Key: name, HostMB: 256, Memory: memory}
}

// TestFailingFunctionPays: a function whose initialization fails, or which loses its container
// with each run, takes at most the bound's share from a working function, in its own namespace
// or another.
func TestFailingFunctionPays(t *testing.T) {
	for _, policy := range []string{"sticky-plus", "mqfq-sticky", "least-time"} {
		for _, namespace := range []string{"n", "other"} {
			for _, crashes := range []bool{false, true} {
				bad := &caller{Function: function("n", "bad", gib), keep: 3, init: time.Minute, run: time.Second, fails: !crashes, crashes: crashes}
				good := &caller{Function: function(namespace, "good", gib), keep: 3, run: time.Second}
				c := config(policy, 1)
				w := newFixture(t, c, bad, good)
				w.until(4 * time.Hour)
				bound := sched.GapBound(c.Sched.MaxOverrun(), 2, time.Minute+time.Second, 1, time.Second, 1)
				check.AtMost(t, bad.service, good.service+bound, "%s, namespace %s, crashes %t: %s of tokens against %s, bound %s", policy, namespace, crashes, bad.service, good.service, bound)
				check.AtMost(t, bad.starts, 100, "%s, namespace %s, crashes %t", policy, namespace, crashes)
				check.AtLeast(t, w.l.Explain(bad.Flow).Failed, 10, "%s, namespace %s, crashes %t", policy, namespace, crashes)
			}
		}
	}
}

// TestBackoffEndsWithSuccess: after a pause one run is tried, and when it ends well the
// function runs as before.
func TestBackoffEndsWithSuccess(t *testing.T) {
	bad := &caller{Function: function("n", "bad", gib), keep: 3, init: time.Second, run: time.Second, fails: true}
	w := newFixture(t, config("sticky-plus", 1), bad)
	w.until(time.Hour)
	check.AtMost(t, bad.starts, 30)
	check.Equal(t, w.l.Explain(bad.Flow).Rule, sched.RuleBackoff)
	bad.fails = false
	w.until(w.now + 10*time.Minute)
	check.Equal(t, w.l.Explain(bad.Flow).Failed, 0)
	check.AtLeast(t, bad.starts, 300)
}

// TestFailedIdleContainerIsRemoved: nothing else would ever remove it.
func TestFailedIdleContainerIsRemoved(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	s.run("", s.submit("create 1, start 1 in 1 on 0 cold", fn("f", gib)), 1, gib)
	s.expect("remove 1", Event{Kind: Failed, Container: 1})
}

// TestRemovalWithoutAnswer: a container whose removal never ends keeps its own memory and
// nothing else. Runs that wait for that memory go back to their queues, and others run.
func TestRemovalWithoutAnswer(t *testing.T) {
	s := newScript(t, config("mqfq-sticky", 1))
	s.run("", s.submit("create 1, start 1 in 1 on 0 cold", fn("f", 8*gib)), 1, 8*gib)
	s.expect("remove 1", Event{Kind: Failed, Container: 1})
	s.submit("create 2", fn("large", 12*gib))
	small := s.submit("create 3", fn("small", 2*gib))
	s.now += 10 * time.Second
	s.expect(fmt.Sprintf("removal overdue 1, remove 3, remove 2, create 4, start %d in 4 on 0 cold", small), Event{Kind: Tick})
	got, want := s.l.Explain(fn("large", 0).Flow).Missing, "8592 MiB in containers whose removal has not ended"
	check.Contains(t, got, want, "large misses")
	s.expect("", Event{Kind: Removed, Container: 2})
	s.expect("", Event{Kind: Removed, Container: 3})
	s.run("", small, 4, 2*gib)
	s.expect("create 5, start 2 in 5 on 0 cold", Event{Kind: Removed, Container: 1})
}

// TestPrefetchOutlivesItsRun: prefetched memory stays promised until the prefetch is
// acknowledged, although its run has ended.
func TestPrefetchOutlivesItsRun(t *testing.T) {
	c := config("mqfq-sticky", 1)
	c.Faults = true
	s := newScript(t, c)
	f, g := fn("f", 10*gib), fn("g", 10*gib)
	s.run("", s.submit("create 1, start 1 in 1 on 0 cold", f), 1, 10*gib)
	two := s.submit("create 2, evict 1 epoch 1", g)
	s.holds("start 2 in 2 on 0 cold", 1, 10*gib, 0)
	s.take(Event{Kind: Moved, Container: 1, Epoch: 1, Bytes: 10 * gib, OK: true})
	s.run("", two, 2, 10*gib)
	three := s.submit("evict 2 epoch 1", f)
	s.holds("prefetch 1 epoch 2, start 3 in 1 on 0 host-warm", 2, 10*gib, 0)
	s.take(Event{Kind: Left, Invocation: three, Keep: true})
	check.AtLeast(t, s.l.Device(0).Used, 10*gib, "bytes are charged while 10 GiB are on their way")
	s.take(Event{Kind: Moved, Container: 1, Epoch: 2, OK: true})
	check.AtMost(t, s.l.Device(0).Used, gib, "bytes are charged after the end of the move")
}

// TestWaitIdlesNoDevice: a flow that waits for its own container leaves the other
// devices to those beyond the window.
func TestWaitIdlesNoDevice(t *testing.T) {
	for _, policy := range []string{"sticky-plus", "mqfq-sticky"} {
		for _, devices := range []int{2, 4, 8} {
			c := config(policy, devices)
			c.Tokens.Max = 1
			x := &caller{Function: function("a", "x", gib), keep: 1, init: time.Minute, run: 50 * time.Second}
			y := &caller{Function: function("b", "y", gib), keep: 20, init: time.Second, run: time.Second}
			w := newFixture(t, c, x)
			w.until(2 * time.Minute) // it has one container
			w.submit(x)
			for range y.keep {
				w.submit(y)
			}
			clear(w.idle)
			w.until(3 * time.Hour)
			for i, idle := range w.idle {
				check.AtMost(t, idle, 5*time.Minute, "%s, %d devices: device %d idles", policy, devices, i)
			}
			check.AtLeast(t, x.service, 2*time.Hour, "%s, %d devices: x had", policy, devices)
		}
	}
}

// TestLongQueueFillsAnIdleToken: a queue that is never empty, of runs far shorter than a set-up,
// gets a second container for the second token, unless that would take the place or the memory
// of another function's idle container.
func TestLongQueueFillsAnIdleToken(t *testing.T) {
	for name, row := range map[string]struct {
		pool        int
		memory      int64 // of the other function
		runsAtLeast int
		runsAtMost  int
	}{
		"room":      {3, gib, 4500, 4700},
		"no place":  {2, gib, 2200, 2350},
		"no memory": {3, 14 * gib, 2200, 2350},
	} {
		c := config("sticky-plus", 1)
		c.Tokens.Max, c.Pool.Size = 2, row.pool
		x := &caller{Function: function("a", "x", gib), keep: 1, init: 10 * time.Second, run: 26 * time.Millisecond}
		y := &caller{Function: function("b", "y", row.memory), keep: 1, init: time.Second, run: time.Second, pause: time.Hour}
		w := newFixture(t, c, x, y)
		w.until(30 * time.Second) // both have one container
		for range 19 {
			w.submit(x)
		}
		w.until(time.Minute)
		before := x.starts
		w.until(2 * time.Minute)
		runs := x.starts - before
		check.AtLeast(t, runs, row.runsAtLeast, "%s: runs in a minute", name)
		check.AtMost(t, runs, row.runsAtMost, "%s: runs in a minute", name)
	}
}

// TestFlappingDeviceTakesNoMemory: however often a device is lost, each invocation that
// waits has one timeout, and is refused in the end.
func TestFlappingDeviceTakesNoMemory(t *testing.T) {
	c := config("fcfs", 1)
	c.DeviceTimeout = time.Minute
	c.Tokens.Max = 1
	s := newScript(t, c)
	for range 100 {
		s.n++
		s.take(Event{Kind: Submitted, Invocation: s.n, Function: fn("f", gib)})
	}
	for range 100 {
		s.now += 10 * time.Second
		s.take(Event{Kind: DeviceLost, Device: 0, Why: "a reset"})
		s.take(Event{Kind: DeviceBack, Device: 0})
		s.take(Event{Kind: Tick})
		if n := len(s.l.timeouts); n > 0 { // and one in the list of waits, which Check counts
			t.Fatalf("%d timeouts of 100 invocations without one of their own", n)
		}
	}
	s.take(Event{Kind: DeviceLost, Device: 0, Why: "for good"})
	s.now += time.Minute
	for range 2 {
		s.take(Event{Kind: Tick})
	}
	check.Equal(t, s.l.Stats().Queued, 0, "invocations wait for a device that is lost")
}

// TestTickRefusesFew: of very many that have waited too long a Tick refuses some, in the
// order of their submission, and the next one is due at once.
func TestTickRefusesFew(t *testing.T) {
	c := config("fcfs", 2)
	c.DeviceTimeout = time.Minute
	c.Devices[1].MemoryBytes = 4 * gib
	s := newScript(t, c)
	s.take(Event{Kind: DeviceLost, Device: 0, Why: "a test"})
	const large = 1000 // which only the lost device could serve
	for range large {
		s.n++
		s.take(Event{Kind: Submitted, Invocation: s.n, Function: fn("large", 8*gib)})
	}
	next := uint64(1)
	for next <= large {
		at, due := s.l.Deadline()
		check.That(check.Must(t), due, "nothing is due after %d refusals", next-1)
		s.now = max(s.now, at)
		s.l.Take(Event{At: s.now, Kind: Tick})
		orders := s.l.Ready()
		check.AtMost(check.Must(t), len(orders), maxExpired, "one Tick gave")
		for _, o := range orders {
			check.Equal(check.Must(t), o.Invocation, next, "%s", o.Do)
			next++
		}
	}
	check.Equal(t, s.now, time.Minute, "the last was refused")
}
