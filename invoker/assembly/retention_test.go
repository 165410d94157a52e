package assembly

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestRetentionIsTheBrokers: how long a topic keeps messages is what its broker
// reports, and what the configuration has where no broker answers.
func TestRetentionIsTheBrokers(t *testing.T) {
	b := newBroker(t)
	c := config.Default()
	c.Kafka.TopicConfig = map[string]string{"retention.ms": "300000", "retention.bytes": "104857600"}
	open := func(addr string) *assembly {
		cluster, err := kafka.New(kafka.Options{Brokers: []string{addr}})
		check.NoError(t, err)
		return &assembly{Options: Options{Log: quiet}, c: c, cluster: cluster}
	}
	here := open(b.Addr())
	for name, is := range map[string]struct {
		made map[string]string
		want invoker.Retention
	}{
		"as-configured": {c.Kafka.TopicConfig, invoker.Retention{Time: 5 * time.Minute, Bytes: 100 << 20}},
		"as-changed":    {map[string]string{"retention.ms": "60000", "retention.bytes": "1048576"}, invoker.Retention{Time: time.Minute, Bytes: 1 << 20}},
		"for-ever":      {map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}, invoker.Retention{}},
	} {
		check.NoError(t, here.cluster.EnsureTopic(t.Context(), kafka.TopicSpec{Name: name, Config: is.made}))
		if got := here.retentionOf(t.Context(), name); got != is.want {
			t.Errorf("%s: %+v, want %+v", name, got, is.want)
		}
	}
	gone := open("127.0.0.1:1")
	if got, want := gone.retentionOf(t.Context(), "as-changed"), (invoker.Retention{Time: 5 * time.Minute, Bytes: 100 << 20}); got != want {
		t.Errorf("without a broker: %+v, want %+v", got, want)
	}
	c.Kafka.TopicConfig = nil
	if got := gone.retentionOf(t.Context(), "any"); got != (invoker.Retention{}) {
		t.Errorf("nothing is known: %+v", got)
	}
}
