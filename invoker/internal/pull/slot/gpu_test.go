package slot

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func onGPU(c *Creation) { c.GPU = true }

func retry(n int) func(*Creation) {
	return func(c *Creation) { c.ContainerCreation.Retry = n }
}

// openGPU is a slot of a GPU function, which fetches.
func (f *fixture) openGPU(name string) ID {
	f.Helper()
	f.create(name, onGPU)
	id := f.t.slots[len(f.t.slots)-1].id
	f.t.Stored(f.now, id, Existing)
	f.want("put existing", "fetch", "ack")
	return id
}

// pull has a slot pull as many as it asks for, up to a number. Each takes as long.
func (f *fixture) pull(id ID, most int, takes time.Duration) (n int) {
	f.Helper()
	s := f.t.get(id)
	f.t.load.add(s, -s.runs)
	s.mean = takes // 0: none has ended
	f.t.load.add(s, s.runs)
	for n < most && s.calls > 0 {
		f.t.Pulled(f.now, id, 0, Keep{})
		f.t.Orders()
		n++
	}
	return n
}

// begun opens a slot of a function that is new on all hosts, whatever the backlog.
func (f *fixture) begun(name string) ID {
	f.Helper()
	c := f.create(name, onGPU, retry(5))
	f.t.CountedOpen(f.now, c.ID, 0, true)
	id := f.t.slots[len(f.t.slots)-1].id
	f.t.Stored(f.now, id, Existing)
	f.want("count", "put existing", "fetch", "ack")
	return id
}

func TestGPUSlotPullsByTheBacklog(t *testing.T) {
	f := newFixture(t)
	// Two run at once, the rest is backlog, of which there is less than 5 s before each.
	check.Equal(t, f.pull(f.openGPU("a"), 100, time.Second), 2+5, "of 1 s are pulled")
	g := newFixture(t)
	check.Equal(t, g.pull(g.openGPU("new"), 100, 0), 3, "are pulled before one has run")
	for _, next := range []struct {
		takes time.Duration
		want  int
	}{
		{time.Second, 5},             // 5 s of its own work
		{4 * time.Second, 3},         // or three
		{10 * time.Millisecond, 500}, // however deep it is
		{time.Minute, 3},
	} {
		n := f.pull(f.begun(next.takes.String()+string(rune('a'+f.made))), 1000, next.takes)
		check.Equal(t, n, next.want, "%d of %v are pulled, want %d", n, next.takes, next.want)
	}
}

// A scheduler fails an activation after a minute of waiting. Whatever the backlog, the slot
// pulls one activation per Probe, and old activations at once.
func TestGPUSlotPullsAheadOfAScheduler(t *testing.T) {
	f := newFixture(t)
	id := f.openGPU("a")
	f.pull(id, 4, time.Minute)
	check.Equal(check.Must(t), f.t.get(id).calls, 0, "it pulls without end")
	f.now += 10 * time.Second
	at, ok := f.t.Deadline()
	check.That(check.Must(t), ok, "deadline %v, %t, want %v", at, ok, f.now)
	check.Equal(t, at, f.now)
	f.t.Tick(f.now)
	f.want("fetch")
	f.t.Pulled(f.now, id, 21*time.Second, Keep{})
	f.want("fetch")
	f.t.Pulled(f.now, id, 19*time.Second, Keep{})
	f.want()
	// The end of a run lets other functions pull, too.
	for range 5 {
		f.t.Ended(f.now, id, time.Second, true, true)
	}
	f.want("fetch 1s")
}

// A message can have any number of retries.
func TestRetriesBelowZero(t *testing.T) {
	f := newFixture(t)
	f.pull(f.openGPU("a"), 5, 3*time.Second)
	f.create("b", onGPU, retry(-1))
	f.want("ack ResourceNotEnoughError")
}

func TestGPUCreations(t *testing.T) {
	f := newFixture(t)
	id := f.openGPU("a")
	f.create("a", onGPU)
	f.want("ack")                // it will be fetched
	f.pull(id, 5, 3*time.Second) // four: 6 s of backlog
	f.create("a", onGPU)
	f.want("ack ResourceNotEnoughError")
	f.create("b", onGPU)
	f.want("ack ResourceNotEnoughError") // 5 s
	b := f.create("b", onGPU, retry(1))  // 10 s
	f.want("count")
	f.t.CountedOpen(f.now, b.ID, 1, true) // it has a slot elsewhere
	f.want("ack ResourceNotEnoughError")
	b = f.create("b", onGPU, retry(1))
	f.want("count")
	f.t.CountedOpen(f.now, b.ID, 0, true)
	f.want("put existing")
	f.t.Stored(f.now, f.t.slots[1].id, Existing)
	f.want("fetch", "ack")
	// After its last try a creation waits until there is less to do, and not for ever.
	c := f.create("c", onGPU, retry(5))
	f.create("a", onGPU, retry(5))
	f.want("count")
	f.t.CountedOpen(f.now, c.ID, 2, true)
	f.want()
	f.now += 15*time.Second - time.Millisecond
	f.t.Tick(f.now)
	f.t.Ended(f.now, id, 3*time.Second, true, true)
	f.want("fetch", "ack")
	f.now += time.Millisecond
	at, ok := f.t.Deadline()
	check.That(check.Must(t), ok, "deadline %v, %t, want %v", at, ok, f.now)
	check.Equal(t, at, f.now)
	f.t.Tick(f.now)
	f.want("ack ResourceNotEnoughError")
}

