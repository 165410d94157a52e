package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

const gib = int64(1) << 30

// config is a scheduler of some devices of 16 GB under a policy.
func config(policy string, devices int) Config {
	c := Config{
		Policy: policy, NewPolicy: newPolicy, Sched: defaults(policy), Tokens: gpu.TokensConfig{Max: 2}, Pool: gpu.PoolConfig{Size: 32},
		Context: 400 << 20, Memory: gib, AckTimeout: 10 * time.Second, PrefetchActive: true,
	}
	for i := range devices {
		c.Devices = append(c.Devices, gpu.Device{Index: i, MemoryBytes: 16 * gib})
	}
	return c
}

// script is a scheduler under test, whose orders are read as text.
type script struct {
	t   *testing.T
	l   *Scheduler
	now time.Duration
	n   uint64
}

func newScript(t *testing.T, c Config) *script {
	l, err := New(c)
	check.NoError(t, err)
	return &script{t: t, l: l}
}

func fn(name string, memory int64) *Function {
	return &Function{Flow: sched.FlowID{Namespace: "n", Function: name}, Key: name, HostMB: 256, Memory: memory}
}

// take takes an event and lists the orders that follow, without Served and Forget.
func (s *script) take(e Event) string {
	s.t.Helper()
	e.At = s.now
	s.l.Take(e)
	var out []string
	for _, o := range s.l.Ready() {
		switch o.Do {
		case Start:
			out = append(out, fmt.Sprintf("start %d in %d on %d %s", o.Invocation, o.Container, o.Device, o.Start))
		case Move:
			out = append(out, fmt.Sprintf("%s %d epoch %d", o.Move, o.Container, o.Epoch))
		case Refuse:
			out = append(out, fmt.Sprintf("refuse %d %s", o.Invocation, o.Reason))
		case Served, Forget:
		default:
			out = append(out, fmt.Sprintf("%s %d", o.Do, o.Container))
		}
	}
	check.NoError(s.t, s.l.Check())
	return strings.Join(out, ", ")
}

// expect compares the orders that follow from an event.
func (s *script) expect(want string, e Event) {
	s.t.Helper()
	check.Equal(s.t, s.take(e), want, "after %s", e.Kind)
}

// submit submits an invocation of a function and compares the orders that follow.
func (s *script) submit(want string, f *Function) uint64 {
	s.t.Helper()
	s.n++
	s.expect(want, Event{Kind: Submitted, Invocation: s.n, Function: f})
	return s.n
}

// holds reports the memory of the process of a container.
func (s *script) holds(want string, b Container, allocated, resident int64) {
	s.t.Helper()
	s.expect(want, Event{Kind: MemoryReported, Container: b, PID: 1, Usage: gpu.Usage{Allocated: allocated, Resident: resident, Context: 400 << 20}})
}

// run lets a run that has started end well.
func (s *script) run(want string, invocation uint64, b Container, memory int64) {
	s.t.Helper()
	s.take(Event{Kind: Created, Container: b})
	s.take(Event{Kind: Initialized, Container: b})
	s.take(Event{Kind: Answered, Invocation: invocation})
	s.holds("", b, memory, memory)
	s.take(Event{Kind: Ended, Invocation: invocation, Keep: true})
	s.expect(want, Event{Kind: Left, Invocation: invocation, Keep: true})
}

// TestMemoryIsEvictedForAnother: a cold start, a warm one, and a host-warm one after
// another function had the device.
func TestMemoryIsEvictedForAnother(t *testing.T) {
	s := newScript(t, config("mqfq-sticky", 1))
	f, g := fn("f", 10*gib), fn("g", 10*gib)
	a := s.submit("create 1, start 1 in 1 on 0 cold", f)
	s.run("", a, 1, 10*gib)
	a = s.submit("start 2 in 1 on 0 gpu-warm", f)
	s.run("", a, 1, 10*gib)
	a = s.submit("create 2, evict 1 epoch 1", g)
	s.holds("start 3 in 2 on 0 cold", 1, 10*gib, 0)
	s.expect("", Event{Kind: Moved, Container: 1, Epoch: 1, Bytes: 10 * gib, OK: true})
	s.run("", a, 2, 10*gib)
	s.submit("evict 2 epoch 1", f)
	s.holds("prefetch 1 epoch 2", 2, 10*gib, 0)
	s.expect("", Event{Kind: Moved, Container: 2, Epoch: 1, Bytes: 10 * gib, OK: true})
	s.holds("", 1, 10*gib, 10*gib)
	s.expect("start 4 in 1 on 0 host-warm", Event{Kind: Moved, Container: 1, Epoch: 2, Bytes: 10 * gib, OK: true})
}

