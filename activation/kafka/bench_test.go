package kafka

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	wire "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// onEachBench runs a benchmark on the broker in this process and, if there is one, on a real
// broker. The first shows our own cost, the second shows the cost that users see.
func onEachBench(b *testing.B, run func(*testing.B, *Cluster, string)) {
	bench := func(name string, addr string) {
		b.Run(name, func(b *testing.B) {
			c, err := New(Options{Brokers: []string{addr}, Log: slog.New(slog.DiscardHandler)})
			check.NoError(b, err)
			topic := freshName()
			check.NoError(b, c.EnsureTopic(b.Context(), InvokerTopic(topic, 1, nil)))
			run(b, c, topic)
		})
	}
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	check.NoError(b, err)
	defer fake.Close()
	bench("kfake", fake.ListenAddrs()[0])
	if addr := os.Getenv("GPUWHISK_TEST_KAFKA"); addr != "" {
		bench("kafka", addr)
	}
}

// quantiles reports how long the hops took.
func quantiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds()), "p95-µs")
	b.ReportAllocs()
}

// hops measures message after message, from sending to having it.
func hops(b *testing.B, send func([]byte) error, receive func() error) {
	value := []byte(message(1))
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		began := time.Now()
		check.NoError(b, send(value))
		check.NoError(b, receive())
		took = append(took, time.Since(began))
	}
	quantiles(b, took)
}

// BenchmarkHop is one message through Kafka, one at a time: by a Producer and
// a Feed, by the reader and writer of the client they are made on, and by
// franz-go.
func BenchmarkHop(b *testing.B) {
	b.Run("ours", func(b *testing.B) {
		onEachBench(b, func(b *testing.B, c *Cluster, topic string) {
			p, f := c.NewProducer(ProducerConfig{}), c.NewFeed(FeedConfig{Topic: topic})
			defer p.Close(context.Background())
			defer f.Close(context.Background())
			// As the invoker has it: a call of Next waits all the time.
			came := make(chan error, 1)
			go func() {
				for {
					d, err := f.Next(context.Background())
					if errors.Is(err, ErrClosed) {
						return
					}
					d.Done()
					came <- err
				}
			}()
			hops(b, func(v []byte) error { return p.Send(b.Context(), topic, v, nil) }, func() error { return <-came })
		})
	})
	b.Run("kafka-go", func(b *testing.B) {
		onEachBench(b, func(b *testing.B, c *Cluster, topic string) {
			w := &wire.Writer{Addr: wire.TCP(c.brokers[0]), Topic: topic, BatchSize: 1, RequiredAcks: wire.RequireOne, Async: true}
			r := wire.NewReader(wire.ReaderConfig{Brokers: c.brokers, Topic: topic, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: fetchWait})
			defer w.Close()
			defer r.Close()
			hops(b, func(v []byte) error { return w.WriteMessages(b.Context(), wire.Message{Value: v}) },
				func() error { _, err := r.ReadMessage(b.Context()); return err })
		})
	})
	b.Run("franz-go", func(b *testing.B) {
		onEachBench(b, func(b *testing.B, c *Cluster, topic string) {
			cl, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.ProducerLinger(0), kgo.DisableIdempotentWrite(),
				kgo.RequiredAcks(kgo.LeaderAck()), kgo.ProducerBatchCompression(kgo.NoCompression()),
				kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
			check.NoError(b, err)
			defer cl.Close()
			hops(b, func(v []byte) error {
				cl.Produce(b.Context(), &kgo.Record{Topic: topic, Value: v}, nil)
				return nil
			}, func() error {
				for {
					if got := cl.PollFetches(b.Context()); got.NumRecords() > 0 || got.Err() != nil {
						return got.Err()
					}
				}
			})
		})
	})
}

// BenchmarkProducer is the rate at which acks leave, 64 not answered at a time.
func BenchmarkProducer(b *testing.B) {
	onEachBench(b, func(b *testing.B, c *Cluster, topic string) {
		p := c.NewProducer(ProducerConfig{})
		value := []byte(strings.Repeat("x", 600))
		window := make(chan struct{}, 64)
		sent := func(error) { <-window }
		b.ReportAllocs()
		for b.Loop() {
			window <- struct{}{}
			check.NoError(b, p.Send(b.Context(), topic, value, sent))
		}
		check.NoError(b, p.Close(context.Background()))
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acks/s")
	})
}

// BenchmarkFeed is the rate at which waiting activations are handed out and
// done, with their decoding.
func BenchmarkFeed(b *testing.B) {
	onEachBench(b, func(b *testing.B, c *Cluster, topic string) {
		p := c.NewProducer(ProducerConfig{})
		value := []byte(message(1))
		for range b.N {
			check.NoError(b, p.Send(b.Context(), topic, value, nil))
		}
		check.NoError(b, p.Close(context.Background()))
		f := c.NewFeed(FeedConfig{Topic: topic})
		defer f.Close(context.Background())
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			d, err := f.Next(b.Context())
			check.NoError(b, err)
			d.Done()
		}
	})
}
