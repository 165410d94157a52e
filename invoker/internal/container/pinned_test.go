package container

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestPinnedContainerStaysUntilItsMemoryIsNeeded: a container that was pinned is paused
// when its owner requests that, and stays until the owner removes it or its memory is needed.
func TestPinnedContainerStaysUntilItsMemoryIsNeeded(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 512})
	b.p.Enqueue(b.now, Demand{Invocation: 1, Key: "own", Kind: "k", MemoryMB: 256, Concurrency: 1, Pin: true})
	pinned := b.placed()
	other := b.run("other", 256)
	check.That(check.Must(t), !b.p.PauseNow(pinned.Slot), "paused while it is pinned")
	check.That(t, !b.p.Fits(1, 0), "memory that is in use counts as free")
	b.p.Unpin(b.now, pinned.Slot, true)
	check.That(check.Must(t), b.p.PauseNow(pinned.Slot), "not paused")
	b.orders(Pause)
	b.p.Paused(b.now, pinned.Slot, true)
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
