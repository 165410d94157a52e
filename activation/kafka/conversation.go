package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Conversation sends messages to any topics, and hears what comes back on a
// topic of its own, which it takes away at the end. One goroutine hears; Close
// ends it.
type Conversation struct {
	cluster  *Cluster
	producer *Producer
	reply    string
	stop     context.CancelFunc
	hearing  sync.WaitGroup
}

// Converse makes the topic for what comes back; hear is called with each
// message, one after the other.
func (c *Cluster) Converse(ctx context.Context, reply TopicSpec, hear func(value []byte)) (*Conversation, error) {
	if err := c.EnsureTopic(ctx, reply); err != nil {
		return nil, err
	}
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	v := &Conversation{cluster: c, producer: c.NewProducer(ProducerConfig{Name: "questions"}), reply: reply.Name, stop: stop}
	v.hearing.Go(func() {
		_ = c.await(listening, reply.Name, func(value []byte) bool { // it ends with listening alone
			hear(value)
			return false
		})
	})
	return v, nil
}

// Send returns when the broker has the message.
func (v *Conversation) Send(ctx context.Context, topic string, value []byte) error {
	sent := make(chan error, 1)
	if err := v.producer.Send(ctx, topic, value, func(err error) { sent <- err }); err != nil {
		return err
	}
	select {
	case err := <-sent:
		return err
	case <-ctx.Done():
		return fmt.Errorf("send to topic %s: %w", topic, context.Cause(ctx))
	}
}

// Close hears nothing more and takes the topic away.
func (v *Conversation) Close(ctx context.Context) error {
	v.stop()
	v.hearing.Wait()
	err := v.producer.Close(ctx)
	bye, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return errors.Join(err, v.cluster.deleteTopic(bye, v.reply))
}
