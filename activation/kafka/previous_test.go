package kafka

import (
	"context"
	"testing"
	"time"

	wire "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// never is longer than a test lasts.
const never = time.Hour

func ping(enabled bool, id int) string {
	i := invoker0()
	i.ID = id
	return string(activation.Ping{Instance: i, Enabled: enabled}.Encode())
}

// previousOf starts the wait of a younger process.
func (b *fixture) previousOf(cfg PreviousConfig) (seen chan string, ended chan error, giveUp func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	b.t.Cleanup(cancel)
	seen, ended = make(chan string, 10), make(chan error, 1)
	cfg.Instance, cfg.Seen = invoker0(), func(name string) { seen <- name }
	c := b.cluster()
	go func() { ended <- c.AwaitPredecessor(ctx, cfg) }()
	return seen, ended, cancel
}

// pingAs sends two pings of a process.
func (b *fixture) pingAs(process, topic string) {
	b.t.Helper()
	r := &kgo.Record{Topic: topic, Value: []byte(ping(true, 0)), Headers: []kgo.RecordHeader{{Key: processHeader, Value: []byte(process)}}}
	again := *r
	b.must(b.peer.ProduceSync(b.ctx(), r, &again).FirstErr())
}

// TestDamagedNameOfADeadProcess: a part of the dead process' name matches no process, so its
// pings must become too old.
func TestDamagedNameOfADeadProcess(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	b.pingAs("THEM", topic)
	b.put(topic, ping(true, 0)) // of the original, which has no name
	for _, name := range []string{"", "THE", "THEN", "THEM\n", "THEMTHEM", "\xff"} {
		p := previous{
			PreviousConfig: PreviousConfig{Topic: topic, Dead: name, Fresh: never},
			log:            b.log.logger(), pings: healthReader{partitionReader: b.cluster().reader(topic, 0, 1, 1<<20, previousPause)},
		}
		b.must(p.poll(b.ctx()))
		check.That(t, !p.gone(time.Now()), "%q: takes a process that may live for dead", name)
		p.pings.close()
	}
}

// A process that is alone starts at once: also after a goodbye, after pings of others, and
// where pings are known to be those of a process that ended.
func TestNoPreviousNoWait(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		for _, c := range []struct {
			name  string
			pings []string
			dead  string // who sends two more
		}{
			{"empty topic", nil, ""},
			{"goodbye", []string{ping(true, 0), ping(false, 0)}, ""},
			{"others", []string{ping(true, 1), ping(true, 2), "noise"}, ""},
			{"our dead", nil, "them"},
			{"the process for which our dead process had waited", []string{ping(true, 0)}, "them"},
		} {
			topic := b.topic()
			if c.pings != nil {
				b.put(topic, c.pings...)
			}
			if c.dead != "" {
				b.pingAs(c.dead, topic)
			}
			seen, ended, _ := b.previousOf(PreviousConfig{Topic: topic, Dead: c.dead, Fresh: never, Silence: never})
			select {
			case err := <-ended:
				check.NoError(b.t, err, "%s, %d processes", c.name, len(seen))
				check.Equal(b.t, len(seen), 0, "%s", c.name)
			case <-time.After(testTimeout):
				b.t.Fatalf("%s: waits for no process\n%s", c.name, b.log)
			}
		}
		_, ended, _ := b.previousOf(PreviousConfig{Topic: freshName(), Fresh: never, Silence: never})
		if err := <-ended; err != nil {
			b.t.Errorf("no topic: %v", err)
		}
	})
}

// A ping that is no longer fresh is no process; the last one of a process that was
// killed delays the start until it is no longer fresh, and is no process that lives.
func TestKilledPreviousIsNotWaitedFor(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic()
		old := &kgo.Record{Topic: topic, Value: []byte(ping(true, 0)), Timestamp: time.Now().Add(-time.Minute)}
		b.must(b.peer.ProduceSync(b.ctx(), old).FirstErr())
		seen, ended, _ := b.previousOf(PreviousConfig{Topic: topic, Fresh: 30 * time.Second, Silence: never})
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
		b.put(topic, ping(true, 0))
		_, ended, _ = b.previousOf(PreviousConfig{Topic: topic, Fresh: 300 * time.Millisecond, Silence: never})
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
		check.Equal(b.t, len(seen), 0, "a process was seen:\n%s", b.log)
		check.Equal(b.t, b.log.count("another process"), 0, "a process was seen:\n%s", b.log)
	})
}

