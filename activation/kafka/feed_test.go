package kafka

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// feed opens a feed that the test closes at its end.
func (b *fixture) feed(topic string) *Feed {
	b.t.Helper()
	f := b.cluster().NewFeed(FeedConfig{Topic: topic, CommitEvery: 5 * time.Millisecond})
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
	if err != nil {
		b.t.Fatalf("wait for message %d: %v\nlog:\n%s", want, err, b.log)
	}
	if number(d) != want {
		b.t.Fatalf("message %d came, want %d", number(d), want)
	}
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
	if err := b.admin().CommitAllOffsets(b.ctx(), group, at); err != nil {
		b.t.Fatalf("commit: %v", err)
	}
}

func TestFeedDeliversInOrderFromTheBeginning(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topicOf(messages(0, 50)...)
		f := b.feed(topic)
		for n := range 50 {
			if d := b.next(f, n); d.Offset != int64(n) || time.Since(d.Timestamp).Abs() > time.Hour {
				b.t.Fatalf("message %d at offset %d of %v", n, d.Offset, d.Timestamp)
			}
		}
		b.put(topic, messages(50, 53)...)
		b.nexts(f, 50, 53)
	})
}

// What is committed is the first unfinished: an unfinished one is delivered
// again after a crash, and none behind it that is finished.
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
		if s := f.Stats(); s.Open != 3 {
			b.t.Errorf("stats %+v, want 3 open", s)
		}
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
		if s := f.Stats(); s.Undecodable != 3 || s.Delivered != 3 {
			b.t.Errorf("stats %+v, want 3 undecodable and 3 delivered", s)
		}
		if n := b.log.count("ERROR", "cannot be decoded"); n != 1 {
			b.t.Errorf("%d lines about 3 undecodable messages in a row:\n%s", n, b.log)
		}
		if b.log.count(secret[:8]) > 0 {
			b.t.Errorf("a secret is in the log:\n%s", b.log)
		}
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
	if fetches() != asked {
		t.Errorf("%d fetches while %d messages were at hand", fetches()-asked, 2)
	}
	b.next(f, 3)
	if fetches() == asked {
		t.Error("message 3 came without a fetch")
	}
}

func TestFeedNextEndsWithItsContext(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic()
		f := b.feed(topic)
		for range 3 {
			ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Millisecond)
			if _, err := f.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				b.t.Fatalf("Next with nothing to read: %v", err)
			}
			cancel()
		}
		b.put(topic, message(0))
		b.next(f, 0)
		if b.log.count("interrupted") > 0 {
			b.t.Errorf("a cancelled call counts as an interruption:\n%s", b.log)
		}
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
		if err := <-ended; !errors.Is(err, ErrClosed) {
			b.t.Errorf("Next of a closed feed: %v", err)
		}
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
		if s := f.Stats(); s.Lost != 5 {
			b.t.Errorf("%d lost, want 5", s.Lost)
		}
		if b.log.count("ERROR", "expired") != 1 {
			b.t.Errorf("not one line about expired activations:\n%s", b.log)
		}
		if p := f.partitions[0].offset(); p != 0 {
			b.t.Errorf("position %d with message 0 unfinished", p)
		}
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
		if s := again.Stats(); s.Lost != 9 {
			b.t.Errorf("%d lost, want 9", s.Lost)
		}
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
	if err = cmp.Or(err, deleted[topic][0].Err); err != nil {
		b.t.Fatalf("delete records: %v", err)
	}
}

// A topic made anew begins below the position. What was delivered of the old
// one must not finish offsets of the new.
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
	if p := f.partitions[0].offset(); p != 0 {
		t.Errorf("position %d: an old completion finished a new message", p)
	}
	first.Done()
	b.next(f, 101).Done()
	b.await("position 2", func() bool { return b.committed(topic, topic) == 2 })
	if b.log.count("ERROR", "made anew") != 1 {
		t.Errorf("not one line about the new topic:\n%s", b.log)
	}
}

func TestFeedReportsLagAndDelay(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	var delays []time.Duration
	f := b.cluster().NewFeed(FeedConfig{Topic: topic, Delay: func(d time.Duration) { delays = append(delays, d) }})
	defer f.Close(b.ctx())
	if lag := f.Stats().Lag(); lag != 0 {
		t.Errorf("lag %d before anything was read", lag)
	}
	old := &kgo.Record{Topic: topic, Value: []byte(message(0)), Timestamp: time.Now().Add(-time.Hour)}
	b.must(b.peer.ProduceSync(b.ctx(), old).FirstErr())
	b.put(topic, messages(1, 4)...)
	b.next(f, 0)
	if lag := f.Stats().Lag(); lag < 0 || lag > 3 {
		t.Errorf("lag %d with 3 messages behind", lag)
	}
	b.nexts(f, 1, 4)
	if lag := f.Stats().Lag(); lag != 0 {
		t.Errorf("lag %d with all read", lag)
	}
	if len(delays) != 4 || delays[0] < time.Hour || delays[1] > time.Hour || delays[1] < 0 {
		t.Errorf("delays %v", delays)
	}
}