// A function that is warm here attracts its next creation by the warmed key, in the
// order that loses nothing.
func TestWarmGPUFunctionHasItsWarmedKey(t *testing.T) {
	f := newFixture(t)
	id := f.openGPU("a")
	q := creation(0, "a", "1-a").Queue
	f.t.SetWarm(f.now, q, true, true)
	f.now += grace
	f.t.Missed(f.now, id, Empty)
	f.want("leave", "put warmed")
	f.t.Stored(f.now, id, Warmed)
	f.want("delete existing")
	f.t.SetWarm(f.now, q, true, false) // its memory is evicted
	f.now += 2 * idle                  // its containers end by the GPU scheduler's rules
	f.t.Tick(f.now)
	f.want()
	f.create("a", onGPU, retry(1))
	f.want("put existing")
	f.t.Stored(f.now, id, Existing)
	f.want("fetch", "delete warmed")
	f.t.SetWarm(f.now, q, true, true)
	f.t.Missed(f.now, id, Empty)
	f.want("fetch warmed")
	f.t.Deleted(f.now, id, Warmed)
	f.want("ack")
}

// A function that ran here is known here, also without a container: it has its warmed
// key until the idle time is over.
func TestWarmedKeyOutlivesTheContainers(t *testing.T) {
	f := newFixture(t)
	id := f.openGPU("a")
	q := creation(0, "a", "1-a").Queue
	f.t.Pulled(f.now, id, 0, Keep{})
	f.t.SetWarm(f.now, q, true, true)
	f.t.Ended(f.now, id, time.Second, true, true)
	f.t.SetWarm(f.now, q, false, false) // others needed the room
	f.want("fetch")
	f.now += grace
	f.t.Missed(f.now, id, Empty)
	f.want("leave", "put warmed")
	f.t.Stored(f.now, id, Warmed)
	f.want("delete existing")
	f.now += time.Minute
	f.t.SetWarm(f.now, q, true, true)
	f.t.SetWarm(f.now, q, false, false)
	f.now += idle
	at, ok := f.t.Deadline()
	check.That(check.Must(t), ok, "deadline %v, %t, want %v", at, ok, f.now)
	check.Equal(t, at, f.now)
	f.t.Tick(f.now - time.Millisecond)
	f.want()
	f.t.Tick(f.now)
	f.want("delete warmed")
	check.Equal(t, f.t.Len(), 0, "slots are left")
}

// Above Deep the host lets a function without a container go. A function with a container
// stays.
func TestColdFunctionLeavesADeepHost(t *testing.T) {
	for _, warm := range []bool{false, true} {
		f := newFixture(t)
		q := creation(0, "a", "1-a").Queue
		f.t.SetWarm(f.now, q, true, true)
		f.want("put warmed")
		f.t.Stored(f.now, f.t.slots[0].id, Warmed)
		f.t.SetWarm(f.now, q, warm, false)
		f.pull(f.openGPU("busy"), 3, 39*time.Second) // two run
		f.create("a", onGPU)
		f.want("put existing") // 39 s
		f.t.Stored(f.now, f.t.slots[0].id, Existing)
		f.want("fetch", "delete warmed")
		f.t.Deleted(f.now, f.t.slots[0].id, Warmed)
		f.want("ack")
		f.t.slots[0].used = true
		f.now += grace
		f.t.Missed(f.now, f.t.slots[0].id, Empty)
		f.want("leave", "put warmed")
		f.t.Stored(f.now, f.t.slots[0].id, Warmed)
		f.want("delete existing")
		f.pull(f.begun("busier"), 1, 4*time.Second)
		f.create("a", onGPU)
		if warm {
			f.want("put existing")
			continue
		}
		f.want("delete warmed", "ack ResourceNotEnoughError")
	}
}

func TestWarmedKeysOfADisabledInvoker(t *testing.T) {
	f := newFixture(t)
	q := creation(0, "a", "1-a").Queue
	f.t.SetWarm(f.now, q, true, true) // adopted from an earlier process
	f.want("put warmed")
	f.t.SetWarm(f.now, q, false, false) // before the key is there
	f.t.SetWarm(f.now, q, true, false)
	f.want()
	f.t.Stored(f.now, f.t.slots[0].id, Warmed)
	f.t.Close(f.now)
	f.want("delete warmed")
	f.t.SetWarm(f.now, creation(0, "b", "1-a").Queue, true, true)
	f.want()
	f.t.Open()
	f.want("put warmed", "put warmed")
	for _, s := range f.t.slots {
		f.t.Stored(f.now, s.id, Warmed)
	}
	f.t.Retire(f.now, &activation.ContainerDeletion{Queue: creation(0, "a", "1-z").Queue})
	f.want("delete warmed")
}
