package kafka

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// producer opens a producer that the test closes at its end.
func (b *fixture) producer(cfg ...ProducerConfig) *Producer {
	b.t.Helper()
	p := b.cluster().NewProducer(append(cfg, ProducerConfig{})[0])
	b.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p.Close(ctx)
	})
	return p
}

// give sends values and does not wait for the outcome.
func (b *fixture) give(p *Producer, topic string, values ...string) {
	b.t.Helper()
	for _, v := range values {
		err := p.Send(b.ctx(), topic, []byte(v), nil)
		check.NoError(b.t, err, "send to %s", topic)
	}
}

// send sends values. The channel receives the outcome of each.
func (b *fixture) send(p *Producer, topic string, values ...string) <-chan error {
	b.t.Helper()
	reported := make(chan error, len(values))
	for _, v := range values {
		b.must(p.Send(b.ctx(), topic, []byte(v), func(err error) { reported <- err }))
	}
	return reported
}

// fate sends one value and returns its outcome.
func (b *fixture) fate(p *Producer, topic, value string) error {
	b.t.Helper()
	select {
	case err := <-b.send(p, topic, value):
		return err
	case <-b.ctx().Done():
		b.t.Fatalf("nothing became of a message to %s\nlog:\n%s", topic, b.log)
		return nil
	}
}

func TestProducerSendsAsTheOriginalDoes(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic()
		p := b.producer()
		before := time.Now().Add(-time.Second)
		b.must(b.fate(p, topic, "hello"))
		r := b.take(topic, 1)[0]
		check.That(b.t, r.Key == nil, "record %+v", r)
		check.Equal(b.t, len(r.Headers), 0)
		check.Equal(b.t, string(r.Value), "hello")
		check.Equal(b.t, r.Partition, 0)
		check.Equal(b.t, r.Attrs.CompressionType(), 0)
		check.Equal(b.t, r.Attrs.TimestampType(), 0)
		check.That(b.t, !r.Timestamp.Before(before), "timestamp %v", r.Timestamp)
		check.That(b.t, !r.Timestamp.After(time.Now().Add(time.Second)), "timestamp %v", r.Timestamp)
	})
}

func TestProducerAsksForTheLeadersAckAlone(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	var acks atomic.Int32
	b.fake.ControlKey(kmsg.Produce.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		acks.Store(int32(req.(*kmsg.ProduceRequest).Acks))
		return nil, nil, false
	})
	b.must(b.fate(b.producer(), topic, "x"))
	check.Equal(t, acks.Load(), 1)
}

func TestProducerKeepsTheOrder(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		one, two := b.topic(), b.topic()
		p := b.producer()
		const n = 2000
		for i := range n {
			b.give(p, []string{one, two}[i%2], fmt.Sprint(i))
		}
		b.must(p.Close(b.ctx()))
		for at, topic := range []string{one, two} {
			var want []string
			for i := range n / 2 {
				want = append(want, fmt.Sprint(2*i+at))
			}
			b.has(topic, want...)
		}
		s := p.Stats()
		check.Equal(b.t, s.Sent, n)
		check.Equal(b.t, s.Waiting, 0)
		check.Equal(b.t, s.Dropped, 0)
	})
}

// Messages that arrive while a request is in flight are gathered and sent together.
func TestProducerGathersUnderLoad(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	arrived, release := make(chan struct{}), make(chan struct{})
	var requests atomic.Int32
	b.fake.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		if requests.Add(1) == 1 {
			close(arrived)
			b.fake.SleepControl(func() { <-release })
		}
		return nil, nil, false
	})
	p := b.producer()
	b.give(p, topic, "first")
	check.Receive(t, arrived)
	for i := range 500 {
		b.give(p, topic, fmt.Sprint(i))
	}
	close(release)
	b.must(p.Close(b.ctx()))
	check.Equal(t, requests.Load(), 2, "500 messages that waited for one answer left")
	b.take(topic, 501)
}

