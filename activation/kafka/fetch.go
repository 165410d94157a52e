package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	wire "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
)

// fetchWait is how long the broker holds a request while it has nothing; it
// answers at once when it has (fetch.max.wait.ms of the original).
const fetchWait = 500 * time.Millisecond

// record is one record of a partition, its value copied out of the network
// buffers.
type record struct {
	offset int64
	time   time.Time
	value  []byte
}

// tail reads one partition of a topic from an offset on. One goroutine at a time
// uses it; it has none itself.
type tail struct {
	cluster    *Cluster
	topic      string
	partition  int32
	partitions int // that the topic had when the link was made
	link       *link
	offset     int64         // fetched next
	end        int64         // of the partition, when last heard
	wait       time.Duration // that the broker holds a request while it has nothing
	minBytes   int32
	maxBytes   int32
}

func newTail(c *Cluster, topic string, partition int32, minBytes, maxBytes int, wait time.Duration) *tail {
	return &tail{
		cluster: c, topic: topic, partition: partition,
		minBytes: int32(minBytes), maxBytes: int32(maxBytes), wait: wait,
	}
}

// connect links the tail to the partition's leader until ctx ends. It tells
// whether the link is a new one.
func (t *tail) connect(ctx context.Context) (fresh bool, err error) {
	if t.link != nil {
		return false, nil
	}
	l, partitions, err := t.cluster.leader(ctx, t.topic, t.partition)
	if err != nil {
		return false, err
	}
	t.link, t.partitions = l, partitions
	return true, nil
}

// drop ends the link; the next connect makes another.
func (t *tail) drop() {
	t.link.close()
	t.link = nil
}

// fetch asks once for records from the offset on and moves it behind them.
func (t *tail) fetch() ([]record, error) { return t.ask(t.wait) }

func (t *tail) ask(wait time.Duration) ([]record, error) {
	f := t.link.compose(protocol.Fetch)
	f.bytes = t.appendFetch(f.bytes, t.link.versions[protocol.Fetch], wait)
	f, err := t.link.ask(f, callTimeout+wait)
	if err != nil {
		return nil, fmt.Errorf("fetch from topic %s: %w", t.topic, err)
	}
	defer f.free()
	set, end, err := fetchedSet(f.bytes, t.link.versions[protocol.Fetch])
	if err != nil {
		return nil, fmt.Errorf("fetch from topic %s at offset %d: %w", t.topic, t.offset, err)
	}
	t.end = end
	return t.take(set)
}

// appendFetch lays out what follows the head of a Fetch request.
func (t *tail) appendFetch(b []byte, version int16, wait time.Duration) []byte {
	b = appendInt32(b, -1) // no replica
	b = appendInt32(b, int32(wait/time.Millisecond))
	b = appendInt32(b, t.minBytes)
	b = appendInt32(b, t.maxBytes)
	b = append(b, 0) // also what is not committed
	if version >= 7 {
		b = appendInt32(b, 0) // no session: each request says all
		b = appendInt32(b, -1)
	}
	b = appendInt32(b, 1) // topics
	b = appendText(b, t.topic)
	b = appendInt32(b, 1) // partitions
	b = appendInt32(b, t.partition)
	if version >= 9 {
		b = appendInt32(b, -1) // whoever leads
	}
	b = appendInt64(b, t.offset)
	if version >= 5 {
		b = appendInt64(b, -1) // of replicas
	}
	b = appendInt32(b, t.maxBytes)
	if version >= 7 {
		b = appendInt32(b, 0) // no topics to forget
	}
	if version >= 11 {
		b = appendText(b, "") // no rack
	}
	return b
}

// fetchedSet reads the records that came, as they lie in the log, and the end of
// the partition.
func fetchedSet(answer []byte, version int16) (set []byte, end int64, err error) {
	c := cursor{left: answer}
	c.int32() // how long we were held back
	if version >= 7 {
		code := c.int16()
		c.int32() // the session
		if err := codeError(code); err != nil {
			return nil, 0, err
		}
	}
	for topics := c.int32(); topics > 0 && !c.short; topics-- {
		c.skipText() // the topic
		if c.int32() == 0 {
			continue // of no partition
		}
		c.int32() // the partition
		code := c.int16()
		end = c.int64()
		c.int64() // where transactions are open
		if version >= 5 {
			c.int64() // the log's start
		}
		const transaction = 16
		c.take(transaction * int64(max(c.int32(), 0))) // those that were given up
		if version >= 11 {
			c.int32() // who should be read instead
		}
		if err := codeError(code); err != nil {
			return nil, 0, err
		}
		set = c.take(int64(max(c.int32(), 0)))
		return set, end, c.err()
	}
	return nil, 0, cmp.Or(c.err(), errLeftOut)
}

// errLeftOut is an answer without the topic that was asked for.
var errLeftOut = errors.New("kafka: the broker left the topic out")

// has tells whether the log still has the record that was marked, or may have
// had it: what has expired is not held against it.
func (t *tail) has(m mark) (bool, error) {
	back := t.offset
	defer func() { t.offset = back }()
	for range 3 {
		t.offset = m.offset
		records, err := t.ask(0)
		if errors.Is(err, wire.OffsetOutOfRange) {
			start, err := t.edge(logStart)
			return start > m.offset, err
		}
		if err != nil || len(records) > 0 {
			return err == nil && records[0].offset == m.offset && sumOf(records[0].value) == m.sum, err
		}
		// A new leader may not know yet how far its log is safe. It says so
		// when asked for the end, and the caller tries again.
		if end, err := t.edge(logEnd); err != nil || end <= t.offset {
			return false, err
		}
	}
	return false, nil
}

// Names that ListOffsets has for the two ends of a log.
const (
	logStart = -2
	logEnd   = -1
)

// edge asks for the first offset of the log, the one after its last, or the
// first of a record that is as young as a time in Unix ms, -1 when there is none.
func (t *tail) edge(which int64) (int64, error) {
	req := &listoffsets.Request{
		ReplicaID: -1,
		Topics: []listoffsets.RequestTopic{{
			Topic: t.topic,
			Partitions: []listoffsets.RequestPartition{{
				Partition: t.partition, CurrentLeaderEpoch: -1, Timestamp: which,
			}},
		}},
	}
	answer, err := t.link.call(req, callTimeout)
	if err != nil {
		return 0, fmt.Errorf("ask for the ends of topic %s: %w", t.topic, err)
	}
	topics := answer.(*listoffsets.Response).Topics
	if len(topics) == 0 || len(topics[0].Partitions) == 0 {
		return 0, fmt.Errorf("ask for the ends of topic %s: %w", t.topic, wire.UnknownTopicOrPartition)
	}
	p := topics[0].Partitions[0]
	if err := codeError(p.ErrorCode); err != nil {
		return 0, fmt.Errorf("ask for the ends of topic %s: %w", t.topic, err)
	}
	return p.Offset, nil
}
