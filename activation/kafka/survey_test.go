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
)

func TestSurvey(t *testing.T) {
	onEachBroker(t, func(b *bed) {
		name := b.topic()
		s, err := b.cluster().Survey(b.ctx())
		if err != nil {
			b.t.Fatal(err)
		}
		if s.Topics[name] != 1 {
			b.t.Errorf("topic %s has %d partitions in %v", name, s.Topics[name], s.Topics)
		}
		if s.Asked != b.addrs[0] || len(s.Brokers) == 0 {
			b.t.Errorf("asked %s, brokers %v", s.Asked, s.Brokers)
		}
	})
}

// TestSurveyGoesOn: a broker that is away does not hide the next one.
func TestSurveyGoesOn(t *testing.T) {
	nobody := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	b := newFakeBed(t)
	c, err := New(Options{Brokers: append([]string{nobody}, b.addrs...)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Survey(b.ctx())
	if err != nil || !slices.Contains(b.addrs, s.Asked) {
		t.Errorf("survey %+v, error %v", s, err)
	}
	alone, err := New(Options{Brokers: []string{nobody}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alone.Survey(b.ctx()); err == nil || !strings.Contains(err.Error(), nobody) {
		t.Errorf("error %v does not name the broker", err)
	}
}

// TestSurveyEnds: a peer that takes the connection and says nothing is left
// with the context.
func TestSurveyEnds(t *testing.T) {
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
	if _, err := c.Survey(ctx); err == nil {
		t.Error("a silent peer was surveyed")
	}
}

func TestRetention(t *testing.T) {
	onEachBroker(t, func(b *bed) {
		name := b.topic("retention.ms=300000")
		b.await("the topic to be led", func() bool { return b.knows(name) })
		kept, err := b.cluster().Retention(b.ctx(), name)
		if err != nil || kept != 5*time.Minute {
			b.t.Errorf("kept for %v, %v", kept, err)
		}
	})
	for text, want := range map[string]time.Duration{"-1": math.MaxInt64, "9223372036854775807": math.MaxInt64, "1": time.Millisecond} {
		if got, err := retention(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if _, err := retention("soon"); err == nil {
		t.Error("nonsense is a retention")
	}
}
