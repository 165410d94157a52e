package kafka

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

func activationMessage(t *testing.T, id activation.ID, controller string) string {
	t.Helper()
	m := activation.Message{
		TransID: activation.NewTransID("t", 1, false), ActivationID: id, Controller: controller,
		Action: activation.ActionRef{Path: "guest", Name: "a", Version: "0.0.1"},
		User:   activation.Identity{Subject: "guest", Namespace: activation.Namespace{Name: "guest", UUID: "u"}, Rights: []string{}},
	}
	return string(m.Encode())
}

// deployment makes an invoker's topic and that of controller 0.
func (b *bed) deployment() (prefix, topic, completed string) {
	prefix = freshName()
	topic, completed = prefix+"invoker", prefix+"completed0"
	b.create(topic)
	b.create(completed)
	return prefix, topic, completed
}

func ack(id activation.ID) string {
	return string(activation.NewCompletion(activation.NewTransID("t", 1, false), id, false, activation.Instance{ID: 0}).Encode())
}

// TestPending: what was not taken waits, what was taken and not answered runs,
// and a result alone is no answer.
func TestPending(t *testing.T) {
	onEachBroker(t, func(b *bed) {
		prefix, topic, completed := b.deployment()
		c := b.cluster()
		p := c.NewPending(prefix, "invoker", time.Hour)
		defer p.Close()
		look := func(waiting, running int) {
			b.t.Helper()
			w, r, err := p.Look(b.ctx(), []string{completed})
			if err != nil || w != waiting || r != running {
				b.t.Fatalf("%d wait, %d run, %v; want %d and %d", w, r, err, waiting, running)
			}
		}
		look(0, 0)
		id := func(n int) activation.ID { return activation.ID(fmt.Sprintf("%032x", n)) }
		for n := range 3 {
			b.put(topic, activationMessage(t, id(n), "0"))
		}
		b.put(topic, "not a message")
		look(3, 0)
		l, err := c.coordinator(b.ctx(), topic)
		if err != nil {
			b.t.Fatal(err)
		}
		defer l.close()
		if err := commitOffsets(l, topic, topic, []standing{{offset: 2}}); err != nil {
			b.t.Fatal(err)
		}
		look(1, 2)
		b.put(completed, ack(id(1)), string(activation.NewResult(activation.NewTransID("t", 1, false),
			&activation.Record{ActivationID: id(0), Namespace: "guest", Name: "a", Subject: "guest", Version: "0.0.1",
				Response: activation.Response{Result: []byte(`{}`)}}).Encode()))
		look(1, 1)
		b.put(completed, ack(id(0)))
		if err := commitOffsets(l, topic, topic, []standing{{offset: 4}}); err != nil {
			b.t.Fatal(err)
		}
		look(0, 1)
		b.put(completed, ack(id(2)))
		look(0, 0)
		// One that begins now comes to the same.
		late := c.NewPending(prefix, "invoker", time.Hour)
		defer late.Close()
		if w, r, err := late.Look(b.ctx(), []string{completed}); err != nil || w != 0 || r != 0 {
			b.t.Errorf("who looks later sees %d waiting, %d running, %v", w, r, err)
		}
	})
}

// TestPendingOfNobody: who has no topic any more waits for no answer. A probe
// that gave up leaves such an activation, and the next swap need not wait for it.
// What the invoker has not taken is there all the same, and will run.
func TestPendingOfNobody(t *testing.T) {
	b := newFakeBed(t)
	prefix, topic, completed := b.deployment()
	probe := prefix + "completedprobe-1"
	b.create(probe)
	c := b.cluster()
	b.put(topic, activationMessage(t, "00000000000000000000000000000001", "0"), activationMessage(t, "00000000000000000000000000000002", "probe-1"))
	p := c.NewPending(prefix, "invoker", time.Hour)
	defer p.Close()
	look := func(when string, waiting, running int, topics ...string) {
		t.Helper()
		if w, r, err := p.Look(b.ctx(), topics); err != nil || w != waiting || r != running {
			t.Errorf("%s: %d wait, %d run, %v; want %d and %d", when, w, r, err, waiting, running)
		}
	}
	look("not taken, the probe's topic is gone", 2, 0, completed)
	l, err := c.coordinator(b.ctx(), topic)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := commitOffsets(l, topic, topic, []standing{{offset: 2}}); err != nil {
		t.Fatal(err)
	}
	look("taken, the probe waits", 0, 2, completed, probe)
	look("taken, the probe's topic is gone", 0, 1, completed)
	b.put(completed, ack("00000000000000000000000000000001"))
	look("what counts is answered", 0, 0, completed)
}

// TestPendingGivesUpWhatIsLost: taken longer ago than anything may run.
func TestPendingGivesUpWhatIsLost(t *testing.T) {
	b := newFakeBed(t)
	prefix, topic, completed := b.deployment()
	c := b.cluster()
	b.put(topic, activationMessage(t, "00000000000000000000000000000001", "0"))
	p := c.NewPending(prefix, "invoker", time.Nanosecond)
	defer p.Close()
	if w, r, err := p.Look(b.ctx(), []string{completed}); err != nil || w != 1 || r != 0 {
		t.Errorf("not taken, however old: %d wait, %d run, %v", w, r, err)
	}
	l, err := c.coordinator(b.ctx(), topic)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := commitOffsets(l, topic, topic, []standing{{offset: 1}}); err != nil {
		t.Fatal(err)
	}
	if w, r, err := p.Look(b.ctx(), []string{completed}); err != nil || w != 0 || r != 0 {
		t.Errorf("taken too long ago: %d wait, %d run, %v", w, r, err)
	}
}

// TestExchange: the question is held until the topic of the answer is there and
// then arrives, the answer is heard, and the topic is gone.
func TestExchange(t *testing.T) {
	onEachBroker(t, func(b *bed) {
		topic, reply := b.topic(), freshName()
		b.await("the topic to be led", func() bool { return b.knows(topic) })
		end := make(chan error, 1)
		c := b.cluster()
		release := make(chan struct{})
		hold := func(ctx context.Context) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		go func() {
			end <- c.Exchange(b.t.Context(), topic, []byte("question"), TopicSpec{Name: reply}, hold, func(v []byte) bool { return string(v) == "answer" })
		}()
		b.await("the topic for the answer", func() bool { return b.knows(reply) })
		released := time.Now().Truncate(time.Millisecond) // as Kafka's times are
		close(release)
		if got := b.take(topic, 1); string(got[0].Value) != "question" || got[0].Timestamp.Before(released) {
			b.t.Errorf("asked %q at %v, released at %v", got[0].Value, got[0].Timestamp, released)
		}
		b.put(reply, "something else", "answer")
		if err := <-end; err != nil {
			b.t.Fatal(err)
		}
		b.await("the topic to go", func() bool { return !b.knows(reply) })
	})
}

// TestExchangeEnds: nobody answers.
func TestExchangeEnds(t *testing.T) {
	b := newFakeBed(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("nobody answers"))
	defer cancel()
	err := b.cluster().Exchange(ctx, b.topic(), []byte("x"), TopicSpec{Name: freshName()}, nil, func([]byte) bool { return false })
	if err == nil || err.Error() != "nobody answers" {
		t.Errorf("error %v", err)
	}
}
