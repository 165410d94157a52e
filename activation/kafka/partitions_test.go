package kafka

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// putTo writes values to one partition of a topic.
func (b *fixture) putTo(topic string, partition int32, values ...string) {
	b.t.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}
		err := b.peer.ProduceSync(b.ctx(), r).FirstErr()
		check.NoError(b.t, err, "produce to partition %d of %s", partition, topic)
	}
}

// takeAll takes so many deliveries and sorts them by their partition.
func (b *fixture) takeAll(f *Feed, n int) map[int32][]Delivery {
	b.t.Helper()
	all := map[int32][]Delivery{}
	for range n {
		d, err := f.Next(b.ctx())
		check.NoError(b.t, err, "\nlog:\n%s", b.log)
		all[d.Partition] = append(all[d.Partition], d)
	}
	return all
}

func numbers(all []Delivery) (ns []int) {
	for _, d := range all {
		ns = append(ns, number(d))
	}
	return ns
}

func upTo(from, to int) (ns []int) {
	for n := from; n < to; n++ {
		ns = append(ns, n)
	}
	return ns
}

// All partitions of a topic are read, the messages of each in order. Each partition has its
// own position. The lag is the sum over all partitions.
func TestFeedReadsAllPartitions(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.wideTopic(3)
		for p := range int32(3) {
			b.putTo(topic, p, messages(100*int(p), 100*int(p)+10)...)
		}
		f := b.feed(topic)
		all := b.takeAll(f, 30)
		for p := range int32(3) {
			got, want := numbers(all[p]), upTo(100*int(p), 100*int(p)+10)
			check.EqualSlices(b.t, got, want, "partition %d", p)
			for n, d := range all[p] {
				if n != int(p) { // one of each stays open, another one in each
					d.Done()
				}
			}
		}
		b.must(f.Close(b.ctx()))
		f = b.feed(topic)
		all = b.takeAll(f, 3)
		for p := range int32(3) {
			got, want := numbers(all[p]), []int{101 * int(p)}
			check.EqualSlices(b.t, got, want, "partition %d", p)
		}
		for p := range int32(3) {
			b.putTo(topic, p, messages(1000+int(p), 1001+int(p))...)
		}
		b.takeAll(f, 3)
		s := f.Stats()
		check.Equal(check.Must(b.t), len(s.Partitions), 3)
		check.Equal(b.t, s.Open, 6)
		check.Equal(b.t, s.Position, 11)
		check.Equal(b.t, s.Partitions[2].Committed, 2)
		check.Equal(b.t, s.Lag(), 0)
	})
}

// Without capacity nothing is fetched. The lag matters most then, so the feed asks only for
// the ends of all partitions.
func TestFeedSumsTheLagWhileItDoesNotPull(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.wideTopic(2)
		b.putTo(topic, 0, message(0))
		b.putTo(topic, 1, message(1))
		f := b.cluster().NewFeed(FeedConfig{Topic: topic, LagEvery: 5 * time.Millisecond})
		defer f.Close(b.ctx())
		b.takeAll(f, 2)
		b.putTo(topic, 0, messages(2, 5)...)
		b.putTo(topic, 1, messages(5, 9)...)
		b.await("a lag of 7", func() bool { return f.Stats().Lag() == 7 })
	})
}

// A topic may get more partitions while it is read.
func TestFeedFindsNewPartitions(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic()
		f := b.cluster().NewFeed(FeedConfig{Topic: topic, LagEvery: 5 * time.Millisecond})
		defer f.Close(b.ctx())
		b.put(topic, message(0))
		b.next(f, 0).Done()
		wider, err := b.admin().UpdatePartitions(b.ctx(), 2, topic)
		err = cmp.Or(err, wider[topic].Err)
		check.NoError(b.t, err, "create partitions")
		b.peer = b.client()
		b.await("the new partition to take messages", func() bool {
			b.peer.ForceMetadataRefresh() // cached metadata may be minutes old
			return b.peer.ProduceSync(b.ctx(), &kgo.Record{Topic: topic, Partition: 1, Value: []byte(message(1))}).FirstErr() == nil
		})
		check.Equal(b.t, b.next(f, 1).Partition, 1, "message 1 is of partition")
	})
}

// One partition whose leader is away does not hold up the others.
func TestFeedReadsOnWhileAPartitionIsAway(t *testing.T) {
	b := newFakeFixture(t, kfake.NumBrokers(2))
	topic := b.wideTopic(2)
	b.must(b.fake.MoveTopicPartition(topic, 0, 0))
	b.must(b.fake.MoveTopicPartition(topic, 1, 1))
	b.fake.ControlKey(kmsg.Fetch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		if req.(*kmsg.FetchRequest).Topics[0].Partitions[0].Partition == 0 {
			return nil, context.DeadlineExceeded, true // the connection breaks
		}
		return nil, nil, false
	})
	b.putTo(topic, 1, messages(0, 5)...)
	f := b.feed(topic)
	done(b.nexts(f, 0, 5))
	b.await("the feed to report it", func() bool { return f.Stats().Interrupted != "" })
	s := f.Stats()
	check.That(t, s.Since.IsZero(), "one partition can be read, and reading counts as away since %s", s.Since)
}
