package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	wire "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// fetchWait is how long the broker holds a request while there is no record (fetch.max.wait.ms
// of the original). If there is one, the broker answers at once.
const fetchWait = 500 * time.Millisecond

// record is one record of a partition, copied out of the network buffers.
type record struct {
	offset  int64
	time    time.Time
	headers []wire.Header
	value   []byte
}

// partitionReader reads one partition of a topic from an offset on. It starts no goroutine and
// is not safe for concurrent use.
type partitionReader struct {
	*client
	topic     string
	partition int
	offset    int64         // fetched next
	end       int64         // of the partition, when last known
	wait      time.Duration // that the broker holds a request while it has nothing
	minBytes  int64
	maxBytes  int64
}

// reader makes a reader of a partition.
func (c *Cluster) reader(topic string, partition int32, minBytes, maxBytes int, wait time.Duration) *partitionReader {
	return &partitionReader{
		client: c.client(topic), topic: topic, partition: int(partition),
		minBytes: int64(minBytes), maxBytes: int64(maxBytes), wait: wait,
	}
}

// fetch requests records from the offset on and advances the offset.
func (r *partitionReader) fetch(ctx context.Context) ([]record, error) {
	return r.fetchWithin(ctx, r.wait, callAgain[*wire.FetchResponse])
}

type fetchCall func(context.Context, *client, time.Duration, func(context.Context) (*wire.FetchResponse, error)) (*wire.FetchResponse, error)

func (r *partitionReader) fetchWithin(ctx context.Context, wait time.Duration, call fetchCall) ([]record, error) {
	res, err := call(ctx, r.client, callTimeout+wait, func(ctx context.Context) (*wire.FetchResponse, error) {
		res, err := r.Fetch(ctx, &wire.FetchRequest{
			Topic: r.topic, Partition: r.partition, Offset: r.offset,
			MinBytes: r.minBytes, MaxBytes: r.maxBytes, MaxWait: max(wait, time.Millisecond), // zero is the client's default
		})
		if err == nil {
			err = res.Error
		}
		return res, err
	})
	if err != nil {
		return nil, fmt.Errorf("fetch from topic %s at offset %d: %w", r.topic, r.offset, err)
	}
	r.end = res.HighWatermark
	records, err := r.readBatch(res.Records)
	if err != nil {
		return records, fmt.Errorf("read records of topic %s: %w", r.topic, err)
	}
	return records, nil
}

// readBatch copies the records out of the client's buffers and advances the offset. A broker sends
// whole batches, so an answer may begin below the requested offset. Records before a fault
// count; the fault appears again when its own offset is requested.
func (r *partitionReader) readBatch(from wire.RecordReader) (records []record, err error) {
	for {
		next, err := from.ReadRecord()
		if err != nil {
			if len(records) == 0 {
				r.skipControl(from)
			}
			if errors.Is(err, io.EOF) || len(records) > 0 {
				err = nil
			}
			return records, err
		}
		value, err := wire.ReadAll(next.Value)
		free(next.Key)
		free(next.Value)
		if err != nil {
			return records, err
		}
		if next.Offset >= r.offset {
			records = append(records, record{offset: next.Offset, time: next.Time, headers: next.Headers, value: value})
			r.offset = next.Offset + 1
		}
	}
}

func free(b wire.Bytes) {
	if b != nil {
		b.Close()
	}
}

// skipControl skips the markers that transactions leave in a log. The client hides them, so an
// answer that contains only markers would be fetched for ever.
func (r *partitionReader) skipControl(from wire.RecordReader) {
	stream, ok := from.(*protocol.RecordStream)
	if !ok {
		return
	}
	for _, batch := range stream.Records {
		if control, ok := batch.(*protocol.ControlBatch); ok {
			r.offset = max(r.offset, control.BaseOffset+1)
		}
	}
}

// stillHas reports whether the log still contains a record, or may have contained it: an expired
// record does not show that the log is another one.
func (r *partitionReader) stillHas(ctx context.Context, last lastRecord) (bool, error) {
	back := r.offset
	defer func() { r.offset = back }()
	for range 3 {
		r.offset = last.offset
		records, err := r.fetchWithin(ctx, 0, call[*wire.FetchResponse])
		if errors.Is(err, wire.OffsetOutOfRange) {
			start, err := r.find(ctx, wire.FirstOffset)
			return start > last.offset, err
		}
		if err != nil {
			return false, err
		}
		if len(records) > 0 {
			return records[0].offset == last.offset && checksum(records[0].value) == last.sum, nil
		}
		// A new leader may not know yet up to which offset its log is safe. It says so when it
		// is asked for the end, and the caller tries again.
		if end, err := r.find(ctx, wire.LastOffset); err != nil || end <= r.offset {
			return false, err
		}
	}
	return false, nil
}

// find asks for the first offset of the log (wire.FirstOffset), the offset after the last
// record (wire.LastOffset), or the offset of the first record that is not older than a time in
// Unix ms. It returns -1 if there is no such record.
func (r *partitionReader) find(ctx context.Context, at int64) (int64, error) {
	p, err := call(ctx, r.client, callTimeout, func(ctx context.Context) (wire.PartitionOffsets, error) {
		res, err := r.ListOffsets(ctx, &wire.ListOffsetsRequest{
			Topics: map[string][]wire.OffsetRequest{r.topic: {{Partition: r.partition, Timestamp: at}}},
		})
		if err != nil {
			return wire.PartitionOffsets{}, err
		}
		if len(res.Topics[r.topic]) == 0 {
			return wire.PartitionOffsets{}, wire.UnknownTopicOrPartition
		}
		p := res.Topics[r.topic][0]
		return p, p.Error
	})
	if err != nil {
		return 0, fmt.Errorf("ask for the offsets of topic %s: %w", r.topic, err)
	}
	switch at {
	case wire.FirstOffset:
		return p.FirstOffset, nil
	case wire.LastOffset:
		return p.LastOffset, nil
	}
	for offset := range p.Offsets { // the only one
		return offset, nil
	}
	return -1, nil
}

// committed reads a group's offset in the partition and the metadata of that commit. ok is
// false if there is no commit.
func (r *partitionReader) committed(ctx context.Context, group string) (offset int64, metadata string, ok bool, err error) {
	p, err := call(ctx, r.client, callTimeout, func(ctx context.Context) (wire.OffsetFetchPartition, error) {
		res, err := r.OffsetFetch(ctx, &wire.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{r.topic: {r.partition}}})
		if err == nil {
			err = res.Error
		}
		if err != nil || len(res.Topics[r.topic]) == 0 {
			return wire.OffsetFetchPartition{CommittedOffset: -1}, err
		}
		p := res.Topics[r.topic][0]
		return p, p.Error
	})
	if code(err) == wire.GroupIdNotFound {
		return 0, "", false, nil
	}
	if err != nil {
		return 0, "", false, fmt.Errorf("read the committed offset of group %s: %w", group, err)
	}
	if p.CommittedOffset < 0 {
		return 0, "", false, nil
	}
	return p.CommittedOffset, p.Metadata, true, nil
}
