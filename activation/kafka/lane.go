package kafka

import (
	"fmt"
	"slices"
	"time"

	wire "github.com/segmentio/kafka-go"
	"golang.org/x/sync/semaphore"

	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// gather bounds what leaves together. A batch is one write to the broker's log
// and counts as one message against its limit, so it stays far below that; and
// a quarter MiB is where larger ones stop being cheaper.
const gather = 256 << 10

// parcel is a message on its way.
type parcel struct {
	key     []byte // chooses the partition; nil: the first
	value   []byte
	time    time.Time
	shorter func() []byte // nil: it has no shorter form
	sent    func(error)   // nil: nobody asks
	weight  int64
}

// lane sends to one topic, in order, in a goroutine of its own: one request at
// a time, so that a failure cannot let a later message overtake one of the same
// partition.
type lane struct {
	producer *Producer
	topic    string
	room     *semaphore.Weighted
	wake     chan struct{} // there is something to do; one signal is enough
	outage   *outage.Outage
	links    map[int32]*link // by partition
	width    int             // how many partitions the topic has, when last heard
	gone     bool            // the topic was given up and has not answered since

	// Guarded by the producer's mu.
	queue []parcel
	users int // messages in the queue, on their way or waiting for room
}

func newLane(p *Producer, topic string) *lane {
	return &lane{
		producer: p, topic: topic, links: map[int32]*link{},
		room:   semaphore.NewWeighted(p.cfg.QueueBytes),
		wake:   make(chan struct{}, 1),
		outage: outage.New(p.log.With("topic", topic), "sending of "+p.cfg.Name),
	}
}

// weigh is what a message takes of the queue's room: its bytes and about what
// its bookkeeping costs. One larger than the room takes all of it.
func (l *lane) weigh(m *parcel) int64 {
	m.weight = min(int64(len(m.value))+256, l.producer.cfg.QueueBytes)
	return m.weight
}

func (l *lane) run() {
	defer l.hangUp()
	idle := time.NewTimer(l.producer.cfg.IdleAfter)
	defer idle.Stop()
	for {
		batch, more := l.take()
		if len(batch) > 0 {
			l.deliver(batch)
			continue
		}
		if !more {
			return
		}
		idle.Reset(l.producer.cfg.IdleAfter)
		select {
		case <-l.wake:
		case <-l.producer.ctx.Done():
		case <-idle.C:
			if l.retire() {
				return
			}
		}
	}
}

// take cuts the next batch off the queue. More is false when nothing will come
// any more.
func (l *lane) take() (batch []parcel, more bool) {
	l.producer.mu.Lock()
	defer l.producer.mu.Unlock()
	if len(l.queue) == 0 {
		return nil, !l.producer.closed || l.users > 0
	}
	n, bytes := 0, 0
	for n < len(l.queue) && (n == 0 || bytes+len(l.queue[n].value) <= gather) {
		bytes += len(l.queue[n].value)
		n++
	}
	batch = l.queue[:n:n]
	l.queue = l.queue[n:]
	return batch, true
}

// retire ends the lane unless somebody uses it.
func (l *lane) retire() bool {
	l.producer.mu.Lock()
	defer l.producer.mu.Unlock()
	if l.users > 0 {
		return false
	}
	delete(l.producer.byTopic, l.topic)
	return true
}

// closingTries is how often a closing producer tries a topic that refuses its
// messages, well within a second.
const closingTries = 5

// deliver returns when every message of the batch is sent or given up.
func (l *lane) deliver(batch []parcel) {
	refusals := 0
	for len(batch) > 0 {
		n, err := l.attempt(batch)
		switch {
		case err == nil:
			l.arrived(batch[:n])
			batch = batch[n:]
			continue
		case l.producer.ctx.Err() != nil:
			l.leave(batch)
			return
		case tooLarge(err):
			l.split(batch[:n], err)
			batch = batch[n:]
			continue
		case refused(err):
			l.outage.Note(err)
			refusals++
			late := l.late(batch)
			switch {
			case !l.producer.closing():
			case l.gone:
				late = len(batch)
			case refusals >= closingTries: // whoever is started next has the time for it
				l.producer.log.Error("topic takes no messages, and this process ends: what is for it is left to the next",
					"topic", l.topic, "messages", l.producer.cfg.Name, "left", len(batch), "error", err)
				l.giveUp(batch, ErrClosed)
				return
			}
			l.abandon(batch[:late], err)
			batch = batch[late:]
		}
		if len(batch) > 0 {
			l.outage.Failed(l.producer.ctx, err)
		}
	}
}

// late is how many messages of a batch have been tried for long enough. Each
// has its own time, from when it was given: a topic that comes back takes what
// was given since.
func (l *lane) late(batch []parcel) int {
	n := 0
	for n < len(batch) && time.Since(batch[n].time) >= l.producer.cfg.RefusedFor {
		n++
	}
	return n
}

// attempt sends the first messages of a batch, as far as they are for one
// partition, and tells how many these are.
func (l *lane) attempt(batch []parcel) (n int, err error) {
	partition, n, err := l.sort(batch)
	if err != nil {
		return n, err
	}
	link, err := l.connect(partition)
	if err != nil {
		return n, err
	}
	_, err = send(link, l.topic, partition, batch[:n], callTimeout)
	if err != nil && !tooLarge(err) {
		l.hangUp()
	}
	return n, err
}

// sort brings together what is for one partition, each in order, and tells
// which the first is and how many messages are for it.
func (l *lane) sort(batch []parcel) (partition int32, n int, err error) {
	if !slices.ContainsFunc(batch, func(m parcel) bool { return m.key != nil }) {
		return 0, len(batch), nil
	}
	if l.width == 0 {
		if _, err := l.connect(0); err != nil {
			return 0, len(batch), err
		}
	}
	slices.SortStableFunc(batch, func(a, b parcel) int { return int(l.home(&a) - l.home(&b)) })
	partition = l.home(&batch[0])
	for n < len(batch) && l.home(&batch[n]) == partition {
		n++
	}
	return partition, n, nil
}

// home is the partition that a message belongs to, by its key as the Java
// client has it.
func (l *lane) home(m *parcel) int32 {
	if m.key == nil {
		return 0
	}
	all := make([]int, l.width)
	for i := range all {
		all[i] = i
	}
	return int32(wire.Murmur2Balancer{Consistent: true}.Balance(wire.Message{Key: m.key}, all...))
}

// connect links the lane to the leader of a partition.
func (l *lane) connect(partition int32) (*link, error) {
	if link := l.links[partition]; link != nil {
		return link, nil
	}
	link, width, err := l.producer.cluster.leader(l.producer.ctx, l.topic, partition)
	if err != nil {
		return nil, err
	}
	l.links[partition], l.width = link, width
	return link, nil
}

// hangUp drops the links: one that fails says that the others may.
func (l *lane) hangUp() {
	for _, link := range l.links {
		link.close()
	}
	clear(l.links)
	l.width = 0
}

// split sends the messages of a batch that is too large one by one, and one
// that is too large by itself in its shorter form.
func (l *lane) split(batch []parcel, err error) {
	if len(batch) == 1 {
		if l.producer.shorten(l.topic, &batch[0]) {
			l.deliver(batch)
			return
		}
		l.producer.log.Error("message too large for its topic, dropped",
			"topic", l.topic, "bytes", len(batch[0].value))
		l.giveUp(batch, fmt.Errorf("%w: %w", ErrTooLarge, err))
		return
	}
	for i := range batch {
		l.deliver(batch[i : i+1])
	}
}

// abandon drops messages that their topic refuses. It says so once, until the
// topic takes one again.
func (l *lane) abandon(batch []parcel, err error) {
	if len(batch) == 0 {
		return
	}
	if !l.gone {
		l.producer.log.Error("topic takes no messages, dropping what is for it",
			"topic", l.topic, "messages", l.producer.cfg.Name, "tried", l.producer.cfg.RefusedFor, "error", err)
	}
	l.gone = true
	l.giveUp(batch, err)
}

func (l *lane) arrived(batch []parcel) {
	l.gone = false
	l.outage.Over()
	l.producer.sent.Add(int64(len(batch)))
	l.settle(batch, nil)
}

// leave is for messages that nobody has when the producer ends.
func (l *lane) leave(batch []parcel) {
	l.producer.unsent.Add(int64(len(batch)))
	l.giveUp(batch, ErrClosed)
}

func (l *lane) giveUp(batch []parcel, err error) {
	l.producer.dropped.Add(int64(len(batch)))
	l.settle(batch, err)
}

// settle gives the messages' room back and tells who asked what became of
// them.
func (l *lane) settle(batch []parcel, err error) {
	for i := range batch {
		l.room.Release(batch[i].weight)
		if batch[i].sent != nil {
			batch[i].sent(err)
		}
		batch[i] = parcel{}
	}
	l.producer.mu.Lock()
	l.users -= len(batch)
	l.producer.mu.Unlock()
	l.producer.waiting.Add(-int64(len(batch)))
}
