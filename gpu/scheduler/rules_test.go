package scheduler

import (
	"fmt"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
	"testing"
	"time"
)

// tick lets time pass until the deadline.
func (s *script) tick(want string) {
	s.t.Helper()
	at, ok := s.l.Deadline()
	check.That(check.Must(s.t), ok, "there is no deadline")
	s.now = at
	s.expect(want, Event{Kind: Tick})
}

// pushOut has a function of 10 GiB run in container 1 and its memory evicted for
// another's, whose container is removed.
func (s *script) pushOut(f *Function) {
	s.t.Helper()
	one := s.submit("create 1, start 1 in 1 on 0 cold", f)
	s.run("", one, 1, 10*gib)
	two := s.submit("create 2, evict 1 epoch 1", fn("g", 10*gib))
	s.holds("start 2 in 2 on 0 cold", 1, 10*gib, 0)
	s.expect("", Event{Kind: Moved, Container: 1, Epoch: 1, Bytes: 10 * gib, OK: true})
	s.expect("", Event{Kind: Ended, Invocation: two})
	s.expect("remove 2", Event{Kind: Left, Invocation: two})
	s.expect("", Event{Kind: Removed, Container: 2})
}

// TestDeviceTimeoutBeginsWithTheLoss: not with the submission, for until then the
// invocation waited for others.
func TestDeviceTimeoutBeginsWithTheLoss(t *testing.T) {
	c := config("fcfs", 1)
	c.Tokens.Max, c.DeviceTimeout = 1, 5*time.Minute
	s := newScript(t, c)
	s.submit("create 1, start 1 in 1 on 0 cold", fn("long", gib))
	s.submit("", fn("f", gib))
	s.now = 10 * time.Minute
	s.expect("", Event{Kind: DeviceLost, Device: 0, Why: "a test"})
	s.expect("", Event{Kind: Died, Invocation: 1})
	s.expect("", Event{Kind: Removed, Container: 1})
	s.now = 15*time.Minute - 1
	s.expect("", Event{Kind: Tick})
	s.now++
	s.expect("refuse 2 no device", Event{Kind: Tick})
}

// TestTooBigIsRefused: also when its timeout ends while a device is lost.
func TestTooBigIsRefused(t *testing.T) {
	c := config("fcfs", 2)
	c.Tokens.Max, c.DeviceTimeout = 1, 5*time.Minute
	s := newScript(t, c)
	s.expect("", Event{Kind: DeviceLost, Device: 1, Why: "a test"})
	one := s.submit("create 1, start 1 in 1 on 0 cold", fn("f", gib))
	s.submit("", fn("huge", 100*gib))
	s.now = time.Hour
	s.expect("", Event{Kind: Tick})
	s.expect("create 2, refuse 2 too big, remove 2", Event{Kind: Ended, Invocation: one})
}

// TestEvictForHost: as many idle containers are removed as the host memory requires, and
// containers that are being removed count.
func TestEvictForHost(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	for i, name := range []string{"f", "g", "h", "i"} {
		s.take(Event{Kind: Submitted, Invocation: uint64(i + 1), Function: fn(name, gib)})
		s.run("", uint64(i+1), Container(i+1), gib)
		s.now += time.Second
	}
	s.take(Event{Kind: Submitted, Invocation: 5, Function: fn("i", gib)}) // whose container is in use now
	check.Equal(t, s.l.ReclaimableMB(), 3*256, "MB are spare")
	s.expect("remove 1, remove 2", Event{Kind: HostReported, Host: HostMemory{Needed: 300}})
	s.expect("", Event{Kind: HostReported, Host: HostMemory{Needed: 512}})
	s.expect("remove 3", Event{Kind: HostReported, Host: HostMemory{Needed: 513}})
}

// TestUnresponsiveContainerIsRemoved: a container whose memory does not move delays the run of
// another function by one acknowledgement timeout, even if it moves a little now and then. A
// container that moves as fast as a slow link is waited for.
func TestUnresponsiveContainerIsRemoved(t *testing.T) {
	for moves, want := range map[int64]time.Duration{0: 1, gib / 64: 1, 2 * gib: 1, 3 * gib: 0} {
		c := config("fcfs", 1)
		s := newScript(t, c)
		one := s.submit("create 1, start 1 in 1 on 0 cold", fn("f", 14*gib))
		s.run("", one, 1, 14*gib)
		s.submit("create 2, evict 1 epoch 1", fn("g", 15*gib))
		began, left := s.now, 14*gib
		for range 3 {
			left -= moves
			s.holds("", 1, 14*gib, left)
			if s.now == began+c.AckTimeout/2 && want > 0 {
				s.tick("unresponsive 1, remove 1")
				check.Equal(t, s.now-began, want*c.AckTimeout, "a container that moves %d bytes in half of it is given up after", moves)
				break
			}
			s.tick("evict 1 epoch 1")
		}
	}
}

