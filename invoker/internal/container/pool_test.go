package container

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// fixture drives a pool as the invoker does. It completes orders when a test tells it to.
type fixture struct {
	t    *testing.T
	p    *Pool
	now  time.Duration
	next uint64
}

func newFixture(t *testing.T, cfg Config) *fixture {
	t.Helper()
	if cfg.PauseGrace == 0 {
		cfg.PauseGrace = 10 * time.Second
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = 10 * time.Minute
	}
	p, err := New(cfg, 0)
	check.NoError(t, err)
	return &fixture{t: t, p: p}
}

func (b *fixture) ask(key string, mb, concurrency int) uint64 {
	b.next++
	b.p.Enqueue(b.now, Demand{Invocation: b.next, Key: key, Kind: "k", MemoryMB: mb, Concurrency: concurrency, Prewarm: true})
	b.ok()
	return b.next
}

func (b *fixture) placed() Placement {
	b.t.Helper()
	pl, ok := b.p.Next(b.now)
	b.ok()
	check.That(check.Must(b.t), ok, "nothing was placed")
	return pl
}

func (b *fixture) none() {
	b.t.Helper()
	pl, ok := b.p.Next(b.now)
	check.That(check.Must(b.t), !ok, "placed %+v, want nothing", pl)
	b.ok()
}

func (b *fixture) run(key string, mb int) Placement {
	b.t.Helper()
	b.ask(key, mb, 1)
	pl := b.placed()
	if pl.Start != Warm {
		b.p.Warmed(b.now, pl.Slot)
	}
	return pl
}

func (b *fixture) orders(want ...OrderKind) []Order {
	b.t.Helper()
	got := b.p.Orders()
	kinds := []OrderKind{}
	for _, o := range got {
		kinds = append(kinds, o.Do)
	}
	check.Equal(check.Must(b.t), fmt.Sprint(kinds), fmt.Sprint(append([]OrderKind{}, want...)), "orders %v, want %v", kinds, want)
	return got
}

func (b *fixture) ok() {
	b.t.Helper()
	check.NoError(b.t, b.p.check())
}

func TestWarmContainerIsReusedMostRecentFirst(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 1024})
	one, two := b.run("a", 256), b.run("a", 256)
	check.Equal(check.Must(t), one.Start, Cold)
	check.Equal(check.Must(t), two.Start, Cold)
	b.p.Done(1, two.Slot, true)
	b.p.Done(2, one.Slot, true)
	got := b.run("a", 256)
	check.Equal(check.Must(t), got.Slot, one.Slot)
	check.Equal(check.Must(t), got.Start, Warm)
	check.That(check.Must(t), got.First, "got %+v, want slot %d warm", got, one.Slot)
}

func TestContainersAreNotSharedAmongKeys(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 1024})
	one := b.run("a", 256)
	b.p.Done(b.now, one.Slot, true)
	got := b.run("b", 256)
	check.That(check.Must(t), got.Slot != one.Slot, "got %+v in a container of another key", got)
	check.Equal(check.Must(t), got.Start, Cold)
}

func TestFailedRunCostsTheContainer(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 256})
	one := b.run("a", 256)
	b.p.Done(b.now, one.Slot, false)
	b.orders(Remove)
	b.ask("a", 256, 1)
	b.none() // memory is free only when the container is gone
	b.p.Gone(b.now, one.Slot)
	check.Equal(check.Must(t), b.placed().Start, Cold)
}

func TestEvictionTakesTheLongestIdleAndOnlyIfItSuffices(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 512})
	one, two := b.run("a", 256), b.run("b", 256)
	b.ask("c", 512, 1)
	b.p.Done(1, one.Slot, true)
	b.none()
	b.orders() // half of the need is idle: evict nothing
	b.p.Done(2, two.Slot, true)
	b.none()
	got := b.orders(Remove, Remove)
	check.Equal(check.Must(t), got[0].Slot, one.Slot)
	check.Equal(check.Must(t), got[1].Slot, two.Slot)
	b.p.Gone(3, one.Slot)
	b.none()
	b.orders() // the other one is on its way out
	b.p.Gone(4, two.Slot)
	b.placed()
}

