package slot

import (
	"cmp"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// The key is confirmed before the first fetch, and the fetch is sent before the ack:
// a scheduler that sees an ack without a container orders another one.
func TestColdStartRegistersFetchesAndAcks(t *testing.T) {
	f := newFixture(t)
	id := f.opened()
	f.want("fetch warmed 1s")
	f.t.Missed(f.now+time.Second, id, Empty)
	f.want("fetch warmed") // a duration is reported once
}

func TestPauseAndResumeInTheOrderThatLosesNothing(t *testing.T) {
	f := newFixture(t)
	id := f.paused()
	f.create("a")
	f.want("acquire")
	f.t.Acquired(f.now, id, true)
	f.want("put existing")
	f.t.Stored(f.now, id, Existing)
	f.want("fetch warmed", "delete warmed")
	f.t.Deleted(f.now, id, Warmed)
	f.want("ack")
}

func TestSlotThatRanNothingIsRemovedAfterTheGrace(t *testing.T) {
	f := newFixture(t)
	f.create("a")
	id := f.t.slots[0].id
	f.t.Acquired(f.now, id, false)
	f.t.Stored(f.now, id, Existing)
	f.want("acquire", "put existing", "fetch", "ack")
	f.now += grace
	f.t.Missed(f.now, id, Empty)
	f.want("leave", "delete existing", "remove")
	check.Equal(t, f.t.Len(), 0, "slots are left")
}

// A message that the last fetch before a pause brings is run, and the slot stays.
func TestMessageOfTheLastFetchKeepsTheSlotOpen(t *testing.T) {
	f := newFixture(t)
	id := f.opened(func(c *Creation) { c.Concurrency = 2 })
	f.want("fetch warmed 1s", "fetch warmed")
	f.now += grace
	f.t.Missed(f.now, id, Empty)
	f.want() // the other fetch is out
	f.t.Pulled(f.now, id, 0, Keep{})
	f.want("fetch warmed")
	f.t.Ended(f.now, id, time.Second, true, true)
	f.want("fetch warmed 1s")
}

// An activation that was given back or arrived twice reports no duration to the scheduler.
func TestWhatDidNotRunHasNoDuration(t *testing.T) {
	f := newFixture(t)
	id := f.opened()
	f.want("fetch warmed 1s")
	f.t.Pulled(f.now, id, 0, Keep{})
	f.t.Ended(f.now, id, 0, true, false)
	f.want("fetch warmed")
}

func TestConcurrencyBeginsWithTheFirstInit(t *testing.T) {
	f := newFixture(t)
	f.create("a", func(c *Creation) { c.Concurrency = 3 })
	id := f.t.slots[0].id
	f.t.Acquired(f.now, id, false)
	f.t.Stored(f.now, id, Existing)
	f.want("acquire", "put existing", "fetch", "ack")
	f.t.Pulled(f.now, id, 0, Keep{})
	f.want()
	f.t.Ended(f.now, id, time.Second, true, true)
	f.want("fetch warmed 1s", "fetch warmed", "fetch warmed")
	f.t.Pulled(f.now, id, 0, Keep{})
	f.want() // one runs, two are out
}

func TestFailedRunEndsTheSlot(t *testing.T) {
	f := newFixture(t)
	f.create("a")
	id := f.t.slots[0].id
	f.t.Acquired(f.now, id, false)
	f.t.Stored(f.now, id, Existing)
	f.t.Pulled(f.now, id, 0, Keep{})
	f.want("acquire", "put existing", "fetch", "ack")
	f.t.Ended(f.now, id, time.Second, false, false)
	f.want("leave", "delete existing", "remove")
}

func TestRefusalsAreAcked(t *testing.T) {
	for _, why := range []activation.CreationError{activation.ResourceNotEnough, activation.BlackboxFailed, activation.CreationFailed} {
		f := newFixture(t)
		f.create("a")
		f.t.Refused(f.now, f.t.slots[0].id, why, "reason")
		f.want("acquire", "ack "+string(why))
	}
}

// The same creation twice, as Kafka may deliver it, has one ack.
func TestCreationThatComesTwiceHasOneAck(t *testing.T) {
	f := newFixture(t)
	c := f.create("a")
	f.t.Create(f.now, c)
	f.want("acquire")
	f.t.Refused(f.now, f.t.slots[0].id, activation.CreationFailed, "")
	f.want("ack WhiskError")
	f.t.Create(f.now, c) // a retry is another message
	f.want("acquire")
}

// A creation that arrives while its container is being paused waits for the pause.
func TestCreationDuringThePause(t *testing.T) {
	f := newFixture(t)
	id := f.opened()
	f.now += grace
	f.t.Missed(f.now, id, Empty)
	f.want("fetch warmed 1s", "leave", "pause")
	f.create("a")
	f.want()
	f.t.Paused(f.now, id, true)
	f.want("acquire")
	f.t.Acquired(f.now, id, true)
	f.want("fetch warmed", "ack") // its key was never deleted
}

func TestPauseThatFailsMakesANewContainer(t *testing.T) {
	f := newFixture(t)
	id := f.opened()
	f.now += grace
	f.t.Missed(f.now, id, Empty)
	f.create("a")
	f.want("fetch warmed 1s", "leave", "pause")
	f.t.Paused(f.now, id, false)
	f.want("acquire")
}

func TestEvictedContainerLosesItsWarmedKey(t *testing.T) {
	f := newFixture(t)
	f.t.Lost(f.now, f.paused())
	f.want("delete warmed")
	check.Equal(t, f.t.Len(), 0, "slots are left")
}

func TestDeathOfAnOpenContainer(t *testing.T) {
	f := newFixture(t)
	id := f.opened()
	f.want("fetch warmed 1s")
	f.t.Lost(f.now, id)
	f.want("leave")
	f.t.Pulled(f.now, id, 0, Keep{}) // it runs elsewhere
	f.want("delete existing")
	f.t.Ended(f.now, id, time.Second, true, true)
	f.want()
	check.Equal(t, f.t.Len(), 0, "slots are left")
}

func TestDeletionRetiresWhatItCovers(t *testing.T) {
	f := newFixture(t)
	id := f.opened()
	f.want("fetch warmed 1s")
	newer := func(c *Creation) {
		c.Queue = activation.NewQueue("guest", c.Queue.Action, "2-b")
	}
	f.create("a", newer)
	f.want("acquire")
	f.t.Retire(f.now, &activation.ContainerDeletion{Queue: creation(9, "a", "1-z").Queue})
	f.want("leave") // of the old one alone
	f.t.Missed(f.now, id, Empty)
	f.want("delete existing", "remove")
}

func TestRunOutlivesTheKeyOfARetiredSlot(t *testing.T) {
	f := newFixture(t)
	id := f.opened()
	f.t.Pulled(f.now, id, 0, Keep{})
	f.want("fetch warmed 1s")
	f.t.Close(f.now)
	f.want("leave", "delete existing")
	f.create("a")
	f.want("ack UnknownError")
	f.t.Ended(f.now, id, time.Second, true, true)
	f.want("remove")
	f.t.Open()
	f.create("a")
	f.want("acquire")
}

func TestOtherVersionEndsTheSlot(t *testing.T) {
	f := newFixture(t)
	id := f.opened()
	f.want("fetch warmed 1s")
	f.t.Missed(f.now, id, Mismatched)
	f.want("leave", "delete existing", "remove")
}

// A scheduler's death does not cost the container: it waits for the next leader.
func TestQueueThatMoves(t *testing.T) {
	f := newFixture(t)
	id := f.opened()
	f.want("fetch warmed 1s")
	f.t.Missed(f.now, id, QueueGone)
	f.want("find")
	check.That(t, f.t.Seeks(id), "it does not seek")
	f.t.Found(f.now, id, activation.Endpoint{Host: "other", Port: 2})
	orders := f.t.Orders()
	check.Equal(check.Must(t), len(orders), 1)
	check.Equal(check.Must(t), orders[0].Do, Fetch)
	check.Equal(check.Must(t), orders[0].Creation.Endpoint.Host, "other")
	f.t.Missed(f.now, id, QueueGone)
	f.want("find")
	f.now += grace
	at, ok := f.t.Deadline()
	check.That(check.Must(t), ok, "deadline %v, %t, want %v", at, ok, f.now)
	check.Equal(t, at, f.now)
	f.t.Tick(f.now)
	f.t.Found(f.now, id, activation.Endpoint{})
}

// The next scheduler may order a container before its leader's key is seen.
func TestCreationFindsTheSlotThatLostItsScheduler(t *testing.T) {
	f := newFixture(t)
	id := f.opened()
	f.t.Missed(f.now, id, QueueGone)
	f.want("fetch warmed 1s", "find")
	f.create("a", func(c *Creation) { c.Endpoint.Host = "other" })
	f.want("fetch warmed", "ack")
	f.t.Found(f.now, id, activation.Endpoint{Host: "third"})
	check.Equal(t, f.t.slots[0].Endpoint.Host, "other", "it fetches")
}

func TestPausedSlotIsKeptAsItsNamespaceWishes(t *testing.T) {
	for _, c := range []struct {
		keep Keep
		have int
		ok   bool
		want []string
	}{
		{Keep{}, 1, true, []string{"delete warmed", "remove"}},
		{Keep{Containers: 1}, 1, true, nil},
		{Keep{Containers: 1, Time: time.Minute}, 1, true, nil},
		{Keep{Containers: 1}, 2, true, []string{"delete warmed", "remove"}},
		{Keep{Containers: 2}, 0, false, []string{"delete warmed", "remove"}},
	} {
		f := newFixture(t)
		id := f.paused()
		f.t.slots[0].keep = c.keep
		f.now += idle
		f.t.Tick(f.now)
		if c.keep.Containers > 0 {
			f.want("count")
			f.t.Counted(f.now, id, c.have, c.ok)
		}
		f.want(c.want...)
		if c.want == nil {
			keeping := cmp.Or(c.keep.Time, time.Hour)
			at, ok := f.t.Deadline()
			check.That(check.Must(t), ok, "%+v: due at %v, %t, now is %v", c.keep, at, ok, f.now)
			check.Equal(t, at, f.now+keeping, "%+v: due at %v, %t, now is %v", c.keep, at, ok, f.now)
			f.now += keeping
			f.t.Tick(f.now)
			f.want("delete warmed", "remove")
		}
	}
}

func TestAdoptedContainerCanBeResumed(t *testing.T) {
	f := newFixture(t)
	id := f.t.Adopt(f.now, creation(1, "a", "1-a"))
	f.want("put warmed")
	f.t.Stored(f.now, id, Warmed)
	f.want()
	f.made = 10
	f.create("a")
	f.want("acquire")
}

func TestStatsCountMemoryAsSchedulersDo(t *testing.T) {
	f := newFixture(t)
	f.opened()
	f.create("b")
	got := f.t.Stats(f.now)
	check.Equal(t, got.BusyMB, 256)
	check.Equal(t, got.OpeningMB, 256)
	check.Equal(t, got.Fetching, 1)
	check.Equal(t, got.IdleMB, 0)
	f.now += memoryPause
	check.Equal(t, f.t.Stats(f.now).IdleMB, 256)
	f = newFixture(t)
	f.paused()
	got = f.t.Stats(f.now)
	check.Equal(t, got.BusyMB, 0)
	check.Equal(t, got.Paused, 1)
}
