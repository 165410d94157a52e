package kafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	wire "github.com/segmentio/kafka-go"
	"golang.org/x/sync/semaphore"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// batchLimit bounds the size of a batch. A batch is one write to the broker's log and counts
// as one message against the broker's size limit, so it stays far below that limit. Batches
// above a quarter MiB do not become cheaper.
const batchLimit = 256 << 10

// outgoing is a message on its way.
type outgoing struct {
	value   []byte
	headers []wire.Header
	time    time.Time
	shorter func() []byte // nil: it has no shorter form
	sent    func(error)   // nil: not reported
	weight  int64
}

// topicSender sends to one topic, in order, in its own goroutine. It sends one request at a
// time, so that after a failure no later message can overtake an earlier one of the same
// partition.
type topicSender struct {
	producer *Producer
	topic    string
	capacity *semaphore.Weighted
	wake     chan struct{} // there is something to do; one signal is enough
	retrier  *retry.Retrier
	client   *client
	gone     bool // the topic was given up and has not answered since

	// Guarded by the producer's mu.
	missing bool // the last answer was that there is no such topic
	queue   []outgoing
	users   int // messages in the queue, on their way or waiting for capacity
}

func newTopicSender(p *Producer, topic string) *topicSender {
	return &topicSender{
		producer: p, topic: topic, client: p.cluster.client(topic),
		capacity: semaphore.NewWeighted(p.cfg.QueueBytes),
		wake:     make(chan struct{}, 1),
		retrier:  retry.New(p.log.With("topic", topic), "sending of "+p.cfg.Name),
	}
}

func (s *topicSender) run() {
	defer s.client.close()
	idle := time.NewTimer(s.producer.cfg.IdleAfter)
	defer idle.Stop()
	for {
		batch, more := s.nextBatch()
		if len(batch) > 0 {
			s.deliver(batch)
			continue
		}
		if !more {
			return
		}
		idle.Reset(s.producer.cfg.IdleAfter)
		select {
		case <-s.wake:
		case <-s.producer.ctx.Done():
		case <-idle.C:
			if s.retire() {
				return
			}
		}
	}
}

// nextBatch removes the next batch from the queue. more is false when no message will come any
// more.
func (s *topicSender) nextBatch() (batch []outgoing, more bool) {
	s.producer.mu.Lock()
	defer s.producer.mu.Unlock()
	if len(s.queue) == 0 {
		return nil, !s.producer.closed || s.users > 0
	}
	n, bytes := 0, 0
	for n < len(s.queue) && (n == 0 || bytes+len(s.queue[n].value) <= batchLimit) {
		bytes += len(s.queue[n].value)
		n++
	}
	batch = s.queue[:n:n]
	s.queue = s.queue[n:]
	return batch, true
}

// retire ends the sender unless it is in use.
func (s *topicSender) retire() bool {
	s.producer.mu.Lock()
	defer s.producer.mu.Unlock()
	if s.users > 0 {
		return false
	}
	delete(s.producer.byTopic, s.topic)
	return true
}

// closingTries is how often a closing producer tries a topic that refuses its messages. The
// tries take much less than a second.
const closingTries = 5

// deliver returns when every message of the batch is sent or given up.
func (s *topicSender) deliver(batch []outgoing) {
	p := s.producer
	for refusals := 0; len(batch) > 0; {
		n := len(batch)
		// The first partition is the only one of the topics of controllers and invokers as
		// OpenWhisk makes them.
		_, err := s.client.connect(p.ctx, 0)
		if err == nil {
			err = s.client.send(p.ctx, 0, batch, callTimeout)
		}
		p.mu.Lock()
		s.missing = code(err) == wire.UnknownTopicOrPartition
		p.mu.Unlock()
		switch {
		case err == nil:
			s.gone = false
			s.retrier.Succeeded()
			s.settle(batch, nil)
		case p.ctx.Err() != nil:
			p.mu.Lock()
			p.unsent += len(batch)
			p.mu.Unlock()
			s.settle(batch, errUnsent)
			return
		case tooLarge(err):
			s.split(batch, err)
		case refused(err):
			s.retrier.Failed(err)
			refusals++
			if n = s.abandon(batch, refusals, err); n < len(batch) {
				s.retrier.Wait(p.ctx, err)
			}
		default:
			s.retrier.Wait(p.ctx, err)
			n = 0
		}
		batch = batch[n:]
	}
}

