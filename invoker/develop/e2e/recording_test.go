package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
)

// recording keeps the acks that the invoker sends to controller 0, read from the
// broker beside the controller.
type recording struct {
	t    *testing.T
	bus  *broker.Bus
	stop context.CancelFunc
	done chan error

	mu      sync.Mutex
	acks    map[activation.ID][]activation.Ack
	changed chan struct{} // closed and replaced when one comes
}

func newRecording(t *testing.T, kafka string) *recording {
	t.Helper()
	bus, err := broker.Dial([]string{kafka}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p := &recording{t: t, bus: bus, done: make(chan error, 1), acks: map[activation.ID][]activation.Ack{}, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	ready := make(chan struct{})
	go func() { p.done <- bus.Consume(ctx, "completed0", func() { close(ready) }, p.add) }()
	select {
	case <-ready:
	case err := <-p.done:
		t.Fatalf("listen to acks: %v", err)
	}
	return p
}

func (p *recording) close() {
	p.stop()
	<-p.done
	p.bus.Close()
}

func (p *recording) add(value []byte) {
	ack, err := activation.DecodeAck(value)
	if err != nil {
		p.t.Errorf("undecodable ack: %v", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acks[ack.ActivationID] = append(p.acks[ack.ActivationID], ack)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *recording) of(id activation.ID) ([]activation.Ack, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acks[id], p.changed
}

// count is how many slot-freeing acks came in all for the ids.
func (p *recording) freed(ids map[activation.ID]int) (int, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for id := range ids {
		for _, a := range p.acks[id] {
			if a.FreesSlot() {
				n++
			}
		}
	}
	return n, p.changed
}

// completed waits for the ack that ends an activation, and gives them all.
func (p *recording) completed(id activation.ID) []activation.Ack {
	p.t.Helper()
	late := time.NewTimer(waitLimit)
	defer late.Stop()
	for {
		acks, more := p.of(id)
		if len(acks) > 0 && acks[len(acks)-1].FreesSlot() {
			return acks
		}
		select {
		case <-more:
		case <-late.C:
			p.t.Fatalf("activation %s: no completion among %d acks", id, len(acks))
		}
	}
}

// publish puts messages on the invoker's topic, as a controller or a madman
// would.
func (p *platform) publish(messages ...[]byte) {
	p.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(p.s.Info().Kafka), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.ProducerBatchMaxBytes(broker.MaxMessageBytes+1024))
	if err != nil {
		p.t.Fatal(err)
	}
	defer client.Close()
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		records[i] = &kgo.Record{Topic: "invoker0", Value: m}
	}
	if err := client.ProduceSync(p.t.Context(), records...).FirstErr(); err != nil {
		p.t.Fatal(fmt.Errorf("publish: %w", err))
	}
}