func TestWarmRunsPassABlockedHeadForAWhileOnly(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 512, Overtake: time.Second})
	hot, other := b.run("hot", 256), b.run("other", 256)
	big := b.ask("big", 512, 1)
	b.ask("hot", 256, 1)
	b.none()
	b.p.Done(b.now, hot.Slot, true)
	check.Equal(check.Must(t), b.placed().Slot, hot.Slot)
	b.ask("hot", 256, 1)
	b.now += time.Second
	b.p.Done(b.now, hot.Slot, true)
	b.none() // the head has waited long enough
	b.p.Done(b.now, other.Slot, true)
	b.none()
	for _, o := range b.orders(Remove, Remove) {
		b.p.Gone(b.now, o.Slot)
	}
	check.Equal(check.Must(t), b.placed().Invocation, big)
}

func TestConcurrentActivationsShareOneContainer(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 256})
	b.ask("a", 256, 2)
	b.ask("a", 256, 2)
	first := b.placed()
	b.none() // it is not initialised yet
	b.p.Warmed(b.now, first.Slot)
	second := b.placed()
	check.Equal(check.Must(t), second.Slot, first.Slot)
	check.That(check.Must(t), !second.First, "got %+v, want to join slot %d", second, first.Slot)
	b.ask("a", 256, 2)
	b.none()
	b.p.Done(b.now, first.Slot, true)
	b.placed()
}

func TestIdlePauseResumeRemove(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 256})
	one := b.run("a", 256)
	b.p.Done(b.now, one.Slot, true)
	at, ok := b.p.Deadline()
	check.That(check.Must(t), ok, "deadline %v %v, want 10s", at, ok)
	check.Equal(check.Must(t), at, 10*time.Second)
	b.now = at
	b.p.Tick(b.now)
	b.orders(Pause)
	b.ask("a", 256, 1)
	b.none() // the activation waits for the container that is being paused
	b.p.Paused(b.now, one.Slot, true)
	got := b.placed()
	check.Equal(check.Must(t), got.Slot, one.Slot)
	check.That(check.Must(t), got.Resume, "got %+v, want slot %d resumed", got, one.Slot)
	b.p.Done(b.now, one.Slot, true)
	b.now += 10 * time.Second
	b.p.Tick(b.now)
	b.orders(Pause)
	b.p.Paused(b.now, one.Slot, true)
	b.now += 10 * time.Minute
	b.p.Tick(b.now)
	b.orders(Remove)
	b.p.Gone(b.now, one.Slot)
	b.ok()
}

// beingPaused is the slot of a container that is being paused, the only one of its pool.
func beingPaused(t *testing.T) (*fixture, SlotID) {
	b := newFixture(t, Config{MemoryMB: 256})
	one := b.run("a", 256)
	b.p.Done(b.now, one.Slot, true)
	b.now = time.Minute
	b.p.Tick(b.now)
	b.orders(Pause)
	return b, one.Slot
}

func TestPauseThatFailsRemoves(t *testing.T) {
	b, one := beingPaused(t)
	b.p.Paused(b.now, one, false)
	b.orders(Remove)
}

// TestDeathBeforeThePauseEnds: a container that is being paused dies and is gone before
// the engine answers about the pause.
func TestDeathBeforeThePauseEnds(t *testing.T) {
	b, one := beingPaused(t)
	b.p.Failed(one)
	b.orders(Remove)
	b.p.Gone(b.now, one)
	b.p.Paused(b.now, one, false)
	b.ask("a", 256, 1)
	check.Equal(t, b.placed().Start, Cold)
	b.ok()
}