// TestDeviceTimeout: an invocation that waits for a lost device is refused in the end. An
// invocation that can be served is not.
func TestDeviceTimeout(t *testing.T) {
	c := config("mqfq-sticky", 2)
	c.Devices[0].MemoryBytes = 80 * gib
	c.DeviceTimeout = 5 * time.Minute
	s := newScript(t, c)
	s.expect("", Event{Kind: DeviceLost, Device: 0, Why: "a test"})
	s.now = time.Minute
	large := s.submit("", fn("large", 40*gib))
	s.submit("create 1, start 2 in 1 on 1 cold", fn("small", gib))
	at, ok := s.l.Deadline()
	check.That(check.Must(t), ok, "deadline %s, %t", at, ok)
	check.AtMost(t, at, 6*time.Minute)
	s.now = 6*time.Minute - 1
	s.expect("", Event{Kind: Tick})
	s.now++
	s.expect(fmt.Sprintf("refuse %d no device", large), Event{Kind: Tick})
	huge := s.submit("create 2, refuse 3 too big, remove 2", fn("huge", 100*gib))
	s.now += time.Minute
	s.submit("", fn("large", 40*gib))
	s.expect("refuse 4 withdrawn", Event{Kind: Withdrawn, Invocation: huge + 1})
	s.submit("", fn("large", 40*gib))
	s.expect("create 3, start 5 in 3 on 0 cold", Event{Kind: DeviceBack, Device: 0})
	s.now += time.Hour
	s.expect("", Event{Kind: Tick})
}

// TestHostMemoryIsShared: a container is created only where host memory is left, host
// memory is reclaimed before idle containers are removed, and other pools come first.
func TestHostMemoryIsShared(t *testing.T) {
	s := newScript(t, config("mqfq-sticky", 1))
	s.expect("", Event{Kind: HostReported, Host: HostMemory{Free: 300, Reclaimable: 100}})
	one := s.submit("create 1, start 1 in 1 on 0 cold", fn("f", gib))
	s.run("", one, 1, gib)
	s.submit("remove 1", fn("g", gib)) // 44 are free, 100 may come, 256 are needed: f's container is removed
	b := s.l.Containers()
	check.Equal(check.Must(t), len(b), 1)
	check.That(t, b[0].Leaving, "containers %+v", b)
	s.expect("", Event{Kind: Removed, Container: 1})
	s.expect("reclaim host memory 0", Event{Kind: HostReported, Host: HostMemory{Free: 44, Reclaimable: 300}})
	s.expect("", Event{Kind: Tick}) // it was ordered before
	s.expect("create 2, start 2 in 2 on 0 cold", Event{Kind: HostReported, Host: HostMemory{Free: 300}})
}

// TestHostMemoryOfBothKinds: where neither the memory that the host can reclaim nor that of
// idle containers suffices for a new container, both are used together.
func TestHostMemoryOfBothKinds(t *testing.T) {
	s := newScript(t, config("mqfq-sticky", 1))
	idle, large := fn("idle", gib), fn("large", gib)
	idle.HostMB, large.HostMB = 2048, 3328
	s.expect("", Event{Kind: HostReported, Host: HostMemory{Free: 2560}})
	one := s.submit("create 1, start 1 in 1 on 0 cold", idle)
	s.run("", one, 1, gib)
	s.expect("", Event{Kind: HostReported, Host: HostMemory{Free: 512, Reclaimable: 1536}})
	s.submit("remove 1, reclaim host memory 0", large)
	s.l.Take(Event{At: s.now, Kind: Removed, Container: 1})
	s.expect("reclaim host memory 0", Event{Kind: HostReported, Host: HostMemory{Free: 2560, Reclaimable: 1536}})
	s.expect("create 2, start 2 in 2 on 0 cold", Event{Kind: HostReported, Host: HostMemory{Free: 3328, Reclaimable: 768}})
}

// TestWithdrawnReservationIsItsOwn: of two runs that wait for memory in a container, the
// withdrawn run gives up its own reservation, not the other's.
func TestWithdrawnReservationIsItsOwn(t *testing.T) {
	c := config("fcfs", 1)
	c.Tokens.Max = 4
	s := newScript(t, c)
	one := s.submit("create 1, start 1 in 1 on 0 cold", fn("g", 10*gib))
	s.run("", one, 1, 10*gib)
	f := fn("f", 2*gib)
	f.Width = 3
	s.submit("create 2, start 2 in 2 on 0 cold", f)
	s.take(Event{Kind: Initialized, Container: 2})
	s.holds("", 2, 8*gib, 4*gib)
	older := s.submit("evict 1 epoch 1", f)
	s.holds("", 2, 11*gib, 4*gib)
	s.submit("", f)
	s.expect("refuse 3 withdrawn", Event{Kind: Withdrawn, Invocation: older})
	s.holds("", 1, 10*gib, 6*gib) // room for the older's need, not for the younger's
	s.holds("prefetch 2 epoch 1", 1, 10*gib, 0)
}
