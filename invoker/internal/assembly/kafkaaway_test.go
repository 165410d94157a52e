package assembly

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestKafkaIsAwayAfterAWhile(t *testing.T) {
	now := time.Now()
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	last := at(time.Hour)
	for _, c := range []struct {
		pings kafka.PingStatus
		feed  kafka.FeedStats
		want  string
	}{
		{want: ""},
		{pings: kafka.PingStatus{Last: last, Since: at(9 * time.Second), Interrupted: "x"}, feed: kafka.FeedStats{Since: at(time.Second), Interrupted: "y"}},
		{pings: kafka.PingStatus{Last: last, Since: at(10 * time.Second), Interrupted: "x"}, want: ": x"},
		{pings: kafka.PingStatus{Since: at(0), Interrupted: "x"}, want: ": x"}, // no ping has arrived yet
		{feed: kafka.FeedStats{Since: at(time.Hour), Interrupted: "y"}, want: ": y"},
	} {
		got := kafkaAway(c.pings, c.feed, now, kafkaTimeout)
		check.Equal(t, got == "", c.want == "", "%+v %+v: %q", c.pings, c.feed, got)
		check.That(t, strings.HasSuffix(got, c.want), "%+v %+v: %q, want %q", c.pings, c.feed, got, c.want)
	}
}
