package container

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestFailedPrewarmIsMadeAgain with a pause that grows from a second to a
// minute, and begins anew after a success.
func TestFailedPrewarmIsMadeAgain(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 1024, StemCells: []StemCell{{Kind: "k", MemoryMB: 256, Count: 1}}})
	made := b.orders(CreatePrewarm)
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		pause *= time.Second
		b.p.Gone(b.now, made[0].Slot)
		b.ok()
		if b.p.Reserve(128) {
			b.p.Release(b.now, 128) // this release does not shorten the pause
		}
		b.noPrewarm()
		at, ok := b.p.Deadline()
		check.That(check.Must(t), ok, "deadline %v, %v; failed at %v", at, ok, b.now)
		check.AtMost(check.Must(t), at, b.now+pause, "deadline %v, %v; failed at %v", at, ok, b.now)
		b.now += pause - time.Millisecond
		b.p.Tick(b.now)
		b.noPrewarm()
		b.now += time.Millisecond
		b.p.Tick(b.now)
		made = b.prewarms(1)
	}
	b.p.Started(b.now, made[0].Slot)
	// A container that dies soon after its start counts as a failure, too, the first of a new
	// series.
	b.p.Failed(made[0].Slot)
	b.p.Gone(b.now, made[0].Slot)
	b.noPrewarm()
	b.now += time.Second
	b.p.Tick(b.now)
	b.prewarms(1)
}

// TestBurstGivesPrewarmedContainersBack: prewarmed containers used by a burst are created
// again when no action waits for the memory any more.
func TestBurstGivesPrewarmedContainersBack(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 1280, StemCells: []StemCell{{Kind: "k", MemoryMB: 256, Count: 2}}})
	for _, o := range b.orders(CreatePrewarm, CreatePrewarm) {
		b.p.Started(b.now, o.Slot)
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		b.ask(key, 256, 1)
	}
	starts := map[Start]int{}
	for range 4 {
		starts[b.placed().Start]++
	}
	check.Equal(check.Must(t), starts[Prewarmed], 2)
	check.Equal(check.Must(t), starts[Cold], 2)
	b.noPrewarm()
	at, ok := b.p.Deadline()
	check.That(check.Must(t), ok, "deadline %v, %v", at, ok)
	check.AtMost(check.Must(t), at, time.Second)
	b.now = time.Second
	b.p.Tick(b.now)
	b.prewarms(1) // there is memory for one only
	b.now = time.Hour
	b.p.Tick(b.now)
	b.noPrewarm()
	at, ok = b.p.Deadline()
	check.That(check.Must(t), ok, "deadline %v, %v: the other is forgotten", at, ok)
	check.AtMost(check.Must(t), at, b.now+lastPause)
}

// prewarms takes the orders, n of which must be to create a prewarmed container.
func (b *fixture) prewarms(n int) (made []Order) {
	b.t.Helper()
	b.ok()
	for _, o := range b.p.Orders() {
		if o.Do == CreatePrewarm {
			made = append(made, o)
		}
	}
	check.Equal(check.Must(b.t), len(made), n, "prewarmed containers ordered")
	return made
}

func (b *fixture) noPrewarm() {
	b.t.Helper()
	b.prewarms(0)
}

// TestKindListedTwiceIsNotMultipliedByFailures: a manifest may list a kind and memory
// twice. As many as both want are made again after each failure, and no more.
func TestKindListedTwiceIsNotMultipliedByFailures(t *testing.T) {
	twice := StemCell{Kind: "k", MemoryMB: 1, Count: 1}
	b := newFixture(t, Config{MemoryMB: 1024, StemCells: []StemCell{twice, twice}})
	for range 4 {
		for _, o := range b.prewarms(2) {
			b.p.Gone(b.now, o.Slot)
		}
		b.now += time.Hour
		b.p.Tick(b.now)
	}
	for _, o := range b.prewarms(2) {
		b.p.Started(b.now, o.Slot)
	}
	b.now += time.Hour
	b.p.Tick(b.now)
	b.noPrewarm()
}
