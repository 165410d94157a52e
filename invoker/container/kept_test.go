package container

import (
	"testing"
	"time"
)

// A kept container is paused when its owner wishes, and stays until its owner, or
// the need of memory, ends it.
func TestKeptContainerStaysUntilItsMemoryIsNeeded(t *testing.T) {
	b := newFixture(t, Config{MemoryMB: 512})
	b.p.Enqueue(b.now, Demand{Invocation: 1, Key: "own", Kind: "k", MemoryMB: 256, Concurrency: 2, Kept: true})
	kept := b.placed()
	other := b.run("other", 256)
	if b.p.PauseNow(kept.Slot) {
		t.Fatal("paused while it is in use")
	}
	if b.p.Fits(1, 0) {
		t.Error("memory that is in use counts as free")
	}
	b.p.Done(b.now, kept.Slot, true)
	if !b.p.PauseNow(kept.Slot) {
		t.Fatal("not paused")
	}
	b.orders(Pause)
	b.p.Paused(b.now, kept.Slot, true)
	for mb, want := range map[int]bool{0: false, 256: true, 257: false} {
		if b.p.Fits(mb, 0) != want {
			t.Errorf("%d MB fit: %t, want %t", mb, !want, want)
		}
	}
	b.now += time.Hour
	b.p.Tick(b.now)
	b.orders()
	if at, ok := b.p.Deadline(); ok {
		t.Errorf("deadline %v for a container that stays", at)
	}
	b.p.Done(b.now, other.Slot, true)
	b.ask("big", 512, 1)
	b.none()
	b.orders(Remove, Remove)
}
