package lane

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// TestInheritedBoxIsWarm: a container of an earlier process serves its own
// revision at once, what it holds counts before anybody in it has spoken, and it
// gives way like any other.
func TestInheritedBoxIsWarm(t *testing.T) {
	s := newScript(t, config("mqfq-sticky", 2))
	f, g := fn("f", 10*gib), fn("g", 10*gib)
	s.n++
	s.expect("make 1", Event{Kind: Adopted, Item: s.n, Device: 1, Function: f, Idle: time.Minute})
	s.holds("", 1, 10*gib, 10*gib)
	if d := s.l.Device(1); d.Used != 10*gib+400<<20 {
		t.Errorf("%d bytes of its device are used", d.Used)
	}
	item := s.submit("start 2 in 1 on 1 gpu-warm", f)
	s.run("", item, 1, 10*gib)
	newer := fn("f", 10*gib)
	newer.Key = "f2"
	s.submit("make 2, start 3 in 2 on 0 cold", newer) // another revision is another box's
	s.submit("make 3, evict 1 epoch 1", g)
}

// TestInheritedBoxWithoutAPlace: a pool that is smaller than what was left, or a
// device that is lost, keeps nothing of it.
func TestInheritedBoxWithoutAPlace(t *testing.T) {
	c := config("mqfq-sticky", 1)
	c.Pool.Size = 1
	s := newScript(t, c)
	s.expect("make 1", Event{Kind: Adopted, Item: 1, Function: fn("f", gib)})
	s.expect("make 2, remove 2", Event{Kind: Adopted, Item: 2, Function: fn("g", gib)})
	s.expect("", Event{Kind: Gone, Box: 2})
	s.expect("", Event{Kind: Adopted, Item: 3, Device: 7, Function: fn("g", gib)})
	s.expect("remove 1", Event{Kind: Lost, Device: 0})
	s.expect("make 3, remove 3", Event{Kind: Adopted, Item: 4, Function: fn("f", gib)})
	s.n = 4
	s.expect("", Event{Kind: Gone, Box: 1})
	s.expect("", Event{Kind: Held, Box: 3, Usage: gpu.Usage{Allocated: gib}})
	s.expect("", Event{Kind: Gone, Box: 3})
}
