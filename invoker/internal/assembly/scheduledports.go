package assembly

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch"
	"github.com/gpuwhisk/gpuwhisk/activation/journal"
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

// schedulers sends requests to schedulers.
type schedulers struct{ client *fetch.Client }

func (s schedulers) Fetch(ctx context.Context, r pull.Request) (activation.FetchAnswer, error) {
	answer, err := s.client.Fetch(ctx, r.At, fetch.Request{Queue: r.Queue, Container: r.Container, Warmed: r.Warmed, LastDuration: r.Last, Sent: r.Sent})
	if errors.Is(err, fetch.ErrUnreadable) {
		err = fmt.Errorf("%w: %w", pull.ErrUnreadable, err)
	}
	return answer, err
}

func (s schedulers) Leave(ctx context.Context, r pull.Request) error {
	_, err := s.client.Leave(ctx, r.At, r.Queue, r.Container)
	return err
}

func (s schedulers) Return(ctx context.Context, at activation.Endpoint, q activation.Queue, message []byte) (bool, error) {
	return s.client.Reschedule(ctx, at, q, message)
}

// pulledPartition is the partition of pulled activations in the journal. Kafka's partitions
// have smaller numbers.
const pulledPartition = math.MaxInt32

// pulledJournal is the capacity of the journal for pulled activations.
type pulledJournal struct{ *journal.Journal }

func (a *scheduled) pulledJournal() pull.Journal {
	if a.state.journal == nil {
		a.Log.Warn("there is no journal (whisk.gpu.journal): fetched activations that have not ended are lost with the process")
		return nil
	}
	return pulledJournal{a.state.journal}
}

func (p pulledJournal) Ready(ctx context.Context) error {
	if err := p.Journal.Ready(ctx); err != nil {
		return err
	}
	return p.Space(ctx)
}

// covered makes the journal forget all completed activations, because no scheduler sends a
// pulled activation again.
func (a *scheduled) covered(j *journal.Journal) {
	j.ForgetBelow(pulledPartition, func(int64) bool { return true })
}
