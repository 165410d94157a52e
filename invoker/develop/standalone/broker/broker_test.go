package broker

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

func start(t *testing.T, dir string) (*Broker, *Bus) {
	t.Helper()
	b, err := Start(dir, 0, nil)
	check.NoError(t, err)
	bus, err := Dial([]string{b.Addr()}, slog.New(slog.DiscardHandler))
	check.NoError(t, err)
	return b, bus
}

func TestMessagesArriveInOrderFromNowOn(t *testing.T) {
	b, bus := start(t, t.TempDir())
	defer b.Close()
	defer bus.Close()
	inOrder(t, bus, "acks")
}

// TestTheSameOnKafka is the test above with a broker that is not ours.
func TestTheSameOnKafka(t *testing.T) {
	addr := peertest.Variable(t, "GPUWHISK_TEST_KAFKA", "kafka.sh")
	bus, err := Dial([]string{addr}, slog.New(slog.DiscardHandler))
	check.NoError(t, err)
	defer bus.Close()
	topic := fmt.Sprintf("standalone-%d-%d", os.Getpid(), time.Now().UnixNano())
	t.Cleanup(func() { drop(t, addr, topic) })
	inOrder(t, bus, topic)
	check.NoError(t, bus.Publish(t.Context(), topic, bytes.Repeat([]byte("x"), 1<<20)))
}

func drop(t *testing.T, addr, topic string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).DeleteTopic(context.Background(), topic); err != nil {
		t.Error(err)
	}
}

func inOrder(t *testing.T, bus *Bus, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check.NoError(t, bus.CreateTopics(ctx, []Topic{{Name: topic, Retention: time.Hour, Large: true}}))
	check.NoError(t, bus.Publish(ctx, topic, []byte("old")))
	ready := make(chan struct{})
	got := make(chan string, 10)
	done := make(chan error, 1)
	consuming, stop := context.WithCancel(ctx)
	go func() {
		done <- bus.Consume(consuming, topic, func() { close(ready) }, func(v []byte) { got <- string(v) })
	}()
	<-ready
	for i := range 3 {
		check.NoError(t, bus.Publish(ctx, topic, fmt.Append(nil, i)))
	}
	for i := range 3 {
		check.Equal(check.Must(t), check.Receive(t, got), fmt.Sprint(i))
	}
	stop()
	check.NoError(t, <-done)
}

// TestTopicMadeAnew: a consumer of a topic that is deleted and made anew reads all messages
// of the new one, and logs two lines.
func TestTopicMadeAnew(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		b, err := Start(t.TempDir(), 0, nil)
		check.NoError(t, err)
		defer b.Close()
		madeAnew(t, b.Addr(), "acks")
	})
	t.Run("Kafka", func(t *testing.T) {
		addr := peertest.Variable(t, "GPUWHISK_TEST_KAFKA", "kafka.sh")
		topic := fmt.Sprintf("standalone-anew-%d-%d", os.Getpid(), time.Now().UnixNano())
		t.Cleanup(func() { drop(t, addr, topic) })
		madeAnew(t, addr, topic)
	})
}

func madeAnew(t *testing.T, addr, topic string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var lines lineCount
	bus, err := Dial([]string{addr}, slog.New(slog.NewTextHandler(&lines, nil)))
	check.NoError(t, err)
	defer bus.Close()
	made := []Topic{{Name: topic, Retention: time.Hour}}
	check.NoError(t, bus.CreateTopics(ctx, made))
	ready, got, done := make(chan struct{}), make(chan string, 100), make(chan error, 1)
	consuming, stop := context.WithCancel(ctx)
	go func() {
		done <- bus.Consume(consuming, topic, func() { close(ready) }, func(v []byte) { got <- string(v) })
	}()
	check.Receive(t, ready)
	check.NoError(t, bus.Publish(ctx, topic, []byte("before")))
	check.Equal(t, check.Receive(t, got), "before")
	drop(t, addr, topic)
	peertest.Until(t, "the topic is made anew", func() string {
		if err := bus.CreateTopics(ctx, made); err != nil {
			return err.Error()
		}
		other, err := Dial([]string{addr}, slog.New(slog.DiscardHandler))
		check.NoError(t, err)
		defer other.Close()
		if err := other.Publish(ctx, topic, []byte("after")); err != nil {
			return err.Error()
		}
		return ""
	})
	check.Equal(t, check.Receive(t, got), "after")
	stop()
	check.NoError(t, <-done)
	check.AtMost(t, lines.n.Load(), 4, "log lines")
}

// lineCount counts the lines of a log handler.
type lineCount struct{ n atomic.Int64 }

func (c *lineCount) Write(b []byte) (int, error) {
	c.n.Add(1)
	return len(b), nil
}

func TestSizeLimit(t *testing.T) {
	b, bus := start(t, t.TempDir())
	defer b.Close()
	defer bus.Close()
	check.NoError(t, bus.CreateTopics(t.Context(), []Topic{{Name: "a", Retention: time.Hour, Large: true}}))
	check.NoError(t, bus.Publish(t.Context(), "a", bytes.Repeat([]byte("x"), 1<<20)))
	check.ErrorIs(t, bus.Publish(t.Context(), "a", bytes.Repeat([]byte("x"), MaxMessageBytes+1)), ErrTooLarge)
}

func TestDeployTwiceIsFine(t *testing.T) {
	b, bus := start(t, t.TempDir())
	defer b.Close()
	defer bus.Close()
	for range 2 {
		check.NoError(t, bus.CreateTopics(t.Context(), []Topic{{Name: "a", Retention: time.Hour}}))
	}
}

func TestQueuedMessagesSurviveTheProcess(t *testing.T) {
	dir := t.TempDir()
	b, bus := start(t, dir)
	check.NoError(t, bus.CreateTopics(t.Context(), []Topic{{Name: "invoker0", Retention: time.Hour}}))
	check.NoError(t, bus.Publish(t.Context(), "invoker0", []byte("queued")))
	bus.Close()
	b.Close()

	b, bus = start(t, dir)
	defer b.Close()
	defer bus.Close()
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"invoker0": {0: kgo.NewOffset().AtStart()}}))
	check.NoError(t, err)
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	records := reader.PollFetches(ctx).Records()
	check.Equal(check.Must(t), len(records), 1)
	check.Equal(t, string(records[0].Value), "queued")
}
