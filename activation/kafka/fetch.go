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

// tail reads partition 0 of a topic from an offset on. One goroutine at a time
// uses it; it has none itself.
type tail struct {
	cluster *Cluster
	topic   string
	link    *link
	release context.CancelFunc // breaks the link
	offset  int64              // fetched next
	end     int64              // of the partition, when last heard
	req     fetch.Request
}

func newTail(c *Cluster, topic string, minBytes, maxBytes int, wait time.Duration) *tail {
	t := &tail{cluster: c, topic: topic, release: func() {}}
	t.req = fetch.Request{
		ReplicaID:    -1,
		MaxWaitTime:  int32(wait / time.Millisecond),
		MinBytes:     int32(minBytes),
		MaxBytes:     int32(maxBytes),
		SessionEpoch: -1, // no session: each request says all
		Topics: []fetch.RequestTopic{{
			Topic: topic,
			Partitions: []fetch.RequestPartition{{
				CurrentLeaderEpoch: -1, LogStartOffset: -1, PartitionMaxBytes: int32(maxBytes),
			}},
		}},
	}
	return t
}

// connect links the tail to the partition's leader until life ends. It gives up
// when ctx ends.
func (t *tail) connect(ctx, life context.Context) error {
	if t.link != nil {
		return nil
	}
	life, t.release = context.WithCancel(life)
	stop := context.AfterFunc(ctx, t.release)
	l, err := t.cluster.leader(life, t.topic)
	t.link = l
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		t.drop()
	}
	return err
}

// drop ends the link; the next connect makes another.
func (t *tail) drop() {
	t.link.close()
	t.release()
	t.link = nil
}

// fetch asks once for records from the offset on and moves it behind them. When
// ctx ends the link breaks, for an answer that nobody waits for would come in
// the way of the next one.
func (t *tail) fetch(ctx context.Context) ([]record, error) {
	stop := context.AfterFunc(ctx, t.release)
	t.req.Topics[0].Partitions[0].FetchOffset = t.offset
	limit := callTimeout + time.Duration(t.req.MaxWaitTime)*time.Millisecond
	answer, err := t.link.call(&t.req, limit)
	if !stop() {
		t.drop()
	}
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

// edge asks for the first offset of the log, or the one after its last.
func (t *tail) edge(which int64) (int64, error) {
	req := &listoffsets.Request{
		ReplicaID: -1,
		Topics: []listoffsets.RequestTopic{{
			Topic: t.topic,
			Partitions: []listoffsets.RequestPartition{{
				CurrentLeaderEpoch: -1, Timestamp: which,
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
