package kafka

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// A raw feed delivers and commits messages that are no activations.
func TestRawFeedDeliversAnyMessage(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topicOf("no activation", message(1))
		f := b.cluster().NewFeed(FeedConfig{Topic: topic, CommitEvery: 5 * time.Millisecond, Raw: true})
		defer f.Close(b.ctx())
		for _, want := range []string{"no activation", message(1)} {
			d, err := f.Next(b.ctx())
			b.must(err)
			check.Equal(b.t, string(d.Value), want)
			check.That(b.t, d.After.IsZero(), "a message from before the feed has a time at which it was not there")
			check.AtMost(b.t, time.Since(d.Timestamp).Abs(), time.Hour)
			d.Done()
		}
		next := b.nextLater(f)
		b.await("all is read", func() bool { s := f.Stats(); return s.HighWatermark == 2 && s.Lag() == 0 })
		b.put(topic, "later")
		d := <-next
		check.That(b.t, !d.After.IsZero(), "a later message was not there at %v", d.After)
		check.AtMost(b.t, time.Since(d.After), time.Hour, "a later message was not there")
		b.await("position 2", func() bool { return b.committed(topic, topic) == 2 })
	})
}
