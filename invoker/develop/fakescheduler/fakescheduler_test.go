package fakescheduler

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// fetch asks for an activation of a function.
func (f *fixture) fetch(s *Scheduler, of Function, container string) activation.FetchAnswer {
	f.t.Helper()
	a, err := f.fetcher.Fetch(f.context(), s.Endpoint(), fetch.Request{Queue: of.Queue, Container: container})
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// TestConversation is one activation from the queue's creation to a paused
// container that is resumed.
func TestConversation(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		s := f.start()
		f.healthy(2048)
		if a, err := f.fetcher.Fetch(f.context(), s.Endpoint(), fetch.Request{Queue: hello.Queue, Container: "c"}); err != nil || a.Kind != activation.NoQueue {
			t.Errorf("without a queue: %s, %v", a, err)
		}
		if err := s.CreateQueue(f.context(), hello); err != nil {
			t.Fatal(err)
		}
		c := f.creation()
		if !c.Queue.Same(hello.Queue) || c.Endpoint != s.Endpoint() || c.Scheduler != "0" || c.Retry != 0 {
			t.Errorf("the creation is %+v", c)
		}
		inProgress := f.cfg.Cluster.InProgressOf(hello.Queue)
		if n := f.keys(inProgress); n != 1 {
			t.Errorf("%d creations are under way", n)
		}
		key := f.cfg.Cluster.Existing(hello.Queue, f.instance, "c")
		f.put(key, "")
		f.ack(c, activation.NoCreationError)
		peertest.Until(t, "the creation ends", func() string {
			if n := f.keys(inProgress); n != 0 {
				return fmt.Sprint(n)
			}
			return ""
		})
		if err := s.Invoke(f.context(), message(1)); err != nil {
			t.Fatal(err)
		}
		if a := f.fetch(s, hello, "c"); a.Kind != activation.Fetched || a.Message.ActivationID != message(1).ActivationID {
			t.Errorf("got %s", a)
		}
		if a, err := f.fetcher.Leave(f.context(), s.Endpoint(), hello.Queue, "c"); err != nil || a.Kind != activation.NoActivation {
			t.Errorf("left: %s, %v", a, err)
		}
		f.put(f.cfg.Cluster.Warmed(hello.Queue, f.instance, "c"), "")
		f.delete(key)
		f.until(s, "the keys are seen", func(Seen) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.existing) == 0 && len(s.warmed) == 1
		})
		if err := s.Invoke(f.context(), message(2)); err != nil {
			t.Fatal(err)
		}
		c = f.creation()
		seen, _ := s.Seen()
		if last := seen.Creations[len(seen.Creations)-1]; !last.Claimed || last.ID != c.ID {
			t.Errorf("the paused container is not claimed: %+v", last)
		}
		if seen.WarmUps != 1 || seen.Unparsed != 0 || seen.Lost != 0 || len(seen.Failures) != 0 {
			t.Errorf("seen are %+v", seen)
		}
	})
}

// TestRefusalsAreRetried five times, with the same id; then activations wait for a
// creation that succeeds.
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
			if c.ID != first.ID || c.Retry != retry {
				t.Fatalf("got try %d of %s, want try %d of %s", c.Retry, c.ID, retry, first.ID)
			}
			f.ack(c, activation.ResourceNotEnough)
		}
		next := f.creation()
		if next.ID == first.ID || next.Retry != 0 {
			t.Errorf("then comes try %d of %s", next.Retry, next.ID)
		}
		if q, _ := s.Queue(hello.Queue); q.State != memoryqueue.Flushing || q.Waiting != 1 {
			t.Errorf("the queue is %+v", q)
		}
		f.ack(next, activation.NoCreationError)
		f.until(s, "the ack", func(seen Seen) bool { return len(seen.Acks) == 7 })
		if a := f.fetch(s, hello, "c"); a.Kind != activation.Fetched {
			t.Errorf("got %s", a)
		}
	})
}

// TestRefusedWithoutAnotherInvoker: a creation that is to be tried again where there is
// no invoker counts for its namespace until its time is over.
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
		if n := f.keys(f.cfg.Cluster.InProgressIn("guest")); n != 1 {
			t.Errorf("%d creations count, want 1", n)
		}
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
		if got, want := seen.Failures[0], (Failure{message(1).ActivationID, activation.StatusDeveloperError, "for a test"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		ack, err := activation.DecodeAck(<-acks)
		if err != nil || ack.Kind != activation.Combined || ack.ActivationID != message(1).ActivationID {
			t.Errorf("the ack is %+v, %v", ack, err)
		}
	})
}

// TestActivationsByTopic come as a controller sends them; what is too old fails.
func TestActivationsByTopic(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		s := f.start()
		if err := s.CreateQueue(f.context(), hello); err != nil {
			t.Fatal(err)
		}
		old := message(1)
		old.TransID = activation.NewTransID("t", time.Now().Add(-time.Minute).UnixMilli(), false)
		for _, m := range []*activation.Message{old, message(2)} {
			if err := f.bus.Publish(f.context(), f.cfg.Prefix+"scheduler0", m.Encode()); err != nil {
				t.Fatal(err)
			}
		}
		seen := f.until(s, "the failure", func(seen Seen) bool { return len(seen.Failures) == 1 })
		if got := seen.Failures[0]; got.Activation != old.ActivationID || got.Status != activation.StatusWhiskError {
			t.Errorf("failed is %+v", got)
		}
		if a := f.fetch(s, hello, "c"); a.Kind != activation.Fetched || a.Message.ActivationID != message(2).ActivationID {
			t.Errorf("got %s", a)
		}
	})
}

