package harness

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// connect returns a client that sends and fetches without waiting for batches.
func connect(t testing.TB, kafka string, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(kafka), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner())}, more...)...)
	check.NoError(t, err)
	return c
}

// consume passes the fetched records to take until the test ends. The end of the test
// closes the client.
func consume(t testing.TB, c *kgo.Client, take func(kgo.Fetches)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			take(c.PollFetches(ctx))
		}
	}()
	t.Cleanup(func() { cancel(); <-done; c.Close() })
}
