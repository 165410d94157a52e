package kafka

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// feed opens a feed that the test closes at its end.
func (b *fixture) feed(topic string) *Feed { return b.feedOf(FeedConfig{Topic: topic}) }

func (b *fixture) feedOf(cfg FeedConfig) *Feed {
	b.t.Helper()
	cfg.CommitEvery = 5 * time.Millisecond
	f := b.cluster().NewFeed(cfg)
	b.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		f.Close(ctx)
	})
	return f
}

// next takes the next delivery and checks which it is.
func (b *fixture) next(f *Feed, want int) Delivery {
	b.t.Helper()
	d, err := f.Next(b.ctx())
	check.NoError(b.t, err, "wait for message %d\nlog:\n%s", want, b.log)
	check.Equal(check.Must(b.t), number(d), want)
	return d
}

// nexts takes the deliveries of messages [from, to), which must be the next ones.
func (b *fixture) nexts(f *Feed, from, to int) (all []Delivery) {
	b.t.Helper()
	for n := from; n < to; n++ {
		all = append(all, b.next(f, n))
	}
	return all
}

func done(all []Delivery) {
	for _, d := range all {
		d.Done()
	}
}

// nextLater takes the next delivery while the test goes on; without a message where
// there was none.
func (b *fixture) nextLater(f *Feed) <-chan Delivery {
	next := make(chan Delivery, 1)
	go func() {
		d, err := f.Next(b.ctx())
		if err != nil {
			d.Message = &activation.Message{}
		}
		next <- d
	}()
	return next
}

// commit writes a position as a member-less client does.
func (b *fixture) commit(group, topic string, offset int64, metadata ...string) {
	b.t.Helper()
	var at kadm.Offsets
	at.Add(kadm.Offset{Topic: topic, At: offset, LeaderEpoch: -1, Metadata: strings.Join(metadata, "")})
	check.NoError(b.t, b.admin().CommitAllOffsets(b.ctx(), group, at))
}

func TestFeedDeliversInOrderFromTheBeginning(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topicOf(messages(0, 50)...)
		f := b.feed(topic)
		for n := range 50 {
			d := b.next(f, n)
			check.Equal(check.Must(b.t), d.Offset, int64(n), "message %d at offset", n)
			check.AtMost(check.Must(b.t), time.Since(d.Timestamp).Abs(), time.Hour, "message %d at offset", n)
		}
		b.put(topic, messages(50, 53)...)
		b.nexts(f, 50, 53)
	})
}

// The feed commits the first unfinished offset. After a crash that activation is delivered
// again, and completed activations above it are not.
func TestFeedCommitsNoMoreThanIsCompleted(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topicOf(messages(0, 6)...)
		f := b.feed(topic)
		all := b.nexts(f, 0, 6)
		all[1].Done()
		all[3].Done()
		all[0].Done()
		all[0].Done()
		b.await("position 2", func() bool { return f.Stats().Committed == 2 })
		b.position(topic, 2)
		check.Equal(b.t, f.Stats().Open, 3)
		all[4].Done()
		all[5].Done()
		b.must(f.Close(b.ctx()))
		b.position(topic, 2)
		f = b.feed(topic)
		b.next(f, 2).Done()
		b.must(f.Close(b.ctx()))
		b.position(topic, 6)
	})
}

func TestFeedSkipsWhatCannotBeDecoded(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic()
		broken := message(1)
		broken = broken[:len(broken)-1]
		b.put(topic, message(0), broken, strings.Replace(message(2), "true", "7", 1), message(3))
		b.must(b.peer.ProduceSync(b.ctx(), &kgo.Record{Topic: topic}).FirstErr())
		b.put(topic, message(5))
		f := b.feed(topic)
		for _, n := range []int{0, 3, 5} {
			b.next(f, n).Done()
		}
		b.await("position 6", func() bool { return b.committed(topic, topic) == 6 })
		s := f.Stats()
		check.Equal(b.t, s.Undecodable, 3)
		check.Equal(b.t, s.Delivered, 3)
		n := b.log.count("ERROR", "cannot be decoded")
		check.Equal(b.t, n, 1, "%d lines about 3 undecodable messages in a row:\n%s", n, b.log)
		check.AtMost(b.t, b.log.count(secret[:8]), 0, "a secret is in the log:\n%s", b.log)
	})
}

// A caller without capacity does not call Next, and then nothing is asked of the
// broker.
func TestFeedDoesNotPullWithoutACall(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	fetches := b.countRequests(kmsg.Fetch)
	b.put(topic, messages(0, 3)...)
	f := b.feed(topic)
	b.next(f, 0)
	asked := fetches()
	b.put(topic, messages(3, 6)...)
	b.next(f, 1)
	b.next(f, 2)
	check.Equal(t, fetches(), asked)
	b.next(f, 3)
	check.That(t, fetches() != asked, "message 3 came without a fetch")
}

