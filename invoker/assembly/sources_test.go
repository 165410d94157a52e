package assembly

import (
	"context"
	"errors"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// spring is a source that a test fills.
type spring struct {
	has    chan int64
	closed bool
}

func (s *spring) Next(ctx context.Context) (kafka.Delivery, error) {
	select {
	case n := <-s.has:
		return kafka.Delivery{Offset: n}, nil
	case <-ctx.Done():
		return kafka.Delivery{}, ctx.Err()
	}
}

func (s *spring) Close(context.Context) error {
	s.closed = true
	return nil
}

// What an invoker pulls comes from its own topic and from the shared one, and
// each of them is closed.
func TestSourcesPullFromBoth(t *testing.T) {
	own, shared := &spring{has: make(chan int64)}, &spring{has: make(chan int64)}
	s := newSources(nil, quiet, own, shared)
	go func() { own.has <- 1; shared.has <- 2; shared.has <- 3; own.has <- 4 }()
	seen := map[int64]bool{}
	for range 4 {
		d, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen[d.Offset] = true
	}
	if len(seen) != 4 {
		t.Errorf("deliveries %v", seen)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next of an ended context: %v", err)
	}
	if err := s.close(t.Context()); err != nil || !own.closed || !shared.closed {
		t.Errorf("close: %v, own %v, shared %v", err, own.closed, shared.closed)
	}
}

// An invoker does not consume another's own topic, nor any without a GPU.
func TestForwardTopicIsConsumed(t *testing.T) {
	for _, c := range []struct {
		topic   string
		devices int
		want    bool
	}{
		{"", 1, false}, {"gpu", 1, true}, {"gpu", 0, false}, {"invoker9", 1, false}, {"invoker-gpu", 2, true},
	} {
		cfg := &config.Config{}
		cfg.GPU.ForwardTopic = c.topic
		a := &assembly{c: cfg}
		a.gpus.devices = make([]gpu.Device, c.devices)
		if got := a.consumesForwarded(); got != c.want {
			t.Errorf("topic %q with %d devices: %v", c.topic, c.devices, got)
		}
	}
}
