package fakescheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// fetch asks for an activation of a function.
func (f *fixture) fetch(s *Scheduler, of Function, container string) activation.FetchAnswer {
	f.t.Helper()
	a, err := f.fetcher.Fetch(f.context(), s.Endpoint(), activation.FetchRequest{Queue: of.Queue, Container: container})
	check.NoError(f.t, err)
	return a
}

// TestConversation is one activation from the queue's creation to a paused
// container that is resumed.
func TestConversation(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		s := f.start()
		f.healthy(2048)
		a, err := f.fetcher.Fetch(f.context(), s.Endpoint(), activation.FetchRequest{Queue: hello.Queue, Container: "c"})
		check.NoError(t, err, "without a queue")
		check.Equal(t, a.Kind, activation.NoQueue, "without a queue")
		check.NoError(t, s.CreateQueue(f.context(), hello))
		c := f.creation()
		check.That(check.Must(t), c.Queue.Same(hello.Queue), "the creation is %+v", c)
		check.Equal(t, c.Endpoint, s.Endpoint())
		check.Equal(t, c.Scheduler, "0")
		check.Equal(t, c.Retry, 0)
		inProgress := f.cfg.Cluster.InProgressOf(hello.Queue)
		check.Equal(t, f.keys(inProgress), 1, "creations are under way")
		key := f.cfg.Cluster.Existing(hello.Queue, f.instance, "c")
		f.put(key, "")
		f.ack(c, activation.NoCreationError)
		peertest.Until(t, "the creation ends", func() string {
			if n := f.keys(inProgress); n != 0 {
				return fmt.Sprint(n)
			}
			return ""
		})
		check.NoError(t, s.Invoke(f.context(), message(1)))
		a = f.fetch(s, hello, "c")
		check.Equal(t, a.Kind, activation.Fetched)
		check.Equal(t, a.Message.ActivationID, message(1).ActivationID)
		a, err = f.fetcher.Leave(f.context(), s.Endpoint(), hello.Queue, "c")
		check.NoError(t, err)
		check.Equal(t, a.Kind, activation.NoActivation)
		f.put(f.cfg.Cluster.Warmed(hello.Queue, f.instance, "c"), "")
		f.delete(key)
		f.until(s, "the keys are seen", func(Seen) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.existing) == 0 && len(s.warmed) == 1
		})
		check.NoError(t, s.Invoke(f.context(), message(2)))
		c = f.creation()
		seen, _ := s.Seen()
		last := seen.Creations[len(seen.Creations)-1]
		check.That(check.Must(t), last.Claimed, "the paused container is not claimed: %+v", last)
		check.Equal(t, last.ID, c.ID, "the paused container is not claimed")
		check.Equal(t, seen.WarmUps, 1)
		check.Equal(t, seen.Unparsed, 0)
		check.Equal(t, seen.Lost, 0)
		check.Equal(t, len(seen.Failures), 0)
	})
}

// TestRefusalsAreRetried: a refused creation is retried five times, with the same id.
// Then the activations wait for a creation that succeeds.
func TestRefusalsAreRetried(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		s := f.start()
		f.healthy(2048)
		f.invoke(s)
		first := f.creation()
		f.ack(first, activation.ResourceNotEnough)
		for retry := 1; retry <= 5; retry++ {
			c := f.creation()
			check.Equal(check.Must(t), c.ID, first.ID)
			check.Equal(check.Must(t), c.Retry, retry)
			f.ack(c, activation.ResourceNotEnough)
		}
		next := f.creation()
		check.That(t, next.ID != first.ID, "then comes try %d of %s", next.Retry, next.ID)
		check.Equal(t, next.Retry, 0, "then comes try")
		q, _ := s.Queue(hello.Queue)
		check.Equal(t, q.State, memoryqueue.Flushing)
		check.Equal(t, q.Waiting, 1)
		f.ack(next, activation.NoCreationError)
		f.until(s, "the ack", func(seen Seen) bool { return len(seen.Acks) == 7 })
		check.Equal(t, f.fetch(s, hello, "c").Kind, activation.Fetched)
	})
}

