package kafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	wire "github.com/segmentio/kafka-go"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Unanswered reports which activations were sent to an invoker of any kind and are not
// answered yet. It compares the invoker's topic with the acks on the controllers' topics. It
// reads the first partition of each topic, because OpenWhisk creates only one. It reads
// without a group and commits nothing. It is not safe for concurrent use.
type Unanswered struct {
	cluster  *Cluster
	sent     *partitionReader
	group    string
	replies  string // prefix of the names of the controllers' topics
	longest  time.Duration
	acks     map[string]*partitionReader
	open     map[activation.ID]sending
	answered map[activation.ID]bool
	next     int64 // the invoker's committed offset: the invoker has not taken the messages from here on
}

type sending struct {
	offset int64
	sentAt time.Time
	reply  string // the topic of its controller
}

// NewUnanswered looks at the topic of an invoker, named without the deployment's prefix. An
// activation that was taken longer ago than longest, the time limit of an activation, counts
// as lost and not as pending.
func (c *Cluster) NewUnanswered(prefix, topic string, longest time.Duration) *Unanswered {
	return &Unanswered{
		cluster: c, sent: pendingReader(c, prefix+topic), group: prefix + topic, replies: prefix + "completed", longest: longest,
		acks: map[string]*partitionReader{}, open: map[activation.ID]sending{}, answered: map[activation.ID]bool{},
	}
}

func pendingReader(c *Cluster, topic string) *partitionReader {
	const most = 8 << 20
	r := c.reader(topic, 0, 1, most, 0)
	r.offset = -1
	return r
}

// Poll reads all topics to their ends. waiting counts activations that were sent and not yet
// taken by the invoker. running counts activations that were taken and not yet answered.
// completed lists the existing topics of controllers: activations of a controller without a
// topic, such as a probe that has ended, are not counted as running.
func (p *Unanswered) Poll(ctx context.Context, completed []string) (waiting, running int, err error) {
	// The invoker's topic is read before the acks. An activation that is answered in between
	// counts as open until the next Poll, and never as answered too early.
	err = p.read(ctx, p.sent, func(r record) {
		m, err := activation.DecodeMessage(r.value)
		if err != nil || p.answered[m.ActivationID] {
			return // an unreadable message gets no answer
		}
		p.open[m.ActivationID] = sending{r.offset, r.time, p.replies + m.Controller}
	})
	if err != nil {
		return 0, 0, err
	}
	for _, topic := range completed {
		r := p.acks[topic]
		if r == nil {
			r = pendingReader(p.cluster, topic)
			p.acks[topic] = r
		}
		if err := p.read(ctx, r, p.answer); err != nil {
			return 0, 0, err
		}
	}
	if p.next, _, _, err = p.sent.committed(ctx, p.group); err != nil {
		return 0, 0, err
	}
	for id, s := range p.open {
		switch {
		case s.offset >= p.next:
			waiting++
		case time.Since(s.sentAt) < p.longest:
			if slices.Contains(completed, s.reply) {
				running++
			}
		default:
			delete(p.open, id)
		}
	}
	return waiting, running, nil
}

// answer records an ack.
func (p *Unanswered) answer(r record) {
	ack, err := activation.DecodeAck(r.value)
	if err != nil || !ack.FreesSlot() {
		return
	}
	p.answered[ack.ActivationID] = true
	delete(p.open, ack.ActivationID)
}

// read passes each new record of a topic to the callback. The first call begins with the
// records of the last p.longest, the time limit of an activation.
func (p *Unanswered) read(ctx context.Context, from *partitionReader, each func(record)) error {
	if _, err := from.connect(ctx, 0); err != nil {
		return fmt.Errorf("read topic %s: %w", from.topic, err)
	}
	if from.offset < 0 {
		if err := p.locate(ctx, from); err != nil {
			return err
		}
	}
	end, err := from.find(ctx, wire.LastOffset)
	if err != nil {
		return err
	}
	for from.offset < end {
		before := from.offset
		records, err := from.fetch(ctx)
		if err != nil {
			return err
		}
		for _, r := range records {
			each(r)
		}
		if from.offset == before {
			return fmt.Errorf("read topic %s: nothing at offset %d below its end %d", from.topic, before, end)
		}
	}
	return nil
}

// locate sets the offset at which reading begins: the first record of the last p.longest. In
// the invoker's own topic reading begins at the committed offset or before.
func (p *Unanswered) locate(ctx context.Context, r *partitionReader) error {
	since, err := r.find(ctx, time.Now().Add(-p.longest).UnixMilli())
	if err != nil {
		return err
	}
	if since < 0 { // all is older, or there is nothing
		if since, err = r.find(ctx, wire.LastOffset); err != nil {
			return err
		}
	}
	if r == p.sent {
		next, _, _, err := r.committed(ctx, p.group)
		if err != nil {
			return err
		}
		since = min(since, next)
	}
	first, err := r.find(ctx, wire.FirstOffset)
	if err != nil {
		return err
	}
	r.offset = max(since, first)
	return nil
}

// Close lets go of the brokers.
func (p *Unanswered) Close() {
	for _, r := range p.acks {
		r.close()
	}
	p.sent.close()
}
