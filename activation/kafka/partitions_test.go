package kafka

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// putTo writes values to one partition of a topic.
func (b *fixture) putTo(topic string, partition int32, values ...string) {
	b.t.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}
		if err := b.peer.ProduceSync(b.ctx(), r).FirstErr(); err != nil {
			b.t.Fatalf("produce to partition %d of %s: %v", partition, topic, err)
		}
	}
}

// takeAll takes so many deliveries and sorts them by their partition.
func (b *fixture) takeAll(f *Feed, n int) map[int32][]Delivery {
	b.t.Helper()
	all := map[int32][]Delivery{}
	for range n {
		d, err := f.Next(b.ctx())
		if err != nil {
			b.t.Fatalf("%v\nlog:\n%s", err, b.log)
		}
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

// All partitions of a topic are read, the messages of each in order; each has a
// position of its own, and what waits in all of them is the lag.
func TestFeedReadsAllPartitions(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.wideTopic(3)
		for p := range int32(3) {
			b.putTo(topic, p, messages(100*int(p), 100*int(p)+10)...)
		}
		f := b.feed(topic)
		all := b.takeAll(f, 30)
		for p := range int32(3) {
			if got, want := numbers(all[p]), upTo(100*int(p), 100*int(p)+10); !slices.Equal(got, want) {
				b.t.Errorf("partition %d: %v, want %v", p, got, want)
			}
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
			if got, want := numbers(all[p]), []int{101 * int(p)}; !slices.Equal(got, want) {
				b.t.Errorf("partition %d: %v came again, want %v", p, got, want)
			}
		}
		for p := range int32(3) {
			b.putTo(topic, p, messages(1000+int(p), 1001+int(p))...)
		}
		b.takeAll(f, 3)
		s := f.Stats()
		if len(s.Partitions) != 3 || s.Open != 6 || s.Position != 11 || s.Partitions[2].Committed != 2 || s.Lag() != 0 {
			b.t.Errorf("stats %+v", s)
		}
	})
}

// While there is no capacity nothing is fetched, and the lag is what matters most:
// then the ends of all partitions are asked for alone.
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
		if err = cmp.Or(err, wider[topic].Err); err != nil {
			b.t.Fatalf("create partitions: %v", err)
		}
		b.peer = b.client()
		b.await("the new partition to take messages", func() bool {
			b.peer.ForceMetadataRefresh() // what it has may be from before, and is kept for minutes
			return b.peer.ProduceSync(b.ctx(), &kgo.Record{Topic: topic, Partition: 1, Value: []byte(message(1))}).FirstErr() == nil
		})
		if d := b.next(f, 1); d.Partition != 1 {
			b.t.Errorf("message 1 is of partition %d", d.Partition)
		}
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
	if s := f.Stats(); !s.Since.IsZero() {
		t.Errorf("one partition can be read, and reading counts as away since %s", s.Since)
	}
}
