package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Requester sends requests to any topic, and receives the replies on its own topic, which it
// deletes at the end. One goroutine receives; Close ends it.
type Requester struct {
	cluster   *Cluster
	producer  *Producer
	reply     string
	stop      context.CancelFunc
	receiving sync.WaitGroup
}

// NewRequester creates the topic of the replies. receive is called for each reply, one after
// the other.
func (c *Cluster) NewRequester(ctx context.Context, reply TopicSpec, receive func(value []byte)) (*Requester, error) {
	if err := c.EnsureTopic(ctx, reply); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &Requester{cluster: c, producer: c.NewProducer(ProducerConfig{Name: "requests"}), reply: reply.Name, stop: stop}
	r.receiving.Go(func() { r.receive(ctx, receive) })
	return r, nil
}

func (r *Requester) receive(ctx context.Context, each func(value []byte)) {
	const pause = 200 * time.Millisecond // a topic that was made just now may have no leader yet
	reader := r.cluster.reader(r.reply, 0, 1, 8<<20, fetchWait)
	defer reader.close()
	for ctx.Err() == nil {
		_, err := reader.connect(ctx, 0)
		var records []record
		if err == nil {
			records, err = reader.fetch(ctx)
		}
		for _, r := range records {
			each(r.value)
		}
		if err != nil {
			retry.Sleep(ctx, pause)
		}
	}
}

// Send blocks until the broker has the message.
func (r *Requester) Send(ctx context.Context, topic string, value []byte) error {
	sent := make(chan error, 1)
	if err := r.producer.Send(ctx, topic, value, func(err error) { sent <- err }); err != nil {
		return err
	}
	select {
	case err := <-sent:
		return err
	case <-ctx.Done():
		return fmt.Errorf("send to topic %s: %w", topic, context.Cause(ctx))
	}
}

// Close stops receiving and deletes the topic of the replies.
func (r *Requester) Close(ctx context.Context) error {
	r.stop()
	r.receiving.Wait()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return errors.Join(r.producer.Close(ctx), r.cluster.deleteTopic(ctx, r.reply))
}
