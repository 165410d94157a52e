package assembly

import (
	"context"
	"math"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull"
)

// orders reads the messages of schedulers.
type orders struct{ feed *kafka.Feed }

func (o orders) Next(ctx context.Context) (pull.Message, error) {
	d, err := o.feed.Next(ctx)
	if err != nil {
		return pull.Message{}, err
	}
	return pull.Message{Value: d.Value, Sent: d.Timestamp, After: d.After, Done: d.Done}, nil
}

// creationAcks sends the answers to creations.
type creationAcks struct{ *messaging }

func (c creationAcks) Send(ctx context.Context, ack activation.ContainerCreationAck, sent func()) error {
	topic := c.c.Kafka.TopicPrefix + activation.CreationAckTopic(ack.Creation.Scheduler)
	return c.producer.Send(ctx, topic, ack.Encode(), func(err error) {
		if err != nil {
			c.Log.Warn("creation ack not delivered", "creation", ack.Creation.ID, "topic", topic, "error", err)
		}
		sent()
	})
}

// pulledPartition is the partition of pulled activations in the journal. Kafka's partitions
// have smaller numbers.
const pulledPartition = math.MaxInt32
