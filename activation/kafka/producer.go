package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// errTooLarge is the error of a message that is too large for its topic and has no shorter
// form.
var errTooLarge = errors.New("kafka: message is too large")

// ProducerConfig bounds a Producer. Zero values mean the defaults.
type ProducerConfig struct {
	// Name names the messages in the log, for example "acks".
	Name string
	// QueueBytes is how much may wait for one topic before Send blocks, 32 MiB. It bounds the
	// memory while a broker is away.
	QueueBytes int64
	// RefusedFor is how long a message is retried if its topic does not exist or refuses it: a
	// minute (max.block.ms of the original). Then the message is dropped. Usually its
	// controller is gone; sometimes the broker had forgotten the topic for a moment.
	RefusedFor time.Duration
	// IdleAfter is how long the goroutine and the connections of a topic outlive its last
	// message: 3 minutes. Controllers come and go, and the network drops idle connections,
	// which would delay the next message.
	IdleAfter time.Duration
}

// Producer sends messages to any topic: without a key to partition 0, with a key to the key's
// partition. Messages of one partition arrive in the order in which they were given. Topics do
// not wait for one another. A message leaves at once if its topic is idle. Messages that
// arrive while a request is in flight are sent together in the next one.
//
// Requests use acks=1, as in the original. If the answer to a request is lost, its messages
// are sent again and may arrive twice; controllers ignore the second copy.
type Producer struct {
	cluster *Cluster
	cfg     ProducerConfig
	log     *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	senders sync.WaitGroup

	mu      sync.Mutex
	byTopic map[string]*topicSender
	closed  bool
	stats   ProducerStats
	unsent  int // dropped by Close
}

// ProducerStats is a copy of a producer's counters.
type ProducerStats struct {
	Sent        int64    `json:"sent"`                 // accepted by the broker
	Dropped     int64    `json:"dropped"`              // given up
	Shrunk      int64    `json:"shrunk"`               // sent without the result, which was too large
	Waiting     int64    `json:"waiting"`              // given and neither sent nor dropped
	Interrupted []string `json:"interrupted,omitzero"` // per topic that cannot be sent to, why
	Missing     []string `json:"missing,omitzero"`     // topics that are not there: their controllers are gone
}

// NewProducer makes a producer. It does not wait for a broker.
func (c *Cluster) NewProducer(cfg ProducerConfig) *Producer {
	cfg.Name = cmp.Or(cfg.Name, "messages")
	cfg.QueueBytes = cmp.Or(cfg.QueueBytes, 32<<20)
	cfg.RefusedFor = cmp.Or(cfg.RefusedFor, time.Minute)
	cfg.IdleAfter = cmp.Or(cfg.IdleAfter, restLimit)
	p := &Producer{cluster: c, cfg: cfg, log: c.log, byTopic: map[string]*topicSender{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Send adds a message to the queue of a topic. It blocks only while the queue is full. If sent
// is not nil, the producer's goroutine calls it once: with nil when the broker has the
// message, else with the reason why the broker will never have it. sent must not block. If
// Send returns an error, sent is not called.
func (p *Producer) Send(ctx context.Context, topic string, value []byte, sent func(error)) error {
	return p.enqueue(ctx, topic, outgoing{value: value, sent: sent}, true)
}

// SendAck sends an ack to a controller's topic. An ack that is too large is sent without its
// result, and the controller then reads the result from the database. The original intends the
// same but loses the ack.
func (p *Producer) SendAck(ctx context.Context, topic string, ack activation.Ack, sent func(error)) error {
	m := outgoing{value: ack.Encode(), sent: sent}
	if ack.Record != nil {
		m.shorter = func() []byte { return ack.Shrink().Encode() }
	}
	return p.enqueue(ctx, topic, m, true)
}

// TrySend adds a message to the queue of a topic unless the queue is full. It never blocks,
// and returns false if the message was not added.
func (p *Producer) TrySend(topic string, value []byte) bool {
	err := p.enqueue(context.Background(), topic, outgoing{value: value}, false)
	if errors.Is(err, errFull) {
		p.mu.Lock()
		p.stats.Dropped++
		p.mu.Unlock()
	}
	return err == nil
}

var errFull = errors.New("the queue is full")

// enqueue puts a message into the queue of a topic. If the queue is full, it waits until ctx
// ends, or returns errFull if wait is false.
func (p *Producer) enqueue(ctx context.Context, topic string, m outgoing, wait bool) error {
	s, err := p.sender(topic)
	if err != nil {
		return err
	}
	// The weight is the message's size plus an estimate for its bookkeeping. A message larger
	// than the capacity takes all of the capacity.
	m.weight = min(int64(len(m.value))+256, p.cfg.QueueBytes)
	if wait {
		if err = s.capacity.Acquire(ctx, m.weight); err != nil {
			err = fmt.Errorf("wait for capacity to send to topic %s: %w", topic, err)
		}
	} else if !s.capacity.TryAcquire(m.weight) {
		err = errFull
	}
	m.time = time.Now()
	p.mu.Lock()
	if err == nil {
		s.queue = append(s.queue, m)
	} else {
		s.users--
	}
	p.mu.Unlock()
	signal(s.wake) // without its last user the sender of a closed producer ends
	return err
}

// sender finds or makes the sender of a topic and keeps it from ending.
func (p *Producer) sender(topic string) (*topicSender, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	s := p.byTopic[topic]
	if s == nil {
		s = newTopicSender(p, topic)
		p.byTopic[topic] = s
		p.senders.Go(s.run)
	}
	s.users++
	return s, nil
}

// closing reports whether Close was called.
func (p *Producer) closing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// Stats copies the counters.
func (p *Producer) Stats() ProducerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.stats
	for topic, s := range p.byTopic {
		all.Waiting += int64(s.users)
		switch reason := s.retrier.LastError(); {
		case reason == "":
		case s.missing:
			all.Missing = append(all.Missing, topic)
		default:
			all.Interrupted = append(all.Interrupted, topic+": "+reason)
		}
	}
	return all
}

// Close refuses new messages and sends the queued ones. ctx bounds this. Remaining messages
// are dropped, and the error names their number. A missing topic gets a few more attempts and
// is not an error, because its controller is gone.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.byTopic {
		signal(s.wake)
	}
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, p.cancel)
	p.senders.Wait()
	stop()
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	// Messages for a missing topic were logged when they were dropped.
	if n := p.unsent; n > 0 {
		p.unsent = 0
		return fmt.Errorf("close the producer of %s: %d not sent: %w", p.cfg.Name, n, context.Cause(ctx))
	}
	return nil
}
