package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func start(t *testing.T, dir string, port int) (*Broker, *Bus) {
	t.Helper()
	b, err := Start(dir, port, nil)
	if err != nil {
		t.Fatal(err)
	}
	bus, err := Dial([]string{b.Addr()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return b, bus
}

func TestMessagesArriveInOrderFromNowOn(t *testing.T) {
	b, bus := start(t, t.TempDir(), 0)
	defer b.Close()
	defer bus.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := bus.Deploy(ctx, []Topic{{Name: "acks", Retention: time.Hour, Large: true}}); err != nil {
		t.Fatal(err)
	}
	if err := bus.Publish(ctx, "acks", []byte("old")); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	got := make(chan string, 10)
	done := make(chan error, 1)
	consuming, stop := context.WithCancel(ctx)
	go func() {
		done <- bus.Consume(consuming, "acks", func() { close(ready) }, func(v []byte) { got <- string(v) })
	}()
	<-ready
	for i := range 3 {
		if err := bus.Publish(ctx, "acks", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if v := <-got; v != fmt.Sprint(i) {
			t.Fatalf("message %d is %q", i, v)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestSizeLimit(t *testing.T) {
	b, bus := start(t, t.TempDir(), 0)
	defer b.Close()
	defer bus.Close()
	if err := bus.Deploy(t.Context(), []Topic{{Name: "a", Retention: time.Hour, Large: true}}); err != nil {
		t.Fatal(err)
	}
	if err := bus.Publish(t.Context(), "a", bytes.Repeat([]byte("x"), 1<<20)); err != nil {
		t.Errorf("one MiB: %v", err)
	}
	if err := bus.Publish(t.Context(), "a", bytes.Repeat([]byte("x"), MaxMessageBytes+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more: %v, want %v", err, ErrTooLarge)
	}
}

func TestDeployTwiceIsFine(t *testing.T) {
	b, bus := start(t, t.TempDir(), 0)
	defer b.Close()
	defer bus.Close()
	for range 2 {
		if err := bus.Deploy(t.Context(), []Topic{{Name: "a", Retention: time.Hour}}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestQueuedMessagesSurviveTheProcess(t *testing.T) {
	dir := t.TempDir()
	b, bus := start(t, dir, 0)
	port := b.Port()
	if err := bus.Deploy(t.Context(), []Topic{{Name: "invoker0", Retention: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	if err := bus.Publish(t.Context(), "invoker0", []byte("queued")); err != nil {
		t.Fatal(err)
	}
	bus.Close()
	b.Close()

	b, bus = start(t, dir, port)
	defer b.Close()
	defer bus.Close()
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"invoker0": {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	records := reader.PollFetches(ctx).Records()
	if len(records) != 1 || string(records[0].Value) != "queued" {
		t.Fatalf("got %d records, want the one that was queued", len(records))
	}
}
