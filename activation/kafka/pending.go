package kafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Pending tells which activations were sent to an invoker and not answered
// yet, whoever the invoker is: it compares the invoker's topic with the acks on
// the controllers' topics, of each the first partition, which is all that
// OpenWhisk gives them. It reads without a group and commits nothing. One
// goroutine at a time uses it.
type Pending struct {
	cluster  *Cluster
	sent     *tail
	group    string
	replies  string // what the names of the controllers' topics begin with
	longest  time.Duration
	acks     map[string]*tail
	open     map[activation.ID]sending
	answered map[activation.ID]bool
	next     int64 // the invoker's position: what is behind it was not taken yet
}

type sending struct {
	offset int64
	at     time.Time
	reply  string // the topic on which its controller hears
}

// NewPending looks at a topic of an invoker, without the deployment's prefix.
// What was taken longer ago than the longest time that an activation may take
// counts as lost, not as pending.
func (c *Cluster) NewPending(prefix, topic string, longest time.Duration) *Pending {
	return &Pending{
		cluster: c, sent: pendingTail(c, prefix+topic), group: prefix + topic, replies: prefix + "completed", longest: longest,
		acks: map[string]*tail{}, open: map[activation.ID]sending{}, answered: map[activation.ID]bool{},
	}
}

func pendingTail(c *Cluster, topic string) *tail {
	const most = 8 << 20
	t := newTail(c, topic, 0, 1, most, 0)
	t.offset = -1
	return t
}

// Look reads all topics to their ends and counts: waiting was sent and not
// taken by the invoker, running was taken and not answered. completed are the
// controllers' topics that there are: what was taken of a controller that has
// none any more, as of a probe that has ended, is nobody's, and not counted.
func (p *Pending) Look(ctx context.Context, completed []string) (waiting, running int, err error) {
	// First what was sent, then the acks: an activation that is answered in
	// between counts as open for one look more, never as answered too early.
	err = p.read(ctx, p.sent, func(r record) {
		m, err := activation.DecodeMessage(r.value)
		if err != nil || p.answered[m.ActivationID] {
			return // who cannot read it answers nothing
		}
		p.open[m.ActivationID] = sending{r.offset, r.time, p.replies + m.Controller}
	})
	if err != nil {
		return 0, 0, err
	}
	for _, topic := range completed {
		t := p.acks[topic]
		if t == nil {
			t = pendingTail(p.cluster, topic)
			p.acks[topic] = t
		}
		if err := p.read(ctx, t, p.hear); err != nil {
			return 0, 0, err
		}
	}
	if p.next, err = p.position(ctx); err != nil {
		return 0, 0, err
	}
	for id, s := range p.open {
		switch {
		case s.offset >= p.next:
			waiting++
		case time.Since(s.at) < p.longest:
			if slices.Contains(completed, s.reply) {
				running++
			}
		default:
			delete(p.open, id)
		}
	}
	return waiting, running, nil
}

func (p *Pending) hear(r record) {
	ack, err := activation.DecodeAck(r.value)
	if err != nil || !ack.FreesSlot() {
		return
	}
	p.answered[ack.ActivationID] = true
	delete(p.open, ack.ActivationID)
}

// read hands over what came to a topic since the last time, or in the time for
// which an activation may run.
func (p *Pending) read(ctx context.Context, t *tail, take func(record)) error {
	if _, err := t.connect(ctx); err != nil {
		return fmt.Errorf("read topic %s: %w", t.topic, err)
	}
	if t.offset < 0 {
		if err := p.begin(ctx, t); err != nil {
			return err
		}
	}
	end, err := t.edge(logEnd)
	if err != nil {
		return err
	}
	for t.offset < end {
		before := t.offset
		records, err := t.fetch()
		if err != nil {
			return err
		}
		for _, r := range records {
			take(r)
		}
		if t.offset == before && len(records) == 0 {
			return fmt.Errorf("read topic %s: nothing at offset %d below its end %d", t.topic, before, end)
		}
	}
	return nil
}

// begin sets a tail to where looking begins: the first record of the time in
// question, and for the invoker's own topic nothing behind its position.
func (p *Pending) begin(ctx context.Context, t *tail) error {
	since, err := t.edge(time.Now().Add(-p.longest).UnixMilli())
	if err != nil {
		return err
	}
	if since < 0 { // all is older, or there is nothing
		if since, err = t.edge(logEnd); err != nil {
			return err
		}
	}
	if t == p.sent {
		next, err := p.position(ctx)
		if err != nil {
			return err
		}
		since = min(since, next)
	}
	first, err := t.edge(logStart)
	if err != nil {
		return err
	}
	t.offset = max(since, first)
	return nil
}

// position is the offset of the first message that the invoker has not taken.
func (p *Pending) position(ctx context.Context) (int64, error) {
	l, err := p.cluster.coordinator(ctx, p.group)
	if err != nil {
		return 0, err
	}
	defer l.close()
	offset, _, ok, err := committedOffset(l, p.group, p.sent.topic, 0)
	if err != nil || ok {
		return offset, err
	}
	return 0, nil
}

// Close lets go of the brokers.
func (p *Pending) Close() {
	for _, t := range p.acks {
		t.drop()
	}
	p.sent.drop()
}
