package kafka

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// recreate creates a topic anew with the first records of the old one and the same timestamps,
// like a broker that lost the rest.
func (b *fixture) recreate(topic string, keep int) {
	b.t.Helper()
	var kept = b.take(topic, max(keep, 1))[:keep]
	_, err := b.admin().DeleteTopic(b.ctx(), topic)
	check.NoError(b.t, err)
	if b.fake == nil { // a real broker answers first and deletes afterwards
		b.await("the broker to forget topic "+topic, func() bool { return !b.knows(topic) })
	}
	b.create(topic)
	b.peer = b.client() // the other one remembers the old topic
	for _, r := range slices.Clone(kept) {
		again := *r
		again.Offset = 0
		b.must(b.peer.ProduceSync(b.ctx(), &again).FirstErr())
	}
}

// The log ends below the last record read, or has other records there. The feed continues
// where the log diverged: no completed activation runs again, and no new one is missed.
func TestFeedResumesWhereTheLogWasTruncated(t *testing.T) {
	for name, more := range map[string]int{"ends below": 1, "has grown past": 9} {
		t.Run(name, func(t *testing.T) {
			onEachBroker(t, func(b *fixture) {
				topic := b.topicOf(messages(0, 10)...)
				f := b.feed(topic)
				for n := range 10 {
					if d := b.next(f, n); n != 3 {
						d.Done()
					}
				}
				b.must(f.Close(b.ctx()))
				offset, text := b.committedMetadata(topic, topic)
				b.recreate(topic, 6)
				b.commit(topic, topic, offset, text) // a broker forgets positions in topics that are deleted
				b.later(topic, messages(100, 100+more)...)
				f = b.feed(topic)
				b.next(f, 3).Done()
				done(b.nexts(f, 100, 100+more))
				b.await("the new position", func() bool { return b.committed(topic, topic) == int64(6+more) })
				n := b.log.count("ERROR", "log was truncated below the last read activation")
				check.Equal(b.t, n, 1, "%d lines about it, want 1:\n%s", n, b.log)
			})
		})
	}
}

// TestOffsetAboveTheLog: an offset that the original committed above the end of a
// truncated log means that all of the log was read.
func TestOffsetAboveTheLog(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topicOf(messages(0, 4)...)
		b.commit(topic, topic, 10)
		f := b.feed(topic)
		first := b.nextLater(f)
		b.await("the end of the log", func() bool {
			return b.log.count("ERROR", "log was truncated below the last read activation", "read=10 offset=4") == 1
		})
		b.put(topic, message(4))
		if d := <-first; d.Offset != 4 {
			b.t.Errorf("offset %d is delivered, want 4", d.Offset)
		} else {
			d.Done()
		}
		b.await("the new position", func() bool { return b.committed(topic, topic) == 5 })
	})
}

// TestLogMadeAnewUnderAFeedThatReadNothing: the feed treats every record of the new log as
// unread.
func TestLogMadeAnewUnderAFeedThatReadNothing(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topicOf(messages(0, 4)...)
	b.commit(topic, topic, 4)
	fetched := b.countRequests(kmsg.Fetch)
	f := b.feed(topic)
	first := b.nextLater(f)
	b.await("two fetches", func() bool { return fetched() >= 2 }) // the first was answered
	b.recreate(topic, 0)
	b.put(topic, message(7))
	d := check.Receive(t, first)
	check.Equal(t, d.Offset, 0)
	check.Equal(t, number(d), 7)
}

// later writes values that are younger than all before, as they are when a
// broker that lost its power is back.
func (b *fixture) later(topic string, values ...string) {
	b.t.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: topic, Value: []byte(v), Timestamp: time.Now().Add(time.Second)}
		err := b.peer.ProduceSync(b.ctx(), r).FirstErr()
		check.NoError(b.t, err, "produce to %s", topic)
	}
}

// The log is truncated while activations run. They go on, and their completions complete no
// offset of the new log.
func TestFeedGoesOnWhenTheLogIsTruncatedUnderIt(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topicOf(messages(0, 10)...)
	f := b.feed(topic)
	all := b.nexts(f, 0, 10)
	for n, d := range all {
		if n < 8 && n != 2 {
			d.Done()
		}
	}
	b.saved(f)
	offset, text := b.committedMetadata(topic, topic)
	b.recreate(topic, 6)
	b.commit(topic, topic, offset, text)
	f.partitions[0].reader.close() // the broker was away meanwhile
	b.later(topic, messages(100, 104)...)
	fresh := b.nexts(f, 100, 104)
	for _, d := range all { // 2 is there still, 8 and 9 are not
		d.Done()
	}
	b.await("position 6", func() bool { return b.committed(topic, topic) == 6 })
	check.Equal(t, f.Stats().Open, 4)
	done(fresh)
	b.await("position 10", func() bool { return b.committed(topic, topic) == 10 })
}

// Fetched records that were not handed out are dropped when another log replaces theirs,
// whether the logs diverge below the handed-out records or above them.
func TestFetchedRecordsGoWithTheirLog(t *testing.T) {
	for name, keep := range map[string]int{"below the handed-out records": 3, "within the waiting records": 7} {
		t.Run(name, func(t *testing.T) {
			onEachBroker(t, func(b *fixture) {
				topic := b.topicOf(messages(0, 10)...)
				f := b.cluster().NewFeed(FeedConfig{Topic: topic, LagEvery: time.Hour})
				defer f.Close(b.ctx())
				old := b.nexts(f, 0, 5) // the other five wait, since there is no capacity
				b.recreate(topic, keep)
				b.later(topic, messages(100, 110)...)
				p := f.partitions[0] // which rests for an hour
				p.grown = time.Time{}
				p.measureLag()
				n := b.log.count("ERROR", "log was truncated")
				check.Equal(check.Must(b.t), n, 1, "%d lines about the other log, want 1:\n%s", n, b.log)
				done(old)
				if keep > 5 {
					done(b.nexts(f, 5, keep))
				}
				done(b.nexts(f, 100, 110))
				b.await("the end as position", func() bool { return b.committed(topic, topic) == int64(keep+10) })
			})
		})
	}
}

// The log may become another one between the choice of a record and its delivery.
func TestChosenRecordGoesWithItsLog(t *testing.T) {
	b := newFakeFixture(t)
	f := b.feed(b.topicOf(messages(0, 3)...))
	b.next(f, 0)
	p, first := f.oldest()
	p.cutAt(1)
	d, ok := p.deliver(first)
	check.That(t, !ok, "offset %d is delivered, which is read again", d.Offset)
	b.nexts(f, 1, 3)
}

// A log without the last record that was read is not always truncated: the
// record may have expired.
func TestExpiredRecordsAreNoTruncation(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topicOf(messages(0, 10)...)
		f := b.feed(topic)
		done(b.nexts(f, 0, 5))
		b.must(f.Close(b.ctx()))
		b.deleteBefore(topic, 7)
		f = b.feed(topic)
		b.next(f, 7)
		check.Equal(b.t, f.Stats().Lost, 2)
		check.AtMost(b.t, b.log.count("truncated"), 0, "taken for a truncated log:\n%s", b.log)
	})
}