// TestRefusedWithoutAnotherInvoker: a refused creation without another invoker counts
// for its namespace until its time is over.
func TestRefusedWithoutAnotherInvoker(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		s := f.start()
		f.healthy(2048)
		f.invoke(s)
		c := f.creation()
		f.put(f.cfg.Cluster.Invoker(f.instance), string(activation.Health{Status: activation.Up}.Encode()))
		f.ack(c, activation.ResourceNotEnough)
		f.until(s, "the queue flushes", func(Seen) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.queues[hello.id()].State() == memoryqueue.Flushing
		})
		check.Equal(t, f.keys(f.cfg.Cluster.InProgressIn("guest")), 1)
	})
}

// TestDevelopersErrorReachesTheCaller by an ack of the scheduler's own.
func TestDevelopersErrorReachesTheCaller(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		acks := make(chan []byte, 10)
		f.consume(f.cfg.Prefix+"completed0", acks)
		s := f.start()
		f.healthy(2048)
		f.invoke(s)
		f.ack(f.creation(), activation.ActionUnreadable)
		seen := f.until(s, "the failure", func(seen Seen) bool { return len(seen.Failures) == 1 })
		got, want := seen.Failures[0], (Failure{message(1).ActivationID, activation.StatusDeveloperError, "for a test"})
		check.Equal(t, got, want)
		ack, err := activation.DecodeAck(<-acks)
		check.NoError(t, err)
		check.Equal(t, ack.Kind, activation.Combined)
		check.Equal(t, ack.ActivationID, message(1).ActivationID)
	})
}

// TestActivationsByTopic: activations arrive as a controller sends them, and too old
// ones fail.
func TestActivationsByTopic(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		s := f.start()
		check.NoError(t, s.CreateQueue(f.context(), hello))
		old := message(1)
		old.TransID = activation.NewTransID("t", time.Now().Add(-time.Minute).UnixMilli(), false)
		for _, m := range []*activation.Message{old, message(2)} {
			check.NoError(t, f.bus.Publish(f.context(), f.cfg.Prefix+"scheduler0", m.Encode()))
		}
		seen := f.until(s, "the failure", func(seen Seen) bool { return len(seen.Failures) == 1 })
		got := seen.Failures[0]
		check.Equal(t, got.Activation, old.ActivationID)
		check.Equal(t, got.Status, activation.StatusWhiskError)
		a := f.fetch(s, hello, "c")
		check.Equal(t, a.Kind, activation.Fetched)
		check.Equal(t, a.Message.ActivationID, message(2).ActivationID)
	})
}

// TestUnreadableAckIsDropped: the job stays until its time is over.
func TestUnreadableAckIsDropped(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		f.cfg.Job = time.Second
		s := f.start()
		f.healthy(2048)
		check.NoError(t, s.CreateQueue(f.context(), hello))
		c := f.creation()
		f.ack(c, "ShuttingDownError")
		f.until(s, "it is noticed", func(seen Seen) bool { return seen.Unparsed == 1 })
		q, _ := s.Queue(hello.Queue)
		check.Equal(t, q.State, memoryqueue.Running, "the queue")
		check.That(t, f.creation().ID != c.ID, "it is tried again")
	})
}

// TestWithoutInvokers an activation waits for one.
func TestWithoutInvokers(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		s := f.start()
		f.invoke(s)
		f.until(s, "the queue flushes", func(Seen) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.queues[hello.id()].State() == memoryqueue.Flushing
		})
		f.healthy(2048)
		c := f.creation()
		check.That(t, c.Queue.Same(hello.Queue), "a creation of %s", c.Queue.Action.FQN())
	})
}