// TestUnresponsiveFunctionIsDistrusted: after one container ignored an eviction the next
// ones of its function delay nobody: they are removed at once. After a while the function
// is trusted again.
func TestUnresponsiveFunctionIsDistrusted(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	hostile, other := fn("f", 14*gib), fn("g", 15*gib)
	s.run("", s.submit("create 1, start 1 in 1 on 0 cold", hostile), 1, 14*gib)
	two := s.submit("create 2, evict 1 epoch 1", other)
	s.tick("evict 1 epoch 1")
	s.tick("unresponsive 1, remove 1")
	s.expect("start 2 in 2 on 0 cold", Event{Kind: Removed, Container: 1})
	s.run("", two, 2, 15*gib)
	for i := range uint64(2) {
		c, left := Container(3+i), Event{Kind: Moved, Container: 2, Epoch: 2*i + 1, OK: true}
		n := s.submit(fmt.Sprintf("create %d, evict 2 epoch %d", c, left.Epoch), hostile)
		s.holds(fmt.Sprintf("start %d in %d on 0 cold", n, c), 2, 15*gib, 0)
		s.expect("", left)
		if i == 1 {
			s.run("", n, c, 14*gib)
			s.now += distrustTime
			s.submit("evict 4 epoch 1", other)
			continue
		}
		s.take(Event{Kind: Created, Container: c})
		s.holds("", c, 14*gib, 14*gib)
		s.take(Event{Kind: Ended, Invocation: n, Keep: true})
		left.Kind, left.Invocation, left.Keep = Left, n, true
		n = s.submit("", other)
		s.expect("remove 3", left)
		s.expect("prefetch 2 epoch 2", Event{Kind: Removed, Container: 3})
		s.holds("", 2, 15*gib, 15*gib)
		s.expect(fmt.Sprintf("start %d in 2 on 0 host-warm", n), Event{Kind: Moved, Container: 2, Epoch: 2, Bytes: 15 * gib, OK: true})
		s.run("", n, 2, 15*gib)
	}
}

// TestUnresponsiveContainerWithARunStays: its run would be lost.
func TestUnresponsiveContainerWithARunStays(t *testing.T) {
	c := config("fcfs", 1)
	c.Faults = true
	s := newScript(t, c)
	s.pushOut(fn("f", 10*gib))
	s.submit("prefetch 1 epoch 2, start 3 in 1 on 0 host-warm", fn("f", 10*gib))
	for range 8 {
		s.tick("prefetch 1 epoch 2")
	}
}

// TestPeakCounts: the memory of a run is the most that was reported, not the last.
func TestPeakCounts(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	one := s.submit("create 1, start 1 in 1 on 0 cold", fn("f", gib))
	s.holds("", 1, 8*gib, 8*gib)
	s.holds("", 1, 2*gib, 2*gib)
	got := s.served(Event{Kind: Ended, Invocation: one, Keep: true})
	check.Equal(check.Must(t), len(got), 1)
	check.Equal(t, got[0].Memory, 8*gib)
}

// TestMemoryWithoutShimIsNotMoved: it cannot be, so the container is removed.
func TestMemoryWithoutShimIsNotMoved(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	f := fn("f", 10*gib)
	f.NoShim = true
	one := s.submit("create 1, start 1 in 1 on 0 cold", f)
	s.run("", one, 1, 10*gib)
	resident, all := s.l.devices[0].ledger.Residency(1)
	check.Equal(t, resident, 0)
	check.Equal(t, all, 0)
	s.submit("create 2, remove 1", fn("g", 10*gib))
}

// TestMoreThanADeviceIsServed: with all of the largest device.
func TestMoreThanADeviceIsServed(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	f := fn("f", gib)
	one := s.submit("create 1, start 1 in 1 on 0 cold", f)
	s.run("", one, 1, 30*gib)
	s.submit("prefetch 1 epoch 1", f)
	s.expect("start 2 in 1 on 0 host-warm", Event{Kind: Moved, Container: 1, Epoch: 1, OK: true, Bytes: 4 * gib})
}

