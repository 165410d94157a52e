package kafka

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestCoordinatorMoves(t *testing.T) {
	b := newFakeFixture(t, kfake.NumBrokers(3))
	topic := b.topic()
	f := b.feed(topic)
	b.put(topic, messages(0, 2)...)
	b.next(f, 0).Done()
	b.await("position 1", func() bool { return b.committed(topic, topic) == 1 })
	b.fake.ControlKey(kmsg.OffsetCommit.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		return refuseCommit(req, kerr.NotCoordinator.Code), nil, true
	})
	b.next(f, 1).Done()
	b.await("position 2", func() bool { return b.committed(topic, topic) == 2 })
}

// A completion after an idle period is committed at once. Otherwise a killed invoker would run
// the last activation again each time. Completions that follow soon after are committed
// together.
func TestFirstCommitGoesOutAtOnce(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	f := b.cluster().NewFeed(FeedConfig{Topic: topic, CommitEvery: time.Hour})
	defer f.Close(b.ctx())
	commits := b.countRequests(kmsg.OffsetCommit)
	b.put(topic, messages(0, 5)...)
	b.next(f, 0).Done()
	b.await("position 1", func() bool { return b.committed(topic, topic) == 1 })
	done(b.nexts(f, 1, 5))
	b.must(f.Close(b.ctx()))
	b.position(topic, 5)
	check.Equal(t, commits(), 2)
}

// A commit that is under way when the feed closes must not reach the broker
// behind the last one: its position is older.
func TestCloseWaitsForTheCommitUnderWay(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	f := b.feed(topic)
	b.put(topic, messages(0, 2)...)
	came, another, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var commits atomic.Int32
	b.fake.ControlKey(kmsg.OffsetCommit.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		switch commits.Add(1) {
		case 1:
			close(came)
			b.fake.SleepControl(func() { <-release })
		case 2:
			close(another)
		}
		return nil, nil, false
	})
	first, second := b.next(f, 0), b.next(f, 1)
	first.Done()
	check.Receive(t, came)
	second.Done()
	closed := make(chan error, 1)
	go func() { closed <- f.Close(b.ctx()) }()
	_, err := f.Next(b.ctx())
	check.ErrorIs(check.Must(t), err, ErrClosed)
	select { // nothing comes while all is well: the time only gives a fault its chance
	case <-another:
		t.Error("a second commit went out before the first was answered")
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	b.must(check.Receive(t, closed))
	b.position(topic, 2)
}

func refuseCommit(req kmsg.Request, code int16) kmsg.Response {
	res := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		res.Topics = append(res.Topics, rt)
	}
	return res
}

// A commit names no leader epoch: the original would take an old one for a
// log that was truncated, and begin anew.
func TestCommitHasNoLeaderEpoch(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	epochs := make(chan int32, 100)
	b.fake.ControlKey(kmsg.OffsetCommit.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		epochs <- req.(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0].LeaderEpoch
		return nil, nil, false
	})
	b.put(topic, message(0))
	b.next(b.feed(topic), 0).Done()
	check.Equal(t, check.Receive(t, epochs), -1, "the epoch")
}