// send writes messages to a partition. It waits only for the leader's ack, as the original
// does.
func (c *client) send(ctx context.Context, partition int, batch []outgoing, limit time.Duration) error {
	_, err := callAgain(ctx, c, limit, func(ctx context.Context) (*wire.ProduceResponse, error) {
		records := make([]wire.Record, len(batch))
		for i, m := range batch {
			records[i] = wire.Record{Time: m.time, Value: wire.NewBytes(m.value), Headers: m.headers}
		}
		res, err := c.Produce(ctx, &wire.ProduceRequest{
			Topic: c.topics[0], Partition: partition, RequiredAcks: wire.RequireOne, Records: wire.NewRecordReader(records...),
		})
		if err == nil {
			err = res.Error
		}
		return res, err
	})
	if err != nil {
		return fmt.Errorf("send to topic %s: %w", c.topics[0], err)
	}
	return nil
}

// split sends the messages of a batch that is too large one by one. A single message that is
// too large is sent in its shorter form.
func (s *topicSender) split(batch []outgoing, err error) {
	if len(batch) == 1 {
		large := len(batch[0].value)
		if shorter := batch[0].shorter; shorter != nil {
			batch[0].value, batch[0].shorter = shorter(), nil
			s.producer.mu.Lock()
			s.producer.stats.Shrunk++
			s.producer.mu.Unlock()
			s.producer.log.Warn("ack too large, sent without its result", "topic", s.topic, "bytes", large)
			s.deliver(batch)
			return
		}
		s.producer.log.Error("message too large for its topic, dropped", "topic", s.topic, "bytes", large)
		s.settle(batch, fmt.Errorf("%w: %w", errTooLarge, err))
		return
	}
	for i := range batch {
		s.deliver(batch[i : i+1])
	}
}

// late returns how many messages of a batch have been tried for too long. Each message's time
// begins when it was given, so a topic that comes back still gets the newer ones.
func (s *topicSender) late(batch []outgoing) int {
	n := slices.IndexFunc(batch, func(m outgoing) bool { return time.Since(m.time) < s.producer.cfg.RefusedFor })
	if n < 0 {
		return len(batch)
	}
	return n
}

// abandon drops the messages of a batch that their topic has refused for long enough, and
// returns their number. It logs that once, until the topic takes a message again.
func (s *topicSender) abandon(batch []outgoing, refusals int, err error) int {
	log := s.producer.log.With("topic", s.topic, "messages", s.producer.cfg.Name, "error", err)
	n, closing := s.late(batch), s.producer.closing()
	switch {
	case closing && s.gone:
		n = len(batch)
	case closing && refusals >= closingTries: // the next process would not have the time
		log.Error("topic takes no messages, and this process ends: its messages are left to the next process", "left", len(batch))
		s.settle(batch, errUnsent)
		return len(batch)
	case n > 0 && !s.gone:
		log.Error("topic takes no messages, its messages are dropped", "tried", s.producer.cfg.RefusedFor)
	}
	s.gone = s.gone || n > 0
	s.settle(batch[:n], err)
	return n
}

// settle counts the outcome of messages, releases their capacity and reports the outcome.
func (s *topicSender) settle(batch []outgoing, err error) {
	s.producer.mu.Lock()
	s.users -= len(batch)
	if err == nil {
		s.producer.stats.Sent += int64(len(batch))
	} else {
		s.producer.stats.Dropped += int64(len(batch))
	}
	s.producer.mu.Unlock()
	for i := range batch {
		s.capacity.Release(batch[i].weight)
		if batch[i].sent != nil {
			batch[i].sent(err)
		}
		batch[i] = outgoing{}
	}
}
