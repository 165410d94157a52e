package assembly

import (
	"fmt"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestLeftoversAndKafka: activations whose messages a former process left in the journal,
// as versions that spilled to disk did, are handed out once, whether Kafka still has them
// or not, and both copies are committed.
func TestLeftoversAndKafka(t *testing.T) {
	b := newBroker(t)
	cluster, err := kafka.New(kafka.Options{Brokers: []string{b.Addr()}, Log: quiet})
	check.NoError(t, err)
	check.NoError(t, cluster.EnsureTopic(t.Context(), kafka.InvokerTopic("invoker0", 1, nil)))
	const n = 40
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.DisableIdempotentWrite())
	check.NoError(t, err)
	t.Cleanup(client.Close)
	cfg := journal.Config{Dir: t.TempDir()}
	j, err := journal.Open(cfg)
	check.NoError(t, err)
	for i := range n {
		check.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "invoker0", Value: messageOf(i)}).FirstErr())
		if j.Delivered(idOf(i), 0, int64(i)); i%2 == 0 {
			check.NoError(t, j.AppendMessage(idOf(i), messageOf(i)))
		}
	}
	// Two more are left whose records have expired.
	for i := n; i < n+2; i++ {
		j.Delivered(idOf(i), 0, int64(-i))
		check.NoError(t, j.AppendMessage(idOf(i), messageOf(i)))
	}
	check.NoError(t, j.Close())
	if j, err = journal.Open(cfg); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	feed := cluster.NewFeed(kafka.FeedConfig{Topic: "invoker0"})
	s := newSources(j, quiet, feed)
	// One more, the last.
	check.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "invoker0", Value: messageOf(n + 2)}).FirstErr())
	run := map[activation.ID]int{}
	for len(run) < n+3 || run[idOf(n+2)] == 0 {
		d, err := s.Next(t.Context())
		check.NoError(t, err)
		if !d.Completed { // those are not run
			run[d.Message.ActivationID]++
		}
		j.Completed(d.Message.ActivationID)
		d.Done()
	}
	for i := range n + 3 {
		if run[idOf(i)] != 1 {
			t.Errorf("activation %d was handed out %d times", i, run[idOf(i)])
		}
	}
	check.NoError(t, s.close(t.Context()))
	stats := feed.Stats()
	check.Equal(t, stats.Open, 0)
	check.Equal(t, stats.Committed, n+1)
}

func idOf(i int) activation.ID { return activation.ID(fmt.Sprintf("%032x", i+1)) }

func messageOf(i int) []byte {
	m := activation.Message{
		TransID: activation.NewTransID("t", 1, false), ActivationID: idOf(i), Controller: "0",
		Action: activation.ActionRef{Path: "guest", Name: "a", Version: "0.0.1"},
		User:   activation.Identity{Subject: "guest", Namespace: activation.Namespace{Name: "guest", UUID: "u"}, AuthKey: activation.NewAuthKey("k:s"), Rights: []string{"ACTIVATE"}},
	}
	return m.Encode()
}
