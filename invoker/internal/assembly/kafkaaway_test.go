package assembly

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
)

// While Kafka is away /ping fails; when Kafka is back it succeeds by itself.
func TestPingFailsWhileKafkaIsAway(t *testing.T) {
	data := t.TempDir()
	b, err := broker.Start(data, 0, quiet)
	check.NoError(t, err)
	joined(t, b)
	_, environ := deployment(t)
	r := start(t, append(environ, "KAFKA_HOSTS="+b.Addr()), func(o *Options) { o.silence = time.Millisecond })
	<-r.ready
	awaitResponse(t, r.address+"/ping", http.StatusOK, "pong")
	b.Close()
	awaitResponse(t, r.address+"/ping", http.StatusServiceUnavailable, "cannot work: Kafka: ")
	b, err = broker.Start(data, peertest.PortOf(t, b.Addr()), quiet)
	check.NoError(t, err)
	defer b.Close()
	awaitResponse(t, r.address+"/ping", http.StatusOK, "pong")
	r.end(t)
}

// Without the health topic controllers receive no ping. /ping then fails at once, with a status
// that readiness probes take for "not ready", and succeeds after the topic is made.
func TestPingFailsWithoutTheHealthTopic(t *testing.T) {
	b := newBroker(t)
	bus, err := broker.Dial([]string{b.Addr()}, quiet)
	check.NoError(t, err)
	defer bus.Close()
	_, environ := deployment(t)
	r := start(t, append(environ, "KAFKA_HOSTS="+b.Addr()))
	<-r.ready
	awaitResponse(t, r.address+"/ping", http.StatusServiceUnavailable, "cannot work: Kafka: controllers receive no ping")
	check.NoError(t, bus.CreateTopics(t.Context(), []broker.Topic{{Name: "health", Retention: time.Hour}}))
	awaitResponse(t, r.address+"/ping", http.StatusOK, "pong")
	r.end(t)
}

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
