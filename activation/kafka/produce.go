package kafka

import (
	"encoding/binary"
	"fmt"
	"time"

	wire "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// send writes messages to a partition of a topic and returns the offset of the
// first. It waits for the leader's ack alone, as the original does.
func send(l *link, topic string, partition int32, batch []parcel, limit time.Duration) (int64, error) {
	f := l.compose(protocol.Produce)
	f.bytes = appendProduce(f.bytes, topic, partition, batch)
	f, err := l.ask(f, limit)
	if err != nil {
		return 0, fmt.Errorf("send to topic %s: %w", topic, err)
	}
	defer f.free()
	offset, err := produced(f.bytes)
	if err != nil {
		return 0, fmt.Errorf("send to topic %s: %w", topic, err)
	}
	return offset, nil
}

// appendProduce lays out what follows the head of a Produce request, which is
// the same in all versions that have record batches.
func appendProduce(b []byte, topic string, partition int32, batch []parcel) []byte {
	b = append(b, 0xff, 0xff) // no transaction
	b = append(b, 0, 1)       // the leader's ack
	b = appendInt32(b, int32(callTimeout/time.Millisecond))
	b = appendInt32(b, 1) // topics
	b = appendText(b, topic)
	b = appendInt32(b, 1) // partitions
	b = appendInt32(b, partition)
	size := len(b)
	b = appendInt32(b, 0)
	b = appendBatch(b, batch)
	binary.BigEndian.PutUint32(b[size:], uint32(len(b)-size-4))
	return b
}

// produced reads where the messages went. What an answer says beside that is
// behind it, and differs by version.
func produced(answer []byte) (offset int64, err error) {
	c := cursor{left: answer}
	if topics := c.int32(); topics == 0 && !c.short {
		return 0, wire.UnknownTopicOrPartition
	}
	c.skipText() // the topic
	if partitions := c.int32(); partitions == 0 && !c.short {
		return 0, wire.UnknownTopicOrPartition
	}
	c.int32() // the partition
	code := c.int16()
	offset = c.int64()
	if err := c.err(); err != nil {
		return 0, err
	}
	return offset, codeError(code)
}
