package assembly

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/clients"
)

// messaging has the connections to Kafka.
type messaging struct {
	*base
	cluster  *kafka.Cluster
	producer *kafka.Producer
}

func (bus *messaging) openKafka(ctx context.Context, topic string) (err error) {
	k := bus.c.Kafka
	if bus.cluster, err = clients.Kafka(k, "consumer-"+topic, bus.Log); err != nil {
		return err
	}
	return bus.ensureTopic(ctx, topic)
}

// ensureTopic waits until Kafka has the invoker's topic.
func (bus *messaging) ensureTopic(ctx context.Context, topic string) error {
	k := bus.c.Kafka
	bus.stage.Store("waiting for Kafka at " + fmt.Sprint(k.Hosts) + " to have the topic " + topic)
	spec := kafka.InvokerTopic(topic, k.ReplicationFactor, k.TopicConfig)
	spec.Partitions = k.Partitions
	if err := bus.cluster.EnsureTopic(ctx, spec); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}

func (bus *messaging) openProducer(context.Context) (hooks, error) {
	bus.producer = bus.cluster.NewProducer(kafka.ProducerConfig{Name: "acks"})
	return hooks{flush: bus.producer.Close, status: func(s *status) {
		s.Kafka.Sends = bus.producer.Stats()
		for _, topic := range s.Kafka.Sends.Interrupted {
			s.because("sending", topic)
		}
	}, gauges: func(s *status, m sink) {
		m.gauge("kafka_waiting_messages", "Acks and events that wait to be sent.", float64(s.Kafka.Sends.Waiting))
	}}, nil
}

// outbox sends to controllers and writes user events.
type outbox struct {
	producer *kafka.Producer
	prefix   string // of all topics but the events'
	events   string // topic of user events, empty when they are off
}

func (o outbox) Ack(ctx context.Context, controller string, ack activation.Ack, sent func(error)) error {
	return o.producer.SendAck(ctx, o.prefix+"completed"+controller, ack, sent)
}

// Event does not wait, as the original does not.
func (o outbox) Event(_ context.Context, e activation.Event) error {
	if o.events == "" {
		return nil
	}
	if !o.producer.TrySend(o.events, e.Encode()) {
		return errors.New("the queue of user events is full")
	}
	return nil
}

func (o outbox) Forward(ctx context.Context, to int, message []byte, sent func(error)) error {
	return o.producer.Send(ctx, o.prefix+activation.Instance{ID: to}.Topic(), message, sent)
}
