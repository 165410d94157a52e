package kafka

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// countRequests counts the requests of one kind that reach the fake.
func (b *fixture) countRequests(key kmsg.Key) func() int64 {
	var n atomic.Int64
	b.fake.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		n.Add(1)
		return nil, nil, false
	})
	return n.Load
}

// restartable is a broker that can go away and come back at the same address
// with the same data.
type restartable struct {
	addr        string
	start, stop func()
}

func fakeRestartable(t *testing.T) *restartable {
	port, dir := peertest.FreePort(t, 11000), t.TempDir()
	var fake *kfake.Cluster
	r := &restartable{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	r.start = func() {
		var err error
		fake, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir), kfake.SyncWrites())
		check.NoError(t, err)
	}
	r.stop = func() {
		if fake != nil {
			fake.Close()
		}
		fake = nil
	}
	t.Cleanup(func() { r.stop() })
	return r
}

// realRestartable is a Kafka of the test's own, by the script that starts the
// shared one.
func realRestartable(t *testing.T) *restartable {
	realBroker(t)
	script, err := os.Stat("../../.ci/peers/kafka.sh")
	if err != nil || script.Mode()&0o100 == 0 {
		peertest.Missing(t, "no .ci/peers/kafka.sh to start a Kafka of one's own")
	}
	dir := t.TempDir()
	r := &restartable{}
	run := func(command string) string {
		cmd := exec.Command("bash", "../../.ci/peers/kafka.sh", command)
		cmd.Env = append(os.Environ(), "GPUWHISK_KAFKA_DIR="+dir+"/kafka", "GPUWHISK_KEEP=1", "GPUWHISK_KAFKA_BRIEF=1")
		var complaints strings.Builder
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		check.NoError(t, err, "kafka.sh %s\n%s", command, complaints.String())
		return string(out)
	}
	r.start = func() {
		for line := range strings.Lines(run("start")) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name == "GPUWHISK_TEST_KAFKA" {
				r.addr = value
			}
		}
	}
	r.stop = func() { run("stop") }
	t.Cleanup(r.stop)
	return r
}

func onEachRestartable(t *testing.T, test func(*testing.T, *restartable)) {
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		test(t, fakeRestartable(t))
	})
	t.Run("kafka", func(t *testing.T) {
		if testing.Short() {
			t.Skip("a Kafka of the test's own takes seconds, and -short is set")
		}
		test(t, realRestartable(t))
	})
}

// A broker that goes away, at start or later: every part waits, logs that once,
// and resumes by itself; nothing is lost and the order stays.
func TestBrokerRestart(t *testing.T) {
	onEachRestartable(t, func(t *testing.T, r *restartable) {
		r.start()
		b := newFixture(t, nil, r.addr)
		in, out := freshName(), freshName()
		c := b.cluster()
		b.must(c.EnsureTopic(b.ctx(), InvokerTopic(in, 1, nil)))
		b.create(out)
		f, p := b.feed(in), b.producer()
		b.put(in, messages(0, 3)...)
		for n := range 3 {
			b.next(f, n).Done()
			b.give(p, out, message(n))
		}
		b.await("the first commit and send", func() bool { return f.Stats().Committed == 3 && p.Stats().Sent == 3 })

		// A broker that was made just now may have had no coordinator yet, nor
		// known the topics.
		read, sent := b.log.count("reading", "interrupted"), b.log.count("sending", "interrupted")
		began := b.log.count("WARN", "interrupted")

		r.stop()
		waiting := b.nextLater(f)
		b.give(p, out, message(3), message(4))
		b.await("all to notice", func() bool {
			return b.log.count("reading", "interrupted") == read+1 && b.log.count("sending", "interrupted") == sent+1
		})
		s := f.Stats()
		check.That(t, s.Interrupted != "", "the feed does not say that it is interrupted: %+v", s)
		check.That(t, !s.Since.IsZero(), "the feed does not say that it is interrupted: %+v", s)
		r.start()
		b.put(in, message(3))
		check.Equal(check.Must(t), number(<-waiting), 3)
		b.must(p.Close(b.ctx()))
		b.has(out, messages(0, 5)...)
		check.Equal(t, b.log.count("reading", "resumed"), read+1, "not one line per change of state:\n%s", b.log)
		check.Equal(t, b.log.count("sending", "resumed"), sent+1, "not one line per change of state:\n%s", b.log)
		check.AtMost(t, b.log.count("WARN", "interrupted"), began+3, "not one line per change of state:\n%s", b.log)
		s = f.Stats()
		check.Equal(t, s.Interrupted, "", "the feed works, yet Interrupted")
		check.That(t, s.Since.IsZero(), "the feed works, yet Interrupted is %q", s.Interrupted)
	})
}

