package kafka

import (
	"context"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// OutboxConfig says under which names acks and events go.
type OutboxConfig struct {
	TopicPrefix string // before "completed<controller>"
	EventPrefix string // before "events"
	Events      bool   // whether user events are sent at all
	Producer    ProducerConfig
}

// Outbox sends what controllers and the user-events service hear of
// activations, through one producer.
type Outbox struct {
	*Producer
	cfg OutboxConfig
}

// NewOutbox makes an outbox. It does not wait for a broker.
func (c *Cluster) NewOutbox(cfg OutboxConfig) *Outbox {
	if cfg.Producer.Name == "" {
		cfg.Producer.Name = "acks and events"
	}
	return &Outbox{Producer: c.NewProducer(cfg.Producer), cfg: cfg}
}

// Ack gives an ack to the controller that waits for it. Acks for one controller
// arrive in the order of the calls. It waits only while the queue is full; sent
// is as Send has it.
func (o *Outbox) Ack(ctx context.Context, controller string, ack activation.Ack, sent func(error)) error {
	return o.SendAck(ctx, o.cfg.TopicPrefix+"completed"+controller, ack, sent)
}

// Event gives an event to the user-events service. It never waits: events that
// find the queue full are counted as dropped.
func (o *Outbox) Event(_ context.Context, e activation.Event) error {
	if o.cfg.Events {
		o.TrySend(o.cfg.EventPrefix+"events", e.Encode())
	}
	return nil
}

// Forward passes a message on to another topic as it came.
func (o *Outbox) Forward(ctx context.Context, topic string, message []byte, sent func(error)) error {
	return o.Send(ctx, topic, message, sent)
}
