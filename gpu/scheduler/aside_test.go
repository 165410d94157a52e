package scheduler

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// foreign has others take so much memory of a device.
func (s *script) foreign(device int, bytes int64) string {
	orders := ""
	for range 3 { // as many readings must agree
		s.now += time.Second
		orders = s.take(Event{Kind: Sampled, Device: device, Utilization: -1, Used: bytes})
	}
	return orders
}

// foreignAtOnce has others have less of the only device by one reading.
func (s *script) foreignAtOnce(bytes int64) string {
	s.now += time.Second
	return s.take(Event{Kind: Sampled, Utilization: -1, Used: bytes})
}

// aside fails unless a function's work waits and no device could serve it.
func (s *script) aside(f *Function, why string) {
	s.t.Helper()
	r := s.l.Explain(f.Flow)
	check.Equal(s.t, r.Rule, sched.RuleNoFit)
	check.Equal(s.t, r.State, sched.Throttled)
	check.Contains(s.t, r.Missing, why)
}

// TestForeignMemoryGoes: a run that waits for foreign memory starts when that memory is free.
func TestForeignMemoryGoes(t *testing.T) {
	for _, policy := range append(sched.PolicyNames(), slices.Sorted(maps.Keys(simpleOrders()))...) {
		s := newScript(t, config(policy, 1))
		s.foreign(0, 10*gib)
		f := fn("f", 8*gib)
		s.submit("", f)
		s.aside(f, "and the device has 6144 for containers")
		want := "create 1, start 1 in 1 on 0 cold"
		check.Equal(t, s.foreignAtOnce(gib), want, "%s", policy)
	}
}

// TestLargeDeviceComesBack: a run that only a lost device could serve starts when the device
// is back.
func TestLargeDeviceComesBack(t *testing.T) {
	c := config("sticky-plus", 2)
	c.Devices[0].MemoryBytes = 40 * gib
	s := newScript(t, c)
	s.take(Event{Kind: DeviceLost, Device: 0, Why: "a test"})
	f := fn("f", 20*gib)
	s.submit("", f)
	s.aside(f, "")
	s.submit("create 1, start 2 in 1 on 1 cold", fn("g", gib))
	s.expect("create 2, start 1 in 2 on 0 cold", Event{Kind: DeviceBack, Device: 0})
}

// TestOverdueRemovalEnds: memory of a container that should have been gone serves when
// it is.
func TestOverdueRemovalEnds(t *testing.T) {
	s := newScript(t, config("least-time", 1))
	s.run("", s.submit("create 1, start 1 in 1 on 0 cold", fn("g", 8*gib)), 1, 8*gib)
	s.expect("remove 1", Event{Kind: Failed, Container: 1})
	s.now += 10 * time.Second
	s.take(Event{Kind: Tick})
	f := fn("f", 12*gib)
	s.submit("", f)
	s.aside(f, "containers whose removal has not ended")
	s.expect("create 2, start 2 in 2 on 0 cold", Event{Kind: Removed, Container: 1})
}

// TestHeadIsWithdrawn: of a function whose next invocation needs less, that one runs.
func TestHeadIsWithdrawn(t *testing.T) {
	s := newScript(t, config("least-time", 1))
	s.foreign(0, 10*gib)
	large, small := fn("f", 8*gib), fn("f", gib)
	small.Key = "another revision"
	s.submit("", large)
	s.submit("", small)
	s.aside(large, "")
	s.expect("refuse 1 withdrawn, create 1, start 2 in 1 on 0 cold", Event{Kind: Withdrawn, Invocation: 1})
}

// TestContainerShrinks: the memory of a function's idle container counts no more when
// its process gave it back.
func TestContainerShrinks(t *testing.T) {
	s := newScript(t, config("least-time", 1))
	s.foreign(0, 6*gib)
	f := fn("f", gib)
	s.run("", s.submit("create 1, start 1 in 1 on 0 cold", f), 1, gib)
	s.holds("", 1, 12*gib, 0) // which is on the host
	s.submit("", f)
	s.aside(f, "and the device has")
	s.expect("start 2 in 1 on 0 gpu-warm", Event{Kind: MemoryReported, Container: 1, PID: 1, Usage: gpu.Usage{Allocated: gib, Resident: gib, Context: 400 << 20}})
}

// TestTooBigIsRefusedBehindAFullPool: a run that fits no device is refused as soon as there is
// a slot, and is never set aside.
func TestTooBigIsRefusedBehindAFullPool(t *testing.T) {
	for _, policy := range append(sched.PolicyNames(), slices.Sorted(maps.Keys(simpleOrders()))...) {
		c := config(policy, 1)
		c.Pool.Size = 1
		s := newScript(t, c)
		s.submit("create 1, start 1 in 1 on 0 cold", fn("g", gib))
		s.submit("", fn("huge", 100*gib))
		s.foreign(0, 10*gib)
		check.Contains(t, s.take(Event{Kind: Left, Invocation: 1, Keep: true}), "refuse 2 too big", "%s", policy)
	}
}

// TestWhatWaitsLeavesABrokenContainer: a run that waits for a slot of a container gets another
// container if that one has ended or another run has failed in it.
func TestWhatWaitsLeavesABrokenContainer(t *testing.T) {
	for name, broken := range map[string]Event{
		"it ended by itself":    {Kind: Died, Container: 1},
		"it cannot be used":     {Kind: Failed, Container: 1},
		"a run in it failed":    {Kind: Ended, Invocation: 1},
		"a run has left it so":  {Kind: Left, Invocation: 1},
		"it was gone for a run": {Kind: Left, Invocation: 1, Unused: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := config("mqfq-sticky", 1)
			c.Tokens.Max = 4
			s := newScript(t, c)
			f := fn("f", gib)
			f.Width = 2
			s.submit("create 1, start 1 in 1 on 0 cold", f)
			s.take(Event{Kind: Created, Container: 1})
			s.take(Event{Kind: Initialized, Container: 1})
			s.submit("start 2 in 1 on 0 gpu-warm", f)
			s.take(Event{Kind: Answered, Invocation: 2})
			s.submit("", f) // it has the slot of 2, when that has left
			s.expect("create 2, start 3 in 2 on 0 busy-cold", broken)
		})
	}
}