// A failing request holds back the messages after it.
func TestProducerKeepsTheOrderOverFailures(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	for _, code := range []int16{
		kerr.NotLeaderForPartition.Code, kerr.NotEnoughReplicas.Code,
		kerr.RequestTimedOut.Code, kerr.UnknownTopicOrPartition.Code, kerr.KafkaStorageError.Code,
	} {
		b.fake.ControlKey(kmsg.Produce.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			return refuseProduce(req, code), nil, true
		})
	}
	p := b.producer()
	values := messages(0, 20)
	b.give(p, topic, values...)
	b.must(p.Close(b.ctx()))
	b.has(topic, values...)
}

func refuseProduce(req kmsg.Request, code int16) kmsg.Response {
	res := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.(*kmsg.ProduceRequest).Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		res.Topics = append(res.Topics, rt)
	}
	return res
}

// The topic of a controller that is gone costs its own messages and no others.
func TestProducerGivesUpATopicThatIsNotThere(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		gone, here := freshName(), b.topic()
		p := b.producer(ProducerConfig{RefusedFor: time.Nanosecond})
		lost := b.send(p, gone, "x", "x", "x")
		b.must(b.fate(p, here, "y"))
		for range 3 {
			check.That(b.t, <-lost != nil, "a message to a missing topic counts as sent")
		}
		asked := func() int64 { return 0 }
		if b.fake != nil {
			asked = b.countRequests(kmsg.Metadata)
		}
		check.That(b.t, b.fate(p, gone, "x") != nil, "a message to a missing topic counts as sent")
		check.AtMost(b.t, asked(), 1)
		s := p.Stats()
		check.Equal(b.t, s.Dropped, 4)
		check.Equal(b.t, s.Sent, 1)
		check.Equal(b.t, len(s.Interrupted), 0, "a topic that is not there is no trouble")
		check.EqualSlices(b.t, s.Missing, []string{gone})
		n := b.log.count("ERROR", "its messages are dropped")
		check.Equal(b.t, n, 1, "%d lines about the missing topic, want 1:\n%s", n, b.log)
		b.create(gone)
		b.await("the topic to be found", func() bool { return b.fate(p, gone, "z") == nil })
		check.Equal(b.t, string(b.take(gone, 1)[0].Value), "z", "the topic came back: stats")
		check.Equal(b.t, len(p.Stats().Missing), 0, "the topic came back: stats")
	})
}

// A broker that forgets a topic or its permissions for a moment loses no message, and the
// messages of other topics do not wait.
func TestProducerOutlastsWhatAClusterForgets(t *testing.T) {
	for _, code := range []int16{kerr.UnknownTopicOrPartition.Code, kerr.TopicAuthorizationFailed.Code} {
		t.Run(kerr.ErrorForCode(code).Error()[:20], func(t *testing.T) {
			t.Parallel()
			b := newFakeFixture(t)
			forgotten, here := b.topic(), b.topic()
			var refusals atomic.Int64
			b.fake.ControlKey(kmsg.Metadata.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
				b.fake.KeepControl()
				topics := req.(*kmsg.MetadataRequest).Topics
				if len(topics) != 1 || topics[0].Topic == nil || *topics[0].Topic != forgotten || refusals.Add(1) > 7 {
					return nil, nil, false
				}
				res := req.ResponseKind().(*kmsg.MetadataResponse)
				rt := kmsg.NewMetadataResponseTopic()
				rt.Topic, rt.ErrorCode = &forgotten, code
				res.Topics = append(res.Topics, rt)
				return res, nil, true
			})
			p := b.producer()
			reported := b.send(p, forgotten, "0", "1")
			b.must(b.fate(p, here, "y"))
			for range 2 {
				check.NoError(t, check.Receive(t, reported), "dropped after %d refusals", refusals.Load())
			}
			b.has(forgotten, "0", "1")
			check.Greater(t, refusals.Load(), 7)
		})
	}
}

