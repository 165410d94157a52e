package kafka

import (
	"context"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

func TestDescribe(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		name := b.topic()
		s, err := b.cluster().Describe(b.ctx())
		b.must(err)
		if s.Topics[name] != 1 {
			b.t.Errorf("topic %s has %d partitions in %v", name, s.Topics[name], s.Topics)
		}
		if s.Asked != b.addrs[0] || len(s.Brokers) == 0 {
			b.t.Errorf("asked %s, brokers %v", s.Asked, s.Brokers)
		}
	})
}

// TestDescribeGoesOn: a broker that is away does not hide the next one.
func TestDescribeGoesOn(t *testing.T) {
	away := net.JoinHostPort("127.0.0.1", strconv.Itoa(peertest.FreePort(t, 11000)))
	b := newFakeFixture(t)
	c, err := New(Options{Brokers: append([]string{away}, b.addrs...)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Describe(b.ctx())
	if err != nil || !slices.Contains(b.addrs, s.Asked) {
		t.Errorf("survey %+v, error %v", s, err)
	}
	alone, err := New(Options{Brokers: []string{away}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alone.Describe(b.ctx()); err == nil || !strings.Contains(err.Error(), away) {
		t.Errorf("error %v does not name the broker", err)
	}
}

// TestDescribeEnds: a peer that takes the connection and answers nothing is left
// with the context.
func TestDescribeEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := l.Accept(); err == nil {
			cancel()
			defer conn.Close()
			<-t.Context().Done()
		}
	}()
	c, err := New(Options{Brokers: []string{l.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Describe(ctx); err == nil {
		t.Error("a silent peer was surveyed")
	}
}

func TestRetention(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		for name, want := range map[string]Retention{
			b.topic("retention.ms=300000", "retention.bytes=104857600"): {5 * time.Minute, 100 << 20},
			b.topic("retention.ms=-1", "retention.bytes=-1"):            {math.MaxInt64, math.MaxInt64},
		} {
			b.await("the topic to be led", func() bool { return b.knows(name) })
			if kept, err := b.cluster().Retention(b.ctx(), name); err != nil || kept != want {
				b.t.Errorf("kept for %+v, %v, want %+v", kept, err, want)
			}
		}
	})
	const key = "retention.ms"
	for text, want := range map[string]int64{"-1": math.MaxInt64, "9223372036854775807": math.MaxInt64, "1": 1} {
		if got, err := limit(map[string]string{key: text}, key); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, settings := range []map[string]string{{key: "soon"}, {}} {
		if _, err := limit(settings, key); err == nil {
			t.Errorf("%v is a limit", settings)
		}
	}
}