func TestFeedNextEndsWithItsContext(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic()
		f := b.feed(topic)
		for range 3 {
			ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Millisecond)
			_, err := f.Next(ctx)
			check.ErrorIs(check.Must(b.t), err, context.DeadlineExceeded, "Next with nothing to read")
			cancel()
		}
		b.put(topic, message(0))
		b.next(f, 0)
		check.Equal(b.t, b.log.count("interrupted", "context"), 0, "a cancelled call counts as an interruption:\n%s", b.log)
	})
}

func TestFeedCloseEndsNext(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		f := b.feed(b.topic())
		ended := make(chan error)
		go func() {
			_, err := f.Next(context.Background())
			ended <- err
		}()
		b.must(f.Close(b.ctx()))
		check.ErrorIs(b.t, <-ended, ErrClosed, "Next of a closed feed")
		if err := f.Close(b.ctx()); err != nil {
			b.t.Errorf("second Close: %v", err)
		}
	})
}

func TestFeedGoesToTheFirstMessageThatIsLeft(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topicOf(messages(0, 10)...)
		f := b.feed(topic)
		early := b.next(f, 0)
		f.partitions[0].records = nil // the rest has not been fetched
		f.partitions[0].reader.offset = 1
		b.deleteBefore(topic, 6)
		b.next(f, 6).Done()
		check.Equal(b.t, f.Stats().Lost, 5)
		check.Equal(b.t, b.log.count("ERROR", "expired"), 1, "not one line about expired activations:\n%s", b.log)
		check.Equal(b.t, f.partitions[0].offset(), 0)
		early.Done()
		b.await("position 7", func() bool { return b.committed(topic, topic) == 7 })
	})
}

// TestFeedPositionFollowsWhatExpired: where all has expired that was to be read,
// and nothing comes after it, the position follows: the next start does not count
// it as lost again.
func TestFeedPositionFollowsWhatExpired(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topicOf(messages(0, 10)...)
		f := b.feed(topic)
		b.next(f, 0).Done()
		b.await("position 1", func() bool { return b.committed(topic, topic) == 1 })
		b.must(f.Close(b.ctx()))
		b.deleteBefore(topic, 10)
		again := b.feed(topic)
		ctx, cancel := context.WithCancel(b.ctx())
		ended := make(chan struct{})
		go func() { defer close(ended); _, _ = again.Next(ctx) }()
		b.await("position 10", func() bool { return b.committed(topic, topic) == 10 })
		cancel()
		<-ended
		check.Equal(b.t, again.Stats().Lost, 9)
		b.put(topic, message(10))
		b.next(again, 10).Done()
		b.await("position 11", func() bool { return b.committed(topic, topic) == 11 })
	})
}

func (b *fixture) deleteBefore(topic string, offset int64) {
	b.t.Helper()
	var before kadm.Offsets
	before.AddOffset(topic, 0, offset, -1)
	deleted, err := b.admin().DeleteRecords(b.ctx(), before)
	err = cmp.Or(err, deleted[topic][0].Err)
	check.NoError(b.t, err, "delete records")
}

// A topic that is created anew begins below the committed position. Completions of deliveries
// from the old topic must not complete offsets of the new one.
func TestFeedReadsATopicMadeAnew(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topicOf(messages(0, 5)...)
	f := b.feed(topic)
	old := b.nexts(f, 0, 5)
	old[0].Done()
	b.await("position 1", func() bool { return b.committed(topic, topic) == 1 })
	b.recreate(topic, 0)
	b.put(topic, messages(100, 102)...)
	first := b.next(f, 100)
	done(old)
	check.Equal(t, f.partitions[0].offset(), 0)
	first.Done()
	b.next(f, 101).Done()
	b.await("position 2", func() bool { return b.committed(topic, topic) == 2 })
	check.Equal(t, b.log.count("ERROR", "created anew"), 1, "not one line about the new topic:\n%s", b.log)
}

func TestFeedReportsLagAndDelay(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	var delays []time.Duration
	f := b.cluster().NewFeed(FeedConfig{Topic: topic, Delay: func(d time.Duration) { delays = append(delays, d) }})
	defer f.Close(b.ctx())
	check.Equal(t, f.Stats().Lag(), 0)
	old := &kgo.Record{Topic: topic, Value: []byte(message(0)), Timestamp: time.Now().Add(-time.Hour)}
	b.must(b.peer.ProduceSync(b.ctx(), old).FirstErr())
	b.put(topic, messages(1, 4)...)
	b.next(f, 0)
	lag := f.Stats().Lag()
	check.AtLeast(t, lag, 0)
	check.AtMost(t, lag, 3)
	b.nexts(f, 1, 4)
	check.Equal(t, f.Stats().Lag(), 0)
	check.Equal(check.Must(t), len(delays), 4)
	check.AtLeast(t, delays[0], time.Hour)
	check.AtMost(t, delays[1], time.Hour)
	check.AtLeast(t, delays[1], 0)
}
