package assembly

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/clients"
)

// The variables of a deployment whose Kafka asks for a login over TLS, as its
// Java clients have them, open that Kafka; both of its clients use them.
func TestKafkaWithLoginOverTLS(t *testing.T) {
	addr := peertest.Variable(t, "GPUWHISK_TEST_KAFKA_SASL_TLS", "kafka.sh")
	user, password, _ := strings.Cut(os.Getenv("GPUWHISK_TEST_KAFKA_LOGIN"), ":")
	trust, store, _ := strings.Cut(os.Getenv("GPUWHISK_TEST_KAFKA_TRUST"), ":")
	for mechanism, module := range map[string]string{
		"PLAIN": "plain.Plain", "SCRAM-SHA-256": "scram.Scram", "SCRAM-SHA-512": "scram.Scram",
	} {
		for _, algorithm := range []string{"", "https"} {
			t.Run(mechanism+algorithm, func(t *testing.T) {
				t.Parallel()
				c, err := config.Load(config.Input{Args: []string{"--id", "0"}, Environ: []string{
					"KAFKA_HOSTS=" + addr, "RUNTIMES_MANIFEST={}", "WHISK_API_HOST_NAME=api",
					"CONFIG_whisk_couchdb_protocol=http", "CONFIG_whisk_couchdb_host=db", "CONFIG_whisk_couchdb_port=5984",
					"CONFIG_whisk_couchdb_username=u", "CONFIG_whisk_couchdb_password=p", "CONFIG_whisk_couchdb_databases_WhiskAuth=s",
					"CONFIG_whisk_couchdb_databases_WhiskEntity=e", "CONFIG_whisk_couchdb_databases_WhiskActivation=a",
					"CONFIG_whisk_kafka_common_securityProtocol=SASL_SSL",
					"CONFIG_whisk_kafka_common_sslTruststoreLocation=" + trust,
					"CONFIG_whisk_kafka_common_sslTruststorePassword=" + store,
					"CONFIG_whisk_kafka_common_sslEndpointIdentificationAlgorithm=" + algorithm,
					"CONFIG_whisk_kafka_common_saslMechanism=" + mechanism,
					"CONFIG_whisk_kafka_common_saslJaasConfig=" + fmt.Sprintf(
						`org.apache.kafka.common.security.%sLoginModule required username="%s" password="%s";`, module, user, password),
				}})
				check.NoError(t, err)
				useKafka(t, c.Kafka)
			})
		}
	}
}

const sentMessage = `{"action":{"name":"hello","path":"guest","version":"0.0.1"},"activationId":"0123456789abcdef0123456789abcdef",` +
	`"blocking":true,"content":{},"initArgs":[],"lockedArgs":{},"revision":"1-a",` +
	`"rootControllerIndex":{"asString":"0","instanceType":"controller"},"transid":["1",1700000000000],` +
	`"user":{"authkey":{"api_key":"u:k"},"limits":{},"namespace":{"name":"guest","uuid":"u"},"rights":["ACTIVATE"],"subject":"guest"}}`

func useKafka(t *testing.T, k config.Kafka) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cluster, err := clients.Kafka(k, "test", slog.New(slog.NewTextHandler(io.Discard, nil)))
	check.NoError(t, err)
	topic := fmt.Sprintf("login%d", time.Now().UnixNano())
	check.NoError(t, cluster.EnsureTopic(ctx, kafka.TopicSpec{Name: topic}))
	p := cluster.NewProducer(kafka.ProducerConfig{})
	defer p.Close(ctx)
	sent := make(chan error, 1)
	check.NoError(t, p.Send(ctx, topic, []byte(sentMessage), func(err error) { sent <- err }))
	check.NoError(t, <-sent)
	f := cluster.NewFeed(kafka.FeedConfig{Topic: topic})
	defer f.Close(ctx)
	d, err := f.Next(ctx)
	check.NoError(t, err)
	d.Done()
}
