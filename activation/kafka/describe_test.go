package kafka

import (
	"context"
	"math"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

func TestDescribe(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		name := b.topic()
		s, err := b.cluster().Describe(b.ctx())
		b.must(err)
		check.Equal(b.t, s.Topics[name], 1, "topic %s", name)
		check.Equal(b.t, s.Asked, b.addrs[0])
		check.That(b.t, len(s.Brokers) != 0, "asked %s, brokers %v", s.Asked, s.Brokers)
	})
}

// TestDescribeGoesOn: a broker that is away does not hide the next one.
func TestDescribeGoesOn(t *testing.T) {
	away := net.JoinHostPort("127.0.0.1", strconv.Itoa(peertest.FreePort(t, 11000)))
	b := newFakeFixture(t)
	c, err := New(Options{Brokers: append([]string{away}, b.addrs...)})
	check.NoError(t, err)
	s, err := c.Describe(b.ctx())
	check.NoError(t, err, "survey %+v, error", s)
	check.Includes(t, b.addrs, s.Asked, "survey %+v, error", s)
	alone, err := New(Options{Brokers: []string{away}})
	check.NoError(t, err)
	_, err = alone.Describe(b.ctx())
	check.ErrorContains(t, err, away)
}

// TestDescribeEnds: a peer that takes the connection and answers nothing is left
// with the context.
func TestDescribeEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
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
	check.NoError(t, err)
	_, err = c.Describe(ctx)
	check.That(t, err != nil, "a silent peer was surveyed")
}

func TestRetention(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		for name, want := range map[string]Retention{
			b.topic("retention.ms=300000", "retention.bytes=104857600"): {5 * time.Minute, 100 << 20},
			b.topic("retention.ms=-1", "retention.bytes=-1"):            {math.MaxInt64, math.MaxInt64},
		} {
			b.await("the topic to be led", func() bool { return b.knows(name) })
			kept, err := b.cluster().Retention(b.ctx(), name)
			check.NoError(b.t, err)
			check.Equal(b.t, kept, want)
		}
	})
	const key = "retention.ms"
	for text, want := range map[string]int64{"-1": math.MaxInt64, "9223372036854775807": math.MaxInt64, "1": 1} {
		got, err := limit(map[string]string{key: text}, key)
		check.NoError(t, err, "%s: %v", text, got)
		check.Equal(t, got, want, "%s", text)
	}
	for _, settings := range []map[string]string{{key: "soon"}, {}} {
		_, err := limit(settings, key)
		check.That(t, err != nil, "%v is a limit", settings)
	}
}