// A previous process that is alive is waited for until its goodbye message.
func TestPreviousIsWaitedFor(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic()
		first := b.pinger(PingerConfig{Topic: topic, Instance: invoker0()})
		b.take(topic, 1)
		seen, ended, _ := b.previousOf(PreviousConfig{Topic: topic, Fresh: never, Silence: never})
		select {
		case name := <-seen:
			check.Equal(b.t, name, "invoker0/invoker0/invoker0", "the previous process is called")
		case err := <-ended:
			b.t.Fatalf("did not wait: %v", err)
		}
		sent := first.Status().Sent
		b.await("more pings", func() bool { return first.Status().Sent > sent+5 })
		select {
		case err := <-ended:
			b.t.Fatalf("started beside the previous process: %v", err)
		default:
		}
		b.must(first.Disable(b.ctx()))
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
		check.Equal(b.t, b.log.count("WARN", "another process", "alive"), 1, "not one line each:\n%s", b.log)
		check.Equal(b.t, b.log.count("the other process", "gone"), 1, "not one line each:\n%s", b.log)
	})
}

// A previous process that falls silent without a goodbye is awaited only for the silence
// period. A stop ends the wait.
func TestPreviousFallsSilent(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topicOf(ping(true, 0))
	first := b.pinger(PingerConfig{Topic: topic, Instance: invoker0()})
	_, stopped, giveUp := b.previousOf(PreviousConfig{Topic: topic, Fresh: never, Silence: never})
	seen, ended, _ := b.previousOf(PreviousConfig{Topic: topic, Fresh: never, Silence: 300 * time.Millisecond})
	check.Receive(t, seen)
	first.Close()
	check.NoError(t, check.Receive(t, ended))
	giveUp()
	check.ErrorIs(t, check.Receive(t, stopped), context.Canceled)
}

// While the broker is away it is not known whether the previous process is silent.
func TestPreviousBehindAnInterruption(t *testing.T) {
	r := fakeRestartable(t)
	r.start()
	b := newFixture(t, nil, r.addr)
	topic := freshName()
	b.create(topic)
	first := b.pinger(PingerConfig{Topic: topic, Instance: invoker0()})
	b.take(topic, 1)
	seen, ended, _ := b.previousOf(PreviousConfig{Topic: topic, Fresh: never, Silence: never})
	check.Receive(t, seen)
	r.stop()
	b.await("an interruption", func() bool { return b.log.count("looking for another process", "interrupted") == 1 })
	select {
	case err := <-ended:
		t.Fatalf("took an interruption for silence: %v", err)
	default:
	}
	r.start()
	b.await("pings", func() bool { return first.Status().Interrupted == "" })
	b.must(first.Disable(b.ctx()))
	check.NoError(t, check.Receive(t, ended))
	now := time.Now()
	e := previous{PreviousConfig: PreviousConfig{Fresh: time.Second, Silence: time.Minute}, alive: true, last: now.Add(-time.Hour)}
	check.That(t, e.gone(now), "an hour of silence is not enough")
	if e.interrupted(); e.gone(now) {
		t.Error("took an interruption for silence")
	}
}

// A clock that is stepped back while we wait must not have us wait for as long:
// the time of the last ping is that of the wall clock only when it is read.
func TestPreviousIsTimedByNoWallClock(t *testing.T) {
	began := time.Now()
	for _, sent := range []time.Time{began.Add(-time.Second), began.Add(time.Hour)} {
		e := previous{PreviousConfig: PreviousConfig{Fresh: 2 * time.Second}}
		e.found(receivedPing{activation.Ping{Enabled: true}, record{time: sent.Round(0)}})
		if e.last == e.last.Round(0) { //nolint:staticcheck // Equal ignores the monotonic clock
			t.Errorf("ping of %s: %s is of the wall clock alone", sent, e.last)
		}
		check.That(t, !e.gone(began), "ping of %s: waited for until %s", sent, e.last)
		check.That(t, e.gone(began.Add(never)), "ping of %s: waited for until %s", sent, e.last)
	}
}

// A log that ends before the place where its end was a moment ago, as after an
// unclean election, holds no start up.
func TestPreviousInALogThatWasCut(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topicOf(ping(true, 1), ping(true, 2))
	b.fake.ControlKey(kmsg.ListOffsets.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		asked := req.(*kmsg.ListOffsetsRequest)
		offset := int64(0) // of the first that is fresh
		if asked.Topics[0].Partitions[0].Timestamp == wire.LastOffset {
			offset = 7
		}
		p := kmsg.NewListOffsetsResponseTopicPartition()
		p.Offset, p.OldStyleOffsets = offset, []int64{offset}
		of := kmsg.NewListOffsetsResponseTopic()
		of.Topic, of.Partitions = topic, append(of.Partitions, p)
		res := asked.ResponseKind().(*kmsg.ListOffsetsResponse)
		res.Topics = append(res.Topics, of)
		return res, nil, true
	})
	_, ended, _ := b.previousOf(PreviousConfig{Topic: topic, Fresh: never, Silence: never})
	select {
	case err := <-ended:
		check.NoError(t, err)
	case <-time.After(testTimeout):
		t.Fatalf("waits for records that are gone\n%s", b.log)
	}
}
