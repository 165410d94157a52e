package kafka

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	wire "github.com/segmentio/kafka-go"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func invoker0() activation.Instance {
	return activation.Instance{ID: 0, UniqueName: "invoker0", DisplayedName: "invoker0", UserMemory: 2147483648}
}

// pinger starts a pinger that the test closes at its end.
func (b *fixture) pinger(cfg PingerConfig) *Pinger {
	b.t.Helper()
	if cfg.Every == 0 {
		cfg.Every = 10 * time.Millisecond
	}
	p := b.cluster().NewPinger(cfg)
	b.t.Cleanup(p.Close)
	return p
}

// capturedPing is a ping of the original, byte for byte.
func capturedPing(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../testdata/golden/topics/health.examples.txt")
	check.NoError(t, err)
	_, raw, _ := strings.Cut(string(data), "raw:")
	raw, _, _ = strings.Cut(raw, "\n")
	return strings.TrimSpace(raw)
}

func TestPingsAreThoseOfTheOriginal(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic()
		b.pinger(PingerConfig{Topic: topic, Instance: invoker0()})
		want := capturedPing(b.t)
		for _, r := range b.take(topic, 3) {
			check.Equal(check.Must(b.t), string(r.Value), want)
			check.That(check.Must(b.t), r.Key == nil, "ping %s\nwant %s", r.Value, want)
		}
	})
}

// The first ping goes out at once, whatever the interval.
func TestFirstPingDoesNotWait(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	p := b.pinger(PingerConfig{Topic: topic, Instance: invoker0(), Every: time.Hour})
	b.take(topic, 1)
	b.must(p.Enable(b.ctx()))
	for range 3 { // the broker already has these records and gets them no second time
		b.must(p.Enable(b.ctx()))
	}
	s := p.Status()
	check.That(check.Must(t), s.Enabled, "status %+v", s)
	check.Equal(t, s.Sent, 1)
	check.AtMost(t, time.Since(s.Last), testTimeout)
	p.Close()
	check.Equal(t, b.end(topic), 1)
}

// Disabled is sent once, and then nothing until it is enabled again.
func TestDisabledIsSentOnce(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic()
		p := b.pinger(PingerConfig{Topic: topic, Instance: invoker0()})
		b.take(topic, 2)
		for range 2 {
			b.must(p.Disable(b.ctx()))
		}
		sent := b.end(topic)
		last := b.take(topic, int(sent))[sent-1].Value
		check.Contains(check.Must(b.t), string(last), `"isEnabled":false`, "the last ping")
		b.must(p.Enable(b.ctx()))
		for i, r := range b.take(topic, int(sent)+2) {
			enabled := strings.Contains(string(r.Value), `"isEnabled":true`)
			check.That(b.t, enabled != (int64(i) == sent-1), "ping %d of %d is %s", i, sent, r.Value)
		}
	})
}

func TestPingerDisabledFromTheStart(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	p := b.pinger(PingerConfig{Topic: topic, Instance: invoker0(), Disabled: true})
	b.must(p.Disable(b.ctx()))
	check.Contains(t, string(b.take(topic, 1)[0].Value), `"isEnabled":false`)
}

// Pings that could not be sent are not sent later: the next has the same content.
func TestPingsAreNotKept(t *testing.T) {
	r := fakeRestartable(t)
	b := newFixture(t, nil, r.addr)
	topic := freshName()
	p := b.pinger(PingerConfig{Topic: topic, Instance: invoker0(), Every: 5 * time.Millisecond})
	b.await("failing pings", func() bool { return p.Status().Interrupted != "" })
	ctx, cancel := context.WithTimeout(b.ctx(), 50*time.Millisecond)
	defer cancel()
	check.ErrorIs(t, p.Disable(ctx), context.DeadlineExceeded, "Disable without a broker")
	r.start()
	b.create(topic)
	b.await("the disabled ping", func() bool { return p.Status().Sent == 1 })
	check.Equal(t, b.end(topic), 1)
	check.Equal(t, b.log.count("WARN", "sending of pings", "interrupted"), 1, "not one line per change of state:\n%s", b.log)
	check.Equal(t, b.log.count("sending of pings", "resumed"), 1, "not one line per change of state:\n%s", b.log)
	p.Close()
	check.ErrorIs(t, p.Enable(b.ctx()), ErrClosed, "Enable after Close")
}

