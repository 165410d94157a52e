package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go/protocol/deletetopics"

	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// Exchange sends one message and reads what comes back on a topic that it
// makes for that and takes away at the end, until done says that it has heard
// enough. The context bounds the wait. Hold, when not nil, is called when the
// topic is there, and the message waits for it.
func (c *Cluster) Exchange(ctx context.Context, topic string, value []byte, reply TopicSpec, hold func(context.Context) error, done func(value []byte) bool) (err error) {
	if err := c.EnsureTopic(ctx, reply); err != nil {
		return err
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		if gone := c.deleteTopic(bye, reply.Name); err == nil {
			err = gone
		}
	}()
	if hold != nil {
		if err := hold(ctx); err != nil {
			return err
		}
	}
	p := c.NewProducer(ProducerConfig{Name: "question"})
	sent := make(chan error, 1)
	if err := p.Send(ctx, topic, value, func(err error) { sent <- err }); err != nil {
		return err
	}
	defer func() { _ = p.Close(context.WithoutCancel(ctx)) }()
	select {
	case err := <-sent:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return fmt.Errorf("send to topic %s: %w", topic, context.Cause(ctx))
	}
	return c.await(ctx, reply.Name, done)
}

func (c *Cluster) await(ctx context.Context, topic string, done func(value []byte) bool) error {
	t := newTail(c, topic, 0, 1, 8<<20, fetchWait)
	defer func() { t.drop() }()
	for ctx.Err() == nil {
		if _, err := t.connect(ctx); err != nil {
			outage.Wait(ctx, 200*time.Millisecond) // a topic that was made just now
			continue
		}
		records, err := t.fetch()
		if err != nil && ctx.Err() == nil {
			t.drop()
			outage.Wait(ctx, 200*time.Millisecond)
		}
		for _, r := range records {
			if done(r.value) {
				return nil
			}
		}
	}
	return context.Cause(ctx)
}

func (c *Cluster) deleteTopic(ctx context.Context, topic string) error {
	l, res, err := c.anyBroker(ctx, topic)
	if err != nil {
		return err
	}
	l, err = c.moveTo(ctx, l, brokerAddr(res, res.ControllerID))
	if err != nil {
		return err
	}
	defer l.close()
	answer, err := l.call(&deletetopics.Request{TopicNames: []string{topic}, TimeoutMs: int32(callTimeout / time.Millisecond)}, 2*callTimeout)
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	for _, r := range answer.(*deletetopics.Response).Responses {
		if err := codeError(r.ErrorCode); err != nil {
			return fmt.Errorf("delete topic %s: %w", topic, err)
		}
	}
	return nil
}
