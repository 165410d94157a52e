package slot

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// short is a slot of another function that was refused for want of memory.
func (f *fixture) short() ID {
	f.Helper()
	f.t.Orders()
	f.create("b")
	f.want("acquire")
	id := f.t.slots[len(f.t.slots)-1].id
	f.t.Refused(f.now, id, activation.ResourceNotEnough, "full")
	return id
}

// due advances the time to the table's next deadline.
func (f *fixture) due() {
	f.Helper()
	at, ok := f.t.Deadline()
	if !ok {
		f.Fatal("nothing is due")
	}
	f.now = at
	f.t.Tick(f.now)
}

func TestCreationWaitsForMemory(t *testing.T) {
	f := newFixture(t)
	busy := f.opened()
	f.t.Pulled(f.now, busy, 0, Keep{})
	id := f.short()
	f.want() // something runs, whose memory may come
	for range 3 {
		f.due()
		f.want("acquire")
		f.t.Refused(f.now, id, activation.ResourceNotEnough, "full")
		f.want()
	}
	f.due()
	f.want("acquire")
	f.t.Acquired(f.now, id, false)
	f.want("put existing")
}

func TestCreationWaitsForMemoryOnlySoLong(t *testing.T) {
	f := newFixture(t)
	f.t.Pulled(f.now, f.opened(), 0, Keep{})
	began := f.now
	id := f.short()
	for f.t.Has(id) {
		f.due()
		f.want("acquire")
		f.t.Refused(f.now, id, activation.ResourceNotEnough, "full")
		if f.t.Has(id) {
			f.want()
		}
	}
	f.want("ack ResourceNotEnoughError")
	check.Equal(t, f.now-began, memoryWait, "it waited")
}

// Only as many idle slots end as are needed.
func TestIdleSlotFreesMemory(t *testing.T) {
	f := newFixture(t)
	first := f.opened()
	f.t.Orders()
	f.now += memoryPause
	f.opened()
	id := f.short() // the second has only just run
	f.want("leave")
	f.t.Missed(f.now, first, Empty)
	f.want("delete existing", "remove")
	f.due()
	f.want("acquire")
	f.t.Acquired(f.now, id, false)
	f.want("put existing")
}

// The memory of a container that is ending counts until the container is gone.
func TestOnlyWhatIsNeededEndsForMemory(t *testing.T) {
	f := newFixture(t)
	f.opened()
	f.t.Orders()
	f.opened()
	f.now += time.Second
	id := f.short()
	f.want("leave")
	f.due()
	f.want("acquire")
	f.t.Refused(f.now, id, activation.ResourceNotEnough, "full")
	f.want()
}

// One of a function that has another is not needed as much as a place of the namespace.
func TestSecondOfAFunctionDoesNotWaitForMemory(t *testing.T) {
	f := newFixture(t)
	f.t.Pulled(f.now, f.opened(), 0, Keep{})
	f.short()
	f.want()
	f.short()
	f.want("ack ResourceNotEnoughError")
}

// Idle slots of other functions end to free memory, and the refused slot waits for them. Idle
// slots of its own function stay.
func TestIdleSlotFreesMemoryForASecond(t *testing.T) {
	f := newFixture(t)
	f.opened()
	id := f.short()
	f.due()
	f.t.Acquired(f.now, id, false)
	f.t.Stored(f.now, id, Existing)
	f.now += time.Second
	check.Equal(t, f.t.Stats(f.now).IdleMB, 512, "two idle")
	f.short()
	f.want("leave")
	got := f.t.Stats(f.now)
	check.Equal(t, got.IdleMB, 512, "one idle, one ending, one opening")
	check.Equal(t, got.BusyMB, 512, "one idle, one ending, one opening")
	check.Equal(t, got.OpeningMB, 256, "one idle, one ending, one opening")
	f.due()
	f.want("acquire")
	f.short()
	f.want("ack ResourceNotEnoughError") // the remaining slot belongs to the same function
}

func TestWaitForMemoryEndsWithTheTable(t *testing.T) {
	for name, end := range map[string]func(*Table, time.Duration){
		"close": (*Table).Close, "stop": (*Table).Stop,
		"deletion": func(t *Table, now time.Duration) {
			t.Retire(now, &activation.ContainerDeletion{Queue: creation(0, "b", "1-a").Queue})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.t.Pulled(f.now, f.opened(), 0, Keep{})
			id := f.short()
			f.t.Orders()
			end(f.t, f.now)
			check.That(t, !f.t.Has(id), "it is there")
			acks := 0
			for _, o := range f.t.Orders() {
				if o.Do == Ack && o.Error == activation.CreationUnknown {
					acks++
				}
			}
			check.Equal(t, acks, 1)
		})
	}
}
