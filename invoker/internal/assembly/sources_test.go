package assembly

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
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

// TestFetchedRunsThoughTheDiskIsAway: an activation from a scheduler exists only here and does
// not wait for a failing disk. An activation from Kafka waits.
func TestFetchedRunsThoughTheDiskIsAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(journal.Config{Dir: dir})
	check.NoError(t, err)
	defer func() { _ = j.Close() }()
	check.NoError(t, os.Rename(dir, dir+"x"))
	id := activation.ID(strings.Repeat("a", 32))
	j.Delivered(id, 0, 0)
	_, _ = j.Begin(t.Context(), id, 0)
	if j.Health().OK() {
		t.Fatal("the disk takes writes")
	}
	fetched := newSources(j, quiet, nil)
	go func() { _ = fetched.deliver(t.Context(), invoker.Delivery{Offset: 7}) }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	d, err := fetched.Next(ctx)
	check.NoError(t, err)
	check.Equal(t, d.Offset, 7)
	check.NoError(t, fetched.close(t.Context()))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newSources(j, quiet, &spring{}).Next(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("over Kafka: %v", err)
	}
}

// TestBrokerHasTheStartFirst: where no journal has it, a run begins when the broker has
// its start, and one whose process is killed at once does not run again.
func TestBrokerHasTheStartFirst(t *testing.T) {
	j, err := journal.Open(journal.Config{Dir: t.TempDir()})
	check.NoError(t, err)
	defer func() { _ = j.Close() }()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "invoker0"))
	check.NoError(t, err)
	defer broker.Close()
	cluster, err := kafka.New(kafka.Options{Brokers: broker.ListenAddrs(), Log: quiet})
	check.NoError(t, err)
	feed := cluster.NewFeed(kafka.FeedConfig{Topic: "invoker0", Raw: true})
	producer := cluster.NewProducer(kafka.ProducerConfig{})
	defer func() { _ = producer.Close(t.Context()) }()
	var commits atomic.Int32
	broker.ControlKey(kmsg.OffsetCommit.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		commits.Add(1)
		return nil, nil, false
	})
	for name, s := range map[string]*sources{
		"without a journal": newSources(nil, quiet, feed),
	} {
		s.keep = peertest.WaitLimit // the machine may be slow
		check.NoError(t, producer.Send(t.Context(), "invoker0", []byte("{}"), nil))
		d, err := s.fromTopic(t.Context())
		check.NoError(t, err)
		before := commits.Load()
		d.Commit(d.BeginMarks())
		check.Greater(t, commits.Load(), before, "commits before a run %s", name)
		d.Done()
	}
	check.NoError(t, feed.Close(t.Context()))
}

// TestJournalHasWhatMetadataCannot: more activations are completed above an open one than the
// metadata of an offset can name. The next process with the journal runs none of them again.
func TestJournalHasWhatMetadataCannot(t *testing.T) {
	b := newBroker(t)
	cluster, err := kafka.New(kafka.Options{Brokers: []string{b.Addr()}, Log: quiet})
	check.NoError(t, err)
	check.NoError(t, cluster.EnsureTopic(t.Context(), kafka.InvokerTopic("invoker0", 1, nil)))
	producer := cluster.NewProducer(kafka.ProducerConfig{})
	const n = 6000
	for i := range n {
		check.NoError(t, producer.Send(t.Context(), "invoker0", messageOf(i), nil))
	}
	check.NoError(t, producer.Close(t.Context()))
	cfg := journal.Config{Dir: t.TempDir()}
	completed := map[activation.ID]bool{}
	for life := range 2 {
		j, err := journal.Open(cfg)
		check.NoError(t, err)
		feed := cluster.NewFeed(kafka.FeedConfig{Topic: "invoker0", Journaled: true})
		s := newSources(j, quiet, feed)
		open := 0
		for i := 0; life == 0 && i < n || life == 1 && open < n/2; i++ {
			d, err := s.Next(t.Context())
			check.NoError(t, err)
			id := d.Message.ActivationID
			check.Equal(check.Must(t), d.Completed, completed[id], "activation %d of life %d", i, life)
			switch {
			case life == 1 && !d.Completed:
				open++
			case life == 0 && i%2 == 1:
				completed[id] = true
				j.Completed(id)
				d.Done()
			}
		}
		check.NoError(t, s.close(t.Context()))
		check.NoError(t, j.Close())
	}
}
