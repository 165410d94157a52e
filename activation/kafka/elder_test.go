package kafka

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// never is longer than a test lasts.
const never = time.Hour

func said(enabled bool, id int) string {
	i := invoker0()
	i.ID = id
	return string(activation.Ping{Instance: i, Enabled: enabled}.Encode())
}

// elderOf starts the wait of a younger process.
func (b *bed) elderOf(cfg ElderConfig) (seen chan string, ended chan error, giveUp func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	b.t.Cleanup(cancel)
	seen, ended = make(chan string, 10), make(chan error, 1)
	cfg.Instance, cfg.Seen = invoker0(), func(name string) { seen <- name }
	c := b.cluster()
	go func() { ended <- c.AwaitElder(ctx, cfg) }()
	return seen, ended, cancel
}

// Who is alone starts at once: also after a goodbye, after pings of others, and
// where pings are known to be those of a process that ended.
func TestNoElderNoWait(t *testing.T) {
	onEachBroker(t, func(b *bed) {
		for _, c := range []struct {
			name  string
			pings []string
			past  int64
		}{
			{"empty topic", nil, 0},
			{"goodbye", []string{said(true, 0), said(false, 0)}, 0},
			{"others", []string{said(true, 1), said(true, 2), "noise"}, 0},
			{"our dead", []string{said(true, 0), said(true, 0)}, 2},
		} {
			topic := b.topic()
			if c.pings != nil {
				b.put(topic, c.pings...)
			}
			seen, ended, _ := b.elderOf(ElderConfig{Topic: topic, Past: c.past, Fresh: never, Silence: never})
			select {
			case err := <-ended:
				if err != nil || len(seen) != 0 {
					b.t.Errorf("%s: %v, %d elders", c.name, err, len(seen))
				}
			case <-time.After(patience):
				b.t.Fatalf("%s: waits for nobody\n%s", c.name, b.log)
			}
		}
		_, ended, _ := b.elderOf(ElderConfig{Topic: freshName(), Fresh: never, Silence: never})
		if err := <-ended; err != nil {
			b.t.Errorf("no topic: %v", err)
		}
	})
}

// A ping that is no longer fresh is nobody; the last one of a process that was
// killed delays the start until it is no longer fresh, and is no elder.
func TestKilledElderIsNotWaitedFor(t *testing.T) {
	onEachBroker(t, func(b *bed) {
		topic := b.topic()
		old := &kgo.Record{Topic: topic, Value: []byte(said(true, 0)), Timestamp: time.Now().Add(-time.Minute)}
		if err := b.peer.ProduceSync(b.ctx(), old).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
		seen, ended, _ := b.elderOf(ElderConfig{Topic: topic, Fresh: 30 * time.Second, Silence: never})
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
		b.put(topic, said(true, 0))
		_, ended, _ = b.elderOf(ElderConfig{Topic: topic, Fresh: 300 * time.Millisecond, Silence: never})
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
		if len(seen) != 0 || b.log.count("another process") != 0 {
			b.t.Errorf("an elder was seen:\n%s", b.log)
		}
	})
}

// An elder that is alive is waited for until it says goodbye.
func TestElderIsWaitedFor(t *testing.T) {
	onEachBroker(t, func(b *bed) {
		topic := b.topic()
		first := b.pinger(PingerConfig{Topic: topic, Instance: invoker0()})
		b.take(topic, 1)
		seen, ended, _ := b.elderOf(ElderConfig{Topic: topic, Fresh: never, Silence: never})
		select {
		case name := <-seen:
			if name != "invoker0/invoker0/invoker0" {
				b.t.Errorf("the elder is called %q", name)
			}
		case err := <-ended:
			b.t.Fatalf("did not wait: %v", err)
		}
		sent := first.Status().Sent
		b.await("more pings", func() bool { return first.Status().Sent > sent+5 })
		select {
		case err := <-ended:
			b.t.Fatalf("started beside the elder: %v", err)
		default:
		}
		if err := first.Disable(b.ctx()); err != nil {
			b.t.Fatal(err)
		}
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
		if b.log.count("WARN", "another process", "alive") != 1 || b.log.count("the other process", "gone") != 1 {
			b.t.Errorf("not one line each:\n%s", b.log)
		}
	})
}

// An elder that falls silent without a goodbye is waited for no longer than
// that; who is told to stop meanwhile stops.
func TestElderFallsSilent(t *testing.T) {
	b := newFakeBed(t)
	topic := b.topic()
	b.put(topic, said(true, 0))
	first := b.pinger(PingerConfig{Topic: topic, Instance: invoker0()})
	_, stopped, giveUp := b.elderOf(ElderConfig{Topic: topic, Fresh: never, Silence: never})
	seen, ended, _ := b.elderOf(ElderConfig{Topic: topic, Fresh: never, Silence: 300 * time.Millisecond})
	<-seen
	first.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	giveUp()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("told to stop: %v", err)
	}
}

// While the broker is away nobody knows whether the elder is silent.
func TestElderBehindAnOutage(t *testing.T) {
	r := fakeRestartable(t)
	r.start()
	b := newBed(t, nil, r.addr)
	topic := freshName()
	b.create(topic)
	first := b.pinger(PingerConfig{Topic: topic, Instance: invoker0()})
	b.take(topic, 1)
	seen, ended, _ := b.elderOf(ElderConfig{Topic: topic, Fresh: never, Silence: never})
	<-seen
	r.stop()
	b.await("an outage", func() bool { return b.log.count("looking for another process", "interrupted") == 1 })
	select {
	case err := <-ended:
		t.Fatalf("took an outage for silence: %v", err)
	default:
	}
	r.start()
	b.await("pings", func() bool { return first.Status().Interrupted == "" })
	if err := first.Disable(b.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	now := time.Now()
	e := elder{ElderConfig: ElderConfig{Fresh: time.Second, Silence: time.Minute}, alive: true, last: now.Add(-time.Hour)}
	if !e.gone(now) {
		t.Error("an hour of silence is not enough")
	}
	if e.heard(); e.gone(now) {
		t.Error("took an outage for silence")
	}
}

// A clock that is stepped back while we wait must not have us wait for as long:
// the time of the last ping is that of the wall clock only when it is read.
func TestElderIsTimedByNoWallClock(t *testing.T) {
	began := time.Now()
	for _, sent := range []time.Time{began.Add(-time.Second), began.Add(time.Hour)} {
		e := elder{ElderConfig: ElderConfig{Fresh: 2 * time.Second}}
		e.before(activation.Ping{Enabled: true}, sent.Round(0))
		if e.last == e.last.Round(0) { //nolint:staticcheck // Equal does not see what is of the wall clock alone
			t.Errorf("ping of %s: %s is of the wall clock alone", sent, e.last)
		}
		if e.gone(began) || !e.gone(began.Add(never)) {
			t.Errorf("ping of %s: waited for until %s", sent, e.last)
		}
	}
}

// A log that ends before the place where its end was a moment ago, as after an
// unclean election, holds no start up.
func TestElderInALogThatWasCut(t *testing.T) {
	b := newFakeBed(t)
	topic := b.topic()
	b.put(topic, said(true, 1), said(true, 2))
	b.fake.ControlKey(kmsg.ListOffsets.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		asked := req.(*kmsg.ListOffsetsRequest)
		offset := int64(0) // of the first that is fresh
		if asked.Topics[0].Partitions[0].Timestamp == logEnd {
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
	_, ended, _ := b.elderOf(ElderConfig{Topic: topic, Fresh: never, Silence: never})
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatalf("waits for records that are gone\n%s", b.log)
	}
}
