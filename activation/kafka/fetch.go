package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	wire "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
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
	offset     int64 // fetched next
	end        int64 // of the partition, when last heard
	req        fetch.Request
}

func newTail(c *Cluster, topic string, partition int32, minBytes, maxBytes int, wait time.Duration) *tail {
	t := &tail{cluster: c, topic: topic, partition: partition}
	t.req = fetch.Request{
		ReplicaID:    -1,
		MaxWaitTime:  int32(wait / time.Millisecond),
		MinBytes:     int32(minBytes),
		MaxBytes:     int32(maxBytes),
		SessionEpoch: -1, // no session: each request says all
		Topics: []fetch.RequestTopic{{
			Topic: topic,
			Partitions: []fetch.RequestPartition{{
				Partition: partition, CurrentLeaderEpoch: -1, LogStartOffset: -1, PartitionMaxBytes: int32(maxBytes),
			}},
		}},
	}
	return t
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
func (t *tail) fetch() ([]record, error) { return t.ask(t.req) }

func (t *tail) ask(req fetch.Request) ([]record, error) {
	req.Topics[0].Partitions[0].FetchOffset = t.offset
	limit := callTimeout + time.Duration(req.MaxWaitTime)*time.Millisecond
	answer, err := t.link.call(&req, limit)
	if err != nil {
		return nil, fmt.Errorf("fetch from topic %s: %w", t.topic, err)
	}
	res := answer.(*fetch.Response)
	if err := codeError(res.ErrorCode); err != nil {
		return nil, fmt.Errorf("fetch from topic %s: %w", t.topic, err)
	}
	for _, topic := range res.Topics {
		for i := range topic.Partitions {
			return t.read(&topic.Partitions[i])
		}
	}
	return nil, fmt.Errorf("fetch from topic %s: the broker left the topic out", t.topic)
}

// has tells whether the log still has the record that was marked, or may have
// had it: what has expired is not held against it.
func (t *tail) has(m mark) (bool, error) {
	back := t.offset
	defer func() { t.offset = back }()
	req := t.req
	req.MaxWaitTime = 0
	for range 3 {
		t.offset = m.offset
		records, err := t.ask(req)
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

func (t *tail) read(p *fetch.ResponsePartition) ([]record, error) {
	if err := codeError(p.ErrorCode); err != nil {
		return nil, fmt.Errorf("fetch from topic %s at offset %d: %w", t.topic, t.offset, err)
	}
	t.end = p.HighWatermark
	if p.RecordSet.Records == nil {
		return nil, nil
	}
	records, err := t.copy(p.RecordSet.Records)
	if len(records) == 0 {
		t.skipControl(p.RecordSet.Records)
	}
	return records, err
}

// copy takes the records out of the network buffers and gives those back. A
// batch is sent whole, so it may start below the offset that was asked for.
func (t *tail) copy(from protocol.RecordReader) ([]record, error) {
	var records []record
	for {
		r, err := from.ReadRecord()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return records, fmt.Errorf("read record of topic %s: %w", t.topic, err)
		}
		if r.Offset >= t.offset {
			value, err := protocol.ReadAll(r.Value)
			if err != nil {
				return records, fmt.Errorf("read record of topic %s: %w", t.topic, err)
			}
			records = append(records, record{offset: r.Offset, time: r.Time, value: value})
			t.offset = r.Offset + 1
		}
		free(r.Key)
		free(r.Value)
	}
}

func free(b protocol.Bytes) {
	if b != nil {
		b.Close()
	}
}

// skipControl moves over the marks that transactions leave in a log, which the
// client hides: an answer of nothing else would come for ever.
func (t *tail) skipControl(from protocol.RecordReader) {
	stream, ok := from.(*protocol.RecordStream)
	if !ok {
		return
	}
	for _, batch := range stream.Records {
		if control, ok := batch.(*protocol.ControlBatch); ok {
			t.offset = max(t.offset, control.BaseOffset+1)
		}
	}
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