// TestUnreadableAckIsDropped: the job stays until its time is over.
func TestUnreadableAckIsDropped(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		f.cfg.Job = time.Second
		s := f.start()
		f.healthy(2048)
		if err := s.CreateQueue(f.context(), hello); err != nil {
			t.Fatal(err)
		}
		c := f.creation()
		f.ack(c, "ShuttingDownError")
		f.until(s, "it is noticed", func(seen Seen) bool { return seen.Unparsed == 1 })
		if q, _ := s.Queue(hello.Queue); q.State != memoryqueue.Running {
			t.Errorf("the queue is %+v", q)
		}
		if next := f.creation(); next.ID == c.ID {
			t.Error("it is tried again")
		}
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
		if c := f.creation(); !c.Queue.Same(hello.Queue) {
			t.Errorf("a creation of %s", c.Queue.Action.FQN())
		}
	})
}

// TestUpdate: containers of the old revision meet a mismatch, and a deletion once
// their queue has run dry.
func TestUpdate(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		s := f.start()
		f.healthy(2048)
		if err := s.CreateQueue(f.context(), hello); err != nil {
			t.Fatal(err)
		}
		c := f.creation()
		f.put(f.cfg.Cluster.Existing(hello.Queue, f.instance, "c"), "")
		f.ack(c, activation.NoCreationError)
		f.until(s, "the container", func(seen Seen) bool { return len(seen.Acks) == 1 && seen.MostContainers == 1 })
		newer := function("2-bb", "0.0.2", "")
		if err := s.Update(newer); err != nil {
			t.Fatal(err)
		}
		if a := f.fetch(s, hello, "c"); a.Kind != activation.ActionMismatch {
			t.Errorf("the old container gets %s", a)
		}
		var deletion *activation.ContainerDeletion
		var creation *activation.ContainerCreation
		for deletion == nil || creation == nil {
			if c, d := f.receive(); d != nil {
				deletion = d
			} else {
				creation = c
			}
		}
		if !deletion.Covers(hello.Queue) || deletion.Covers(newer.Queue) {
			t.Errorf("the deletion is of %+v", deletion.Queue)
		}
		if !creation.Queue.Same(newer.Queue) {
			t.Errorf("the creation is of %+v", creation.Queue)
		}
		if err := s.Invoke(f.context(), message(1)); err != nil { // of the old revision
			t.Fatal(err)
		}
		if a := f.fetch(s, newer, "d"); a.Kind != activation.Fetched || a.Message.Revision != newer.Queue.Revision {
			t.Errorf("the new container gets %s", a)
		}
	})
}

// TestReschedule, and what is no request at all.
func TestReschedule(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		s := f.start()
		if err := s.CreateQueue(f.context(), hello); err != nil {
			t.Fatal(err)
		}
		text := message(1).Encode()
		if ok, err := f.fetcher.Reschedule(f.context(), s.Endpoint(), hello.Queue, text); err != nil || !ok {
			t.Errorf("got %v, %v", ok, err)
		}
		if a := f.fetch(s, hello, "c"); a.Kind != activation.Fetched || string(a.JSON()) != string(text) {
			t.Errorf("got %s %s", a, a.JSON())
		}
		old := function("0-00", "0.0.1", "")
		if ok, err := f.fetcher.Reschedule(f.context(), s.Endpoint(), old.Queue, text); err != nil || ok {
			t.Errorf("without a queue: %v, %v", ok, err)
		}
		nameless := activation.NewQueue("guest", activation.ActionRef{}, "")
		if _, err := f.fetcher.Fetch(f.context(), s.Endpoint(), fetch.Request{Queue: nameless}); !errors.Is(err, fetch.ErrRejected) {
			t.Errorf("without a name: %v", err)
		}
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
		if err := first.CreateQueue(f.context(), hello); err != nil {
			t.Fatal(err)
		}
		if err := second.CreateQueue(f.context(), hello); !errors.Is(err, ErrLed) {
			t.Errorf("a second leader: %v", err)
		}
		if err := first.Disable(f.context()); err != nil {
			t.Fatal(err)
		}
		if err := second.CreateQueue(f.context(), hello); err != nil {
			t.Errorf("after the first is disabled: %v", err)
		}
		second.Kill()
		if n := f.keys(f.cfg.Cluster.Leaders()); n != 1 {
			t.Errorf("right after the kill there are %d leaders", n)
		}
		peertest.Until(t, "the lease runs out", func() string {
			if n := f.keys(f.cfg.Cluster.Leaders()); n != 0 {
				return fmt.Sprint(n)
			}
			return ""
		})
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
		if n := f.keys(f.cfg.Cluster.Schedulers()); n != 0 {
			t.Errorf("%d schedulers are left", n)
		}
	})
}
