package assembly

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
)

// kafkaPatience is how long Kafka may be away before /ping fails: a controller
// that hears no ping for so long sends nothing more, either.
const kafkaPatience = 10 * time.Second

// kafkaAway is why no work can come for want of Kafka; empty: it can. It ends by
// itself when the pings and the reading work again.
func kafkaAway(pings kafka.PingStatus, feed kafka.FeedStats, now time.Time, patience time.Duration) string {
	long := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) >= patience }
	switch {
	case long(feed.Since):
		return "activations cannot be read since " + feed.Since.UTC().Format(time.RFC3339) + ": " + feed.Interrupted
	case long(pings.Since):
		return "controllers hear no ping since " + pings.Since.UTC().Format(time.RFC3339) + ": " + pings.Interrupted
	}
	return ""
}

func (a *assembly) kafkaAway() string {
	patience := a.lull
	if patience == 0 {
		patience = kafkaPatience
	}
	return kafkaAway(a.pinger.Load().Status(), a.feed.Stats(), time.Now(), patience)
}