// TestBusyContainerCountsAgainstItsNamespace: all its memory counts, not only its next run's
// need.
func TestBusyContainerCountsAgainstItsNamespace(t *testing.T) {
	c := config("fcfs", 1)
	c.Tokens.Max = 4
	c.NamespaceLimits = map[string]int64{"n": 8 * gib}
	s := newScript(t, c)
	f := fn("f", gib)
	f.Width = 2
	s.submit("create 1, start 1 in 1 on 0 cold", f)
	s.submit("create 2, start 2 in 2 on 0 cold", fn("g", 2*gib))
	s.holds("", 1, 7*gib, 7*gib)
	s.submit("", f)
	check.That(t, !s.l.permits(s.l.devices[0], s.l.flows[f.Flow].newest(), s.l.containers[1], gpu.MemoryRequest{Bytes: gib}), "1 GiB more in a container of 7, beside 2, is permitted where 8 are the limit")
}

// TestIdleMemoryIsPrefetched: that of a flow with work queued, where memory is free.
func TestIdleMemoryIsPrefetched(t *testing.T) {
	c := config("mqfq-sticky", 1)
	c.Tokens.Max = 1
	s := newScript(t, c)
	f := fn("f", 10*gib)
	s.pushOut(f)
	s.now += time.Hour // f has no work for so long that it is not active
	s.expect("", Event{Kind: Tick})
	s.submit("create 3, start 3 in 3 on 0 cold", fn("h", gib))
	s.submit("prefetch 1 epoch 2", f)
}

// TestGoneFunctionsAreForgotten: with their namespaces.
func TestGoneFunctionsAreForgotten(t *testing.T) {
	s := newScript(t, config("mqfq-sticky", 1))
	one := s.submit("create 1, start 1 in 1 on 0 cold", fn("f", gib))
	s.take(Event{Kind: Ended, Invocation: one})
	s.take(Event{Kind: Left, Invocation: one})
	s.take(Event{Kind: Removed, Container: 1})
	for range 3 {
		s.now += 24 * time.Hour
		s.take(Event{Kind: Tick})
	}
	check.Equal(t, len(s.l.flows)+len(s.l.namespaces), 0, "flows and namespaces are known")
}

// TestHostWarm: a start is host-warm when memory was evicted, not when memory was
// allocated and never used, nor when an eviction was cancelled before it moved any.
func TestHostWarm(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	f := fn("f", 10*gib)
	one := s.submit("create 1, start 1 in 1 on 0 cold", f)
	s.holds("", 1, 10*gib, 2*gib)
	s.expect("", Event{Kind: Ended, Invocation: one, Keep: true})
	s.expect("", Event{Kind: Left, Invocation: one, Keep: true})
	placement := s.l.Work(f.Flow).Placement(0)
	check.Equal(t, placement.Start, sched.GPUWarm, "an arena that is on the device as far as it is used")
	check.Equal(t, placement.Setup, 0, "an arena that is on the device as far as it is used")
	s.submit("prefetch 1 epoch 1", f)
	s.expect("start 2 in 1 on 0 gpu-warm", Event{Kind: Moved, Container: 1, Epoch: 1, OK: true})
	s.holds("", 1, 10*gib, 2*gib)
	s.expect("", Event{Kind: Ended, Invocation: 2, Keep: true})
	s.expect("", Event{Kind: Left, Invocation: 2, Keep: true})

	g := fn("g", 14*gib)
	s.submit("create 2, evict 1 epoch 2", g)
	check.Equal(t, s.l.Work(f.Flow).Placement(0).Start, sched.HostWarm, "memory that is being evicted")
	s.holds("start 3 in 2 on 0 cold", 1, 10*gib, 0)
	s.expect("", Event{Kind: Moved, Container: 1, Epoch: 2, OK: true, Bytes: 2 * gib})
	check.Equal(t, s.l.Work(f.Flow).Placement(0).Start, sched.HostWarm, "memory that is evicted")
}

// TestCancelledEviction: a container whose memory is being evicted is host-warm, unless
// the eviction is cancelled before it moved any.
func TestCancelledEviction(t *testing.T) {
	for bytes, want := range map[int64]string{0: "gpu-warm", gib: "host-warm", 4 * gib: "host-warm"} {
		c := config("mqfq-sticky", 1)
		c.Headroom = 10 * gib
		s := newScript(t, c)
		f := fn("f", 10*gib)
		one := s.submit("create 1, start 1 in 1 on 0 cold", f)
		s.run("", one, 1, 10*gib)
		s.tick("evict 1 epoch 1") // no report came any more
		s.submit("cancel move 1, prefetch 1 epoch 3", f)
		s.expect("start 2 in 1 on 0 "+want, Event{Kind: Moved, Container: 1, Epoch: 3, OK: true, Bytes: bytes})
	}
}
