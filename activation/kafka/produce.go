package kafka

import (
	"fmt"
	"io"
	"math/bits"
	"time"

	wire "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
)

// batchBytes is the size of a batch of one record with a value of n bytes, no
// key and no headers, which is what a broker compares with the limit of a
// topic. The layout is Kafka's record batch version 2.
func batchBytes(n int) int {
	const header = 61
	// attributes, timestamp delta, offset delta, key length, header count
	record := 5 + varintBytes(n) + n
	return header + varintBytes(record) + record
}

// varintBytes is the length of n as a zigzag varint.
func varintBytes(n int) int {
	return (bits.Len64(uint64(n)<<1|1) + 6) / 7
}

// send writes messages to a partition of a topic and returns the offset of the
// first. It waits for the leader's ack alone, as the original does.
func send(l *link, topic string, partition int32, batch []parcel, limit time.Duration) (int64, error) {
	req := &produce.Request{
		Acks:    1,
		Timeout: int32(callTimeout / time.Millisecond),
		Topics: []produce.RequestTopic{{
			Topic: topic,
			Partitions: []produce.RequestPartition{{
				Partition: partition,
				RecordSet: protocol.RecordSet{Records: &parcels{left: batch}},
			}},
		}},
	}
	answer, err := l.call(req, limit)
	if err != nil {
		return 0, fmt.Errorf("send to topic %s: %w", topic, err)
	}
	topics := answer.(*produce.Response).Topics
	if len(topics) == 0 || len(topics[0].Partitions) == 0 {
		return 0, fmt.Errorf("send to topic %s: %w", topic, wire.UnknownTopicOrPartition)
	}
	p := topics[0].Partitions[0]
	if err := codeError(p.ErrorCode); err != nil {
		return 0, fmt.Errorf("send to topic %s: %w", topic, err)
	}
	return p.BaseOffset, nil
}

// parcels hands messages to the encoder, which holds one at a time, so that one
// record serves for all.
type parcels struct {
	left   []parcel
	record protocol.Record
	value  payload
}

// ReadRecord returns the next message.
func (p *parcels) ReadRecord() (*protocol.Record, error) {
	if len(p.left) == 0 {
		return nil, io.EOF
	}
	p.value.bytes = p.left[0].value
	p.record = protocol.Record{Time: p.left[0].time, Value: &p.value}
	if p.left[0].key != nil {
		p.record.Key = protocol.NewBytes(p.left[0].key)
	}
	p.left = p.left[1:]
	return &p.record, nil
}

// payload is a value that the encoder takes in one piece.
type payload struct{ bytes []byte }

// Read is what the interface wants; the encoder uses WriteTo.
func (p *payload) Read(b []byte) (int, error) {
	if len(p.bytes) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.bytes)
	p.bytes = p.bytes[n:]
	return n, nil
}

// WriteTo writes what is left of the value.
func (p *payload) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(p.bytes)
	p.bytes = p.bytes[n:]
	return int64(n), err
}

// Len is how much is left of the value.
func (p *payload) Len() int { return len(p.bytes) }

// Close does nothing: the value is not the encoder's.
func (p *payload) Close() error { return nil }