// Two processes with one id notice each other. A process that ends is forgotten. A process
// with another id does not count.
func TestDuplicateIsNoticed(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		// A duplicate that is silent for ten intervals counts as gone. The interval must be
		// long enough that a busy machine never misses ten of them.
		const every = 200 * time.Millisecond
		topic := b.topic()
		first := b.pinger(PingerConfig{Topic: topic, Instance: invoker0(), Every: every})
		other := invoker0()
		other.ID = 1
		neighbour := b.pinger(PingerConfig{Topic: topic, Instance: other, Every: every})
		duplicate := b.cluster().NewPinger(PingerConfig{Topic: topic, Instance: invoker0(), Every: every})
		b.await("both to notice", func() bool { return first.Status().Duplicate != "" && duplicate.Status().Duplicate != "" })
		check.Equal(b.t, first.Status().Duplicate, "invoker0/invoker0/invoker0", "the duplicate is called")
		check.Equal(b.t, neighbour.Status().Duplicate, "", "invoker 1 takes")
		// A process that misses ten intervals is gone, and it is noticed again later.
		again := b.log.count("INFO", "second process", "is gone")
		n := b.log.count("ERROR", "second process")
		check.AtLeast(b.t, n, 2, "not one line from each:\n%s", b.log)
		check.AtMost(b.t, n, 2+again, "not one line from each:\n%s", b.log)
		duplicate.Close()
		b.put(topic, "noise", "noise", "noise") // which are no pings
		b.await("the duplicate to be forgotten", func() bool { return first.Status().Duplicate == "" })
	})
}

// The duplicate watch counts only other processes. Tested without a broker and without a
// clock.
func TestDuplicateWatchCountsOnlyOthers(t *testing.T) {
	const every = time.Second
	start := time.Unix(1000, 0)
	from := func(process string, n int) (all []receivedPing) {
		for range n {
			all = append(all, receivedPing{activation.Ping{Instance: invoker0(), Enabled: true},
				record{headers: []wire.Header{{Key: "other"}, {Key: processHeader, Value: []byte(process)}}}})
		}
		return all
	}
	original := []receivedPing{{Ping: activation.Ping{Instance: invoker0()}}}
	late := start.Add(duplicateWindow*every + 1)
	for _, c := range []struct {
		name          string
		first, second []receivedPing
		at            time.Time // of the second
		duplicate     bool
	}{
		{"ours", from("us", 9), nil, start, false},
		{"two of a predecessor", from("them", 2), from("us", 9), start, false},
		{"three of another", from("us", 1), from("them", 3), start, true},
		{"three in two answers", from("them", 2), from("them", 1), start, true},
		{"three of the original", slices.Repeat(original, 2), original, start, true},
		{"three in all, too far apart", from("them", 2), from("them", 1), late, false},
		{"three, long ago", from("them", 3), nil, late, false},
	} {
		b := &fixture{t: t, addrs: []string{"127.0.0.1:1"}, log: &logbook{}}
		w := newHealthWatch(b.cluster(), PingerConfig{Topic: "health", Process: "us", Instance: invoker0(), Every: every})
		w.judge(c.first, start)
		w.judge(c.second, c.at)
		check.Equal(t, w.name() != "", c.duplicate, "%s: duplicate", c.name)
	}
}

// Each pinger hears the pings of all invokers, with the backlog of the invokers that have a
// GPU.
func TestPingsAreHeard(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic()
		var mu sync.Mutex
		heard := map[int]HeardPing{}
		start := func(id int, backlog func() (time.Duration, bool), each func([]HeardPing)) {
			i := invoker0()
			i.ID = id
			p := b.cluster().NewPinger(PingerConfig{Topic: topic, Instance: i, Every: 20 * time.Millisecond, Backlog: backlog, Heard: each})
			b.t.Cleanup(p.Close)
		}
		start(1, func() (time.Duration, bool) { return 1500 * time.Millisecond, true }, nil)
		start(2, func() (time.Duration, bool) { return 0, false }, nil)
		start(3, nil, nil)
		start(4, func() (time.Duration, bool) { return 0, true }, func(all []HeardPing) {
			mu.Lock()
			defer mu.Unlock()
			for _, p := range all {
				heard[p.Instance.ID] = p
			}
		})
		b.await("pings of all four", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(heard) == 4
		})
		mu.Lock()
		defer mu.Unlock()
		for id, want := range map[int]HeardPing{1: {GPU: true, Backlog: 1500 * time.Millisecond}, 2: {}, 3: {}, 4: {GPU: true}} {
			check.Equal(b.t, heard[id].GPU, want.GPU, "invoker %d", id)
			check.Equal(b.t, heard[id].Backlog, want.Backlog, "invoker %d", id)
			check.That(b.t, heard[id].Enabled, "invoker %d", id)
		}
	})
}