func TestPrewarm(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 1024, StemCells: []StemCell{{Kind: "k", MemoryMB: 256, Count: 1}}})
	made := b.orders(CreatePrewarm)
	b.p.Started(b.now, made[0].Slot)
	b.ask("a", 128, 1)
	check.Equal(check.Must(t), b.placed().Start, Cold)
	b.ask("a", 256, 1)
	got := b.placed()
	check.Equal(check.Must(t), got.Start, Prewarmed)
	check.Equal(check.Must(t), got.Slot, made[0].Slot)
	b.orders(CreatePrewarm) // its replacement
}

func TestPrewarmGivesWayToWork(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 256, StemCells: []StemCell{{Kind: "other", MemoryMB: 256, Count: 1}}})
	made := b.orders(CreatePrewarm)
	b.p.Started(b.now, made[0].Slot)
	b.ask("a", 256, 1)
	b.none()
	b.orders(Remove)
	b.p.Gone(b.now, made[0].Slot)
	b.placed()
	b.orders()
}

func TestReactivePrewarmFollowsColdStarts(t *testing.T) {
	b := newFixture(t, Config{
		MemoryMB: 2048, Expiry: Expiry{InitDelay: time.Minute, Interval: time.Minute, Limit: 100},
		StemCells: []StemCell{{Kind: "k", MemoryMB: 128, Count: 1,
			Reactive: &Reactive{Min: 1, Max: 4, TTL: time.Minute, Threshold: 1, Increment: 1}}},
	})
	made := b.orders(CreatePrewarm)
	b.p.Started(b.now, made[0].Slot)
	b.run("a", 128)
	for _, o := range b.orders(CreatePrewarm) { // at least one is kept ready
		b.p.Started(b.now, o.Slot)
	}
	b.run("b", 128)
	for range 3 {
		b.ask("c", 128, 1)
	}
	for range 3 {
		b.placed()
	}
	b.p.Orders()
	b.now = time.Minute
	b.p.Tick(b.now)
	b.ok()
	creates := 0
	for _, o := range b.p.Orders() {
		if o.Do == CreatePrewarm {
			creates++
		}
	}
	check.That(check.Must(t), creates != 0, "cold starts of the last minute brought no prewarmed container")
	got := b.p.Stats().Prewarms
	check.Equal(check.Must(t), len(got), 1)
	check.Equal(t, got[0].Kind, "k")
	check.Equal(t, got[0].Missed, 3)
}

func TestClaimSharesTheBudget(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 512})
	check.That(check.Must(t), b.p.Reserve(512), "free memory is not reserved")
	check.That(check.Must(t), !b.p.Reserve(1), "more is reserved than there is")
	b.ask("a", 256, 1)
	b.none()
	check.Equal(check.Must(t), b.p.Memory().Needed, 256)
	b.p.Release(b.now, 512)
	b.placed()
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	for _, cfg := range []Config{
		{MemoryMB: 0}, {MemoryMB: 1, Overtake: -1},
		{MemoryMB: 1, StemCells: []StemCell{{Kind: ""}}},
		{MemoryMB: 1, StemCells: []StemCell{{Kind: "k", MemoryMB: 1, Reactive: &Reactive{Min: 2, Max: 1}}}},
	} {
		_, err := New(cfg, 0)
		check.That(t, err != nil, "%+v was accepted", cfg)
	}
}

func BenchmarkWarmPlacement(b *testing.B) {
	p, err := New(Config{MemoryMB: 1 << 20, PauseGrace: time.Minute, IdleTimeout: time.Minute}, 0)
	check.NoError(b, err)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Enqueue(0, Demand{Invocation: uint64(i), Key: "a", MemoryMB: 128, Concurrency: 1})
		pl, _ := p.Next(0)
		if pl.Start != Warm {
			p.Warmed(0, pl.Slot)
		}
		p.Done(0, pl.Slot, true)
	}
}

func TestCreateErrorReadsAsOneSentence(t *testing.T) {
	e := &CreateError{Message: "Failed to provision resources to run the action.", Err: errors.New("no such image")}
	check.Equal(t, e.Error(), "Failed to provision resources to run the action: no such image")
}
