package container

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// A kept container is paused when its owner wishes, and stays until its owner, or
// the need of memory, ends it.
func TestKeptContainerStaysUntilItsMemoryIsNeeded(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 512})
	b.p.Enqueue(b.now, Demand{Invocation: 1, Key: "own", Kind: "k", MemoryMB: 256, Concurrency: 2, Kept: true})
	kept := b.placed()
	other := b.run("other", 256)
	check.That(check.Must(t), !b.p.PauseNow(kept.Slot), "paused while it is in use")
	check.That(t, !b.p.Fits(1, 0), "memory that is in use counts as free")
	b.p.Done(b.now, kept.Slot, true)
	check.That(check.Must(t), b.p.PauseNow(kept.Slot), "not paused")
	b.orders(Pause)
	b.p.Paused(b.now, kept.Slot, true)
	for mb, want := range map[int]bool{0: false, 256: true, 257: false} {
		check.Equal(t, b.p.Fits(mb, 0), want, "%d MB fit: %t", mb, !want)
	}
	b.now += time.Hour
	b.p.Tick(b.now)
	b.orders()
	at, ok := b.p.Deadline()
	check.That(t, !ok, "deadline %v for a container that stays", at)
	b.p.Done(b.now, other.Slot, true)
	b.ask("big", 512, 1)
	b.none()
	b.orders(Remove, Remove)
}
