package kafka

import (
	"testing"
	"time"
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
			if string(d.Value) != want {
				b.t.Errorf("got %q, want %q", d.Value, want)
			}
			if !d.After.IsZero() {
				b.t.Error("what was there before the feed has a time when it was not")
			}
			if time.Since(d.Timestamp).Abs() > time.Hour {
				b.t.Errorf("sent at %v", d.Timestamp)
			}
			d.Done()
		}
		next := b.nextLater(f)
		b.await("all is read", func() bool { s := f.Stats(); return s.HighWatermark == 2 && s.Lag() == 0 })
		b.put(topic, "later")
		if d := <-next; d.After.IsZero() || time.Since(d.After) > time.Hour {
			b.t.Errorf("what came later was not there at %v", d.After)
		}
		b.await("position 2", func() bool { return b.committed(topic, topic) == 2 })
	})
}