func TestBrokerAwayAtStart(t *testing.T) {
	r := fakeRestartable(t)
	b := newFixture(t, nil, r.addr)
	topic := freshName()
	c := b.cluster()
	// The topic is made some time after the broker is back.
	f, p := b.feed(topic), b.producer()
	ensured := make(chan error)
	go func() { ensured <- c.EnsureTopic(b.ctx(), InvokerTopic(topic, 1, nil)) }()
	got := b.nextLater(f)
	b.give(p, topic, message(9))
	b.await("three parts to notice", func() bool { return b.log.count("WARN", "interrupted") == 3 })
	r.start()
	b.must(check.Receive(t, ensured))
	check.Equal(t, number(check.Receive(t, got)), 9)
	b.await("three parts to resume", func() bool { return b.log.count("resumed") == 3 })
}

// A broker that accepts and never answers must not delay a Close.
func TestUnresponsiveBroker(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	defer silent.Close()
	b := newFixture(t, nil, silent.Addr().String())
	c := b.cluster()
	ctx, cancel := context.WithTimeout(b.ctx(), 50*time.Millisecond)
	defer cancel()
	f, p := b.feed("a"), b.producer()
	pinger := c.NewPinger(PingerConfig{Topic: "health", Every: time.Millisecond})
	b.give(p, "b", "x")
	_, err = f.Next(ctx)
	check.ErrorIs(t, err, context.DeadlineExceeded)
	check.ErrorIs(t, c.EnsureTopic(ctx, TopicSpec{Name: "c"}), context.DeadlineExceeded)
	check.That(t, p.Close(ctx) != nil, "Close of a producer that sent nothing reports nothing")
	check.NoError(t, f.Close(ctx), "Close of a feed that read nothing")
	pinger.Close()
}

// When the partition moves to another broker, reading and sending follow.
func TestLeaderMoves(t *testing.T) {
	b := newFakeFixture(t, kfake.NumBrokers(3))
	in, out := b.topic(), b.topic()
	f, p := b.feed(in), b.producer()
	for n := range 9 {
		for _, topic := range []string{in, out} {
			b.must(b.fake.MoveTopicPartition(topic, 0, int32(n%3)))
		}
		b.put(in, message(n))
		b.next(f, n).Done()
		b.give(p, out, message(n))
	}
	b.must(p.Close(b.ctx()))
	b.has(out, messages(0, 9)...)
}

// A stock invoker that was killed is a member of the group until its session
// ends. Reading starts at once all the same; the position follows then.
func TestDeadMemberHoldsTheGroup(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topicOf(messages(0, 3)...)
		b.commit(topic, topic, 1)
		die := b.join(topic)
		f := b.feed(topic)
		b.next(f, 1).Done()
		b.next(f, 2).Done()
		b.await("the refused commit", func() bool { return f.Stats().CommitFailing != "" })
		b.position(topic, 1)
		die()
		b.put(topic, message(3))
		b.next(f, 3).Done()
		b.await("the commit after the session", func() bool { return b.committed(topic, topic) == 4 })
		n := b.log.count("WARN", "still has a member")
		check.Equal(b.t, n, 1, "%d lines about the member, want 1:\n%s", n, b.log)
	})
}

// join makes a member of the group that sends heartbeats until die is called. It
// is a static one, which does not leave at its end: its session ends some time
// after.
func (b *fixture) join(group string) (die func()) {
	b.t.Helper()
	session := 6 * time.Second
	if b.fake != nil {
		session /= 2
	}
	joined := make(chan struct{}, 1)
	cl := b.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(group), kgo.DisableAutoCommit(), kgo.InstanceID("dead"),
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { signal(joined) }))
	<-joined
	return cl.Close
}

// A stock consumer resumes at the position that we commit.
func TestStockConsumerResumesOurPosition(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topicOf(messages(0, 5)...)
		f := b.feed(topic)
		b.next(f, 0).Done()
		b.next(f, 1).Done()
		b.must(f.Close(b.ctx()))
		stock := b.client(kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.Balancers(kgo.RangeBalancer()))
		defer stock.Close()
		got := stock.PollRecords(b.ctx(), 1).Records()
		check.Equal(check.Must(b.t), len(got), 1, "a group member resumes")
		check.Equal(b.t, got[0].Offset, 2, "a group member resumes")
	})
}