// Each message has its own minute: messages given after the topic came back are not dropped
// together with older ones.
func TestProducerDropsByTheAgeOfAMessage(t *testing.T) {
	p := &Producer{cfg: ProducerConfig{RefusedFor: time.Minute}}
	l := &topicSender{producer: p}
	now := time.Now()
	batch := []outgoing{{time: now.Add(-2 * time.Minute)}, {time: now.Add(-61 * time.Second)}, {time: now}}
	check.Equal(t, l.late(batch), 2, "of 3 are late")
}

// While the broker is away memory stays bounded: a Send of more waits.
func TestProducerPressesBack(t *testing.T) {
	r := fakeRestartable(t)
	b := newFixture(t, nil, r.addr)
	p := b.producer(ProducerConfig{QueueBytes: 10_000})
	value := strings.Repeat("x", 1000)
	for range 7 { // of 1256 bytes each with all around them
		b.give(p, "full", value)
	}
	ctx, cancel := context.WithTimeout(b.ctx(), 20*time.Millisecond)
	defer cancel()
	check.ErrorIs(t, p.Send(ctx, "full", []byte(value), nil), context.DeadlineExceeded, "an eighth message was accepted")
	check.That(t, !p.TrySend("full", []byte(value)), "TrySend accepted a message for a full topic")
	check.That(t, p.TrySend("other", []byte(value)), "a full topic blocks another topic")
	s := p.Stats()
	check.Equal(t, s.Waiting, 8)
	check.Equal(t, s.Dropped, 1)
	blocked := make(chan error)
	go func() { blocked <- p.Send(b.ctx(), "full", []byte("last"), nil) }()
	r.start()
	b.create("full")
	b.create("other")
	b.must(check.Receive(t, blocked))
	b.must(p.Close(b.ctx()))
	check.Equal(t, string(b.take("full", 8)[7].Value), "last", "the blocked message did not come last")
}

// The goroutine of a topic ends when nothing is sent to it, and another starts
// when something is.
func TestProducerForgetsIdleTopics(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	p := b.producer(ProducerConfig{IdleAfter: time.Millisecond})
	for n := range 5 {
		b.must(b.fate(p, topic, fmt.Sprint(n)))
		b.await("the topic to be forgotten", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.byTopic) == 0
		})
	}
	b.take(topic, 5)
}

func TestProducerCloseReportsWhatItCouldNotSend(t *testing.T) {
	r := fakeRestartable(t)
	b := newFixture(t, nil, r.addr)
	p := b.producer()
	reported := b.send(p, "a", "x", "x", "x")
	ctx, cancel := context.WithTimeout(b.ctx(), 20*time.Millisecond)
	defer cancel()
	err := p.Close(ctx)
	check.ErrorIs(t, err, context.DeadlineExceeded)
	check.ErrorContains(t, err, "3 not sent")
	for range 3 {
		check.ErrorIs(t, check.Receive(t, reported), ErrClosed, "a message left at Close")
	}
	check.ErrorIs(t, p.Send(b.ctx(), "a", []byte("x"), nil), ErrClosed, "Send after Close")
}

// A missing topic delays no other topic and is not an error of Close. The log names the
// messages that were left. No message had been tried for as long as a topic may be missing.
func TestCloseWithATopicThatIsNotThere(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		gone, here := freshName(), b.topic()
		p := b.cluster().NewProducer(ProducerConfig{})
		reported := b.send(p, gone, "x")
		b.await("the missing topic to fail", func() bool { return len(p.Stats().Missing) == 1 })
		b.must(b.fate(p, here, "y"))
		s := p.Stats()
		check.Equal(b.t, s.Sent, 1)
		check.Equal(b.t, s.Dropped, 0)
		if err := p.Close(b.ctx()); err != nil {
			b.t.Errorf("close: %v", err)
		}
		check.ErrorIs(b.t, <-reported, ErrClosed, "a message to a missing topic")
	})
}