// TestUpdate: containers of the old revision meet a mismatch, and a deletion once
// their queue has run dry.
func TestUpdate(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		s := f.start()
		f.healthy(2048)
		check.NoError(t, s.CreateQueue(f.context(), hello))
		c := f.creation()
		f.put(f.cfg.Cluster.Existing(hello.Queue, f.instance, "c"), "")
		f.ack(c, activation.NoCreationError)
		f.until(s, "the container", func(seen Seen) bool { return len(seen.Acks) == 1 && seen.MostContainers == 1 })
		newer := function("2-bb", "0.0.2", "")
		check.NoError(t, s.Update(newer))
		check.Equal(t, f.fetch(s, hello, "c").Kind, activation.ActionMismatch, "the old container gets")
		var deletion *activation.ContainerDeletion
		var creation *activation.ContainerCreation
		for deletion == nil || creation == nil {
			if c, d := f.receive(); d != nil {
				deletion = d
			} else {
				creation = c
			}
		}
		check.That(check.Must(t), deletion.Covers(hello.Queue), "the deletion is of %+v", deletion.Queue)
		check.That(t, !deletion.Covers(newer.Queue), "the deletion is of %+v", deletion.Queue)
		check.That(t, creation.Queue.Same(newer.Queue), "the creation is of %+v", creation.Queue)
		check.NoError(t, s.Invoke(f.context(), message(1))) // an activation of the old revision
		a := f.fetch(s, newer, "d")
		check.Equal(t, a.Kind, activation.Fetched, "the new container gets")
		check.Equal(t, a.Message.Revision, newer.Queue.Revision, "the new container gets")
	})
}

// TestReschedule: an activation can be given back, and invalid requests are refused.
func TestReschedule(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		s := f.start()
		check.NoError(t, s.CreateQueue(f.context(), hello))
		text := message(1).Encode()
		ok, err := f.fetcher.Reschedule(f.context(), s.Endpoint(), hello.Queue, text)
		check.NoError(t, err)
		check.That(t, ok, "got %v, %v", ok, err)
		a := f.fetch(s, hello, "c")
		check.Equal(t, a.Kind, activation.Fetched)
		check.Equal(t, string(a.JSON()), string(text))
		old := function("0-00", "0.0.1", "")
		ok, err = f.fetcher.Reschedule(f.context(), s.Endpoint(), old.Queue, text)
		check.NoError(t, err, "without a queue")
		check.That(t, !ok, "without a queue: %v, %v", ok, err)
		nameless := activation.NewQueue("guest", activation.ActionRef{}, "")
		_, err = f.fetcher.Fetch(f.context(), s.Endpoint(), activation.FetchRequest{Queue: nameless})
		check.ErrorIs(t, err, fetch.ErrRejected, "without a name")
		if err := f.fetcher.WarmUp(f.context(), s.Endpoint()); err != nil {
			t.Errorf("warm-up: %v", err)
		}
	})
}

// TestLeader: one scheduler has a queue, until it ends.
func TestLeader(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		first := f.start()
		f.cfg.ID = "1"
		second := f.start()
		check.NoError(t, first.CreateQueue(f.context(), hello))
		check.ErrorIs(t, second.CreateQueue(f.context(), hello), errLed, "a second leader")
		check.NoError(t, first.Disable(f.context()))
		if err := second.CreateQueue(f.context(), hello); err != nil {
			t.Errorf("after the first is disabled: %v", err)
		}
		second.Kill()
		check.Equal(t, f.keys(f.cfg.Cluster.Leaders()), 1, "right after the kill there")
		peertest.Until(t, "the lease runs out", func() string {
			if n := f.keys(f.cfg.Cluster.Leaders()); n != 0 {
				return fmt.Sprint(n)
			}
			return ""
		})
		check.NoError(t, first.Stop())
		check.Equal(t, f.keys(f.cfg.Cluster.Schedulers()), 0, "schedulers are left")
	})
}
