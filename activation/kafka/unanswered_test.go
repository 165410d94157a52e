package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
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
func (b *fixture) deployment() (prefix, topic, completed string) {
	prefix = freshName()
	topic, completed = prefix+"invoker", prefix+"completed0"
	b.create(topic)
	b.create(completed)
	return prefix, topic, completed
}

func ack(id activation.ID) string {
	return string(activation.NewCompletion(activation.NewTransID("t", 1, false), id, false, activation.Instance{ID: 0}).Encode())
}

// polls fails the test unless so many wait and run, of which these topics get the answers.
func (b *fixture) polls(p *Unanswered, when string, waiting, running int, topics ...string) {
	b.t.Helper()
	w, r, err := p.Poll(b.ctx(), topics)
	check.NoError(b.t, err, "%s: %d wait, %d run; want %d and %d", when, w, r, waiting, running)
	check.Equal(check.Must(b.t), w, waiting, "%s", when)
	check.Equal(check.Must(b.t), r, running, "%s", when)
}

// TestUnanswered: an activation that was not taken is waiting, an activation that was taken and
// not answered is running, and a result without a completion is not an answer.
func TestUnanswered(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		prefix, topic, completed := b.deployment()
		c := b.cluster()
		p := c.NewUnanswered(prefix, "invoker", time.Hour)
		defer p.Close()
		poll := func(waiting, running int) {
			b.t.Helper()
			b.polls(p, "then", waiting, running, completed)
		}
		poll(0, 0)
		id := func(n int) activation.ID { return activation.ID(fmt.Sprintf("%032x", n)) }
		for n := range 3 {
			b.put(topic, activationMessage(t, id(n), "0"))
		}
		b.put(topic, "not a message")
		poll(3, 0)
		b.commit(topic, topic, 2)
		poll(1, 2)
		b.put(completed, ack(id(1)), string(activation.NewResult(activation.NewTransID("t", 1, false),
			&activation.Record{ActivationID: id(0), Namespace: "guest", Name: "a", Subject: "guest", Version: "0.0.1",
				Response: activation.Response{Result: []byte(`{}`)}}).Encode()))
		poll(1, 1)
		b.put(completed, ack(id(0)))
		b.commit(topic, topic, 4)
		poll(0, 1)
		b.put(completed, ack(id(2)))
		poll(0, 0)
		// A reader that begins now arrives at the same numbers.
		late := c.NewUnanswered(prefix, "invoker", time.Hour)
		defer late.Close()
		b.polls(late, "a later look", 0, 0, completed)
	})
}

// TestUnansweredWithoutATopicForTheAnswer: a controller without a topic expects no answer. A
// probe that gave up leaves such an activation, and the next swap need not wait for its
// answer. An activation that the invoker has not taken still counts, because it will run.
func TestUnansweredWithoutATopicForTheAnswer(t *testing.T) {
	b := newFakeFixture(t)
	prefix, topic, completed := b.deployment()
	probe := prefix + "completedprobe-1"
	b.create(probe)
	c := b.cluster()
	b.put(topic, activationMessage(t, "00000000000000000000000000000001", "0"), activationMessage(t, "00000000000000000000000000000002", "probe-1"))
	p := c.NewUnanswered(prefix, "invoker", time.Hour)
	defer p.Close()
	b.polls(p, "not taken, the probe's topic is gone", 2, 0, completed)
	b.commit(topic, topic, 2)
	b.polls(p, "taken, the probe waits", 0, 2, completed, probe)
	b.polls(p, "taken, the probe's topic is gone", 0, 1, completed)
	b.put(completed, ack("00000000000000000000000000000001"))
	b.polls(p, "the counted activations are answered", 0, 0, completed)
}

// TestUnansweredGivesUpLostActivations: taken longer ago than anything may run.
func TestUnansweredGivesUpLostActivations(t *testing.T) {
	b := newFakeFixture(t)
	prefix, topic, completed := b.deployment()
	c := b.cluster()
	b.put(topic, activationMessage(t, "00000000000000000000000000000001", "0"))
	p := c.NewUnanswered(prefix, "invoker", time.Nanosecond)
	defer p.Close()
	b.polls(p, "not taken, however old", 1, 0, completed)
	b.commit(topic, topic, 1)
	b.polls(p, "taken too long ago", 0, 0, completed)
}

// TestRequester: a request arrives, the replies are received in order, and the
// topic of the replies is gone afterwards.
func TestRequester(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic, reply := b.topic(), freshName()
		received := make(chan string, 2)
		r, err := b.cluster().NewRequester(b.ctx(), TopicSpec{Name: reply}, func(v []byte) { received <- string(v) })
		b.must(err)
		b.must(r.Send(b.ctx(), topic, []byte("request")))
		check.Equal(b.t, string(b.take(topic, 1)[0].Value), "request")
		b.await("the topic of the replies", func() bool { return b.knows(reply) })
		b.put(reply, "first", "second")
		for _, want := range []string{"first", "second"} {
			check.Equal(b.t, <-received, want)
		}
		if err := r.Close(b.ctx()); err != nil {
			b.t.Error(err)
		}
		b.await("the topic to go", func() bool { return !b.knows(reply) })
	})
}
