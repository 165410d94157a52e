package scheduler

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestAdoptedContainerIsWarm: a container of an earlier process serves its own
// revision at once, its memory counts as reported, and it is evicted like any other.
func TestAdoptedContainerIsWarm(t *testing.T) {
	s := newScript(t, config("mqfq-sticky", 2))
	f, g := fn("f", 10*gib), fn("g", 10*gib)
	s.n++
	s.expect("create 1", Event{Kind: Adopted, Invocation: s.n, Device: 1, Function: f, Idle: time.Minute})
	s.holds("", 1, 10*gib, 10*gib)
	check.Equal(t, s.l.Device(1).Used, 10*gib+400<<20, "bytes of its device are used")
	invocation := s.submit("start 2 in 1 on 1 gpu-warm", f)
	s.run("", invocation, 1, 10*gib)
	newer := fn("f", 10*gib)
	newer.Key = "f2"
	s.submit("create 2, start 3 in 2 on 0 cold", newer) // another revision is another container's
	s.submit("create 3, evict 1 epoch 1", g)
}

// TestAdoptedContainerWithoutASlot: where the pool is full or the device is lost, the
// container is removed.
func TestAdoptedContainerWithoutASlot(t *testing.T) {
	c := config("mqfq-sticky", 1)
	c.Pool.Size = 1
	s := newScript(t, c)
	s.expect("create 1", Event{Kind: Adopted, Invocation: 1, Function: fn("f", gib)})
	s.expect("create 2, remove 2", Event{Kind: Adopted, Invocation: 2, Function: fn("g", gib)})
	s.expect("", Event{Kind: Removed, Container: 2})
	s.expect("", Event{Kind: Adopted, Invocation: 3, Device: 7, Function: fn("g", gib)})
	s.expect("remove 1", Event{Kind: DeviceLost, Device: 0})
	s.expect("create 3, remove 3", Event{Kind: Adopted, Invocation: 4, Function: fn("f", gib)})
	s.n = 4
	s.expect("", Event{Kind: Removed, Container: 1})
	s.expect("", Event{Kind: MemoryReported, Container: 3, Usage: gpu.Usage{Allocated: gib}})
	s.expect("", Event{Kind: Removed, Container: 3})
}
