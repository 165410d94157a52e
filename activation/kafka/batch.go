package kafka

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// Places in Kafka's record batch of version 2.
const (
	batchLength    = 8 // counted from behind itself
	batchVersion   = 16
	batchSum       = 17 // of all behind itself
	batchFlags     = 21
	batchLastDelta = 23
	batchFirstTime = 27
	batchMaxTime   = 35
	batchCount     = 57
	batchHeader    = 61
)

// Flags of a batch.
const (
	batchCompressed = 7
	batchControl    = 1 << 5
)

// batchBytes is the size of a batch of one record with a value of n bytes, no
// key and no headers, which is what a broker compares with the limit of a
// topic.
func batchBytes(n int) int {
	record := recordBytes(0, 0, -1, n)
	return batchHeader + varintBytes(int64(record)) + record
}

// recordBytes is the size of a record without headers, behind its own length.
// No key is one of -1 bytes.
func recordBytes(later, index int64, key, value int) int {
	const attributes, headers = 1, 1
	return attributes + varintBytes(later) + varintBytes(index) +
		varintBytes(int64(key)) + max(key, 0) + varintBytes(int64(value)) + value + headers
}

// varintBytes is the length of n as a zigzag varint.
func varintBytes(n int64) int {
	return (bits.Len64(uint64(n<<1^n>>63)|1) + 6) / 7
}

// appendBatch lays messages out as one batch.
func appendBatch(b []byte, batch []parcel) []byte {
	at := len(b)
	first, last := batch[0].time.UnixMilli(), int64(0)
	b = append(b, make([]byte, batchHeader)...)
	for i := range batch {
		m := &batch[i]
		sent := m.time.UnixMilli()
		last = max(last, sent)
		key := len(m.key)
		if m.key == nil {
			key = -1
		}
		b = binary.AppendVarint(b, int64(recordBytes(sent-first, int64(i), key, len(m.value))))
		b = append(b, 0) // no attributes
		b = binary.AppendVarint(b, sent-first)
		b = binary.AppendVarint(b, int64(i))
		b = binary.AppendVarint(b, int64(key))
		b = append(b, m.key...)
		b = binary.AppendVarint(b, int64(len(m.value)))
		b = append(b, m.value...)
		b = append(b, 0) // no headers
	}
	all := b[at:]
	order := binary.BigEndian
	order.PutUint32(all[batchLength:], uint32(len(all)-batchLength-4))
	order.PutUint32(all[batchLength+4:], ^uint32(0)) // leader's epoch: not known
	all[batchVersion] = 2
	order.PutUint32(all[batchLastDelta:], uint32(len(batch)-1))
	order.PutUint64(all[batchFirstTime:], uint64(first))
	order.PutUint64(all[batchMaxTime:], uint64(last))
	for i := batchMaxTime + 8; i < batchCount; i++ {
		all[i] = 0xff // no producer that counts what it sends
	}
	order.PutUint32(all[batchCount:], uint32(len(batch)))
	order.PutUint32(all[batchSum:], crc32.Checksum(all[batchFlags:], castagnoli))
	return b
}

// take takes the records out of what a broker sent, and moves the offset behind
// them. A batch is sent whole, so it may start below the offset that was asked
// for, and the last one may be cut off. What was read before a fault counts: it
// shows itself when its own offset is asked for.
func (t *tail) take(set []byte) ([]record, error) {
	var records []record
	marks := int64(0) // behind the last mark that a transaction left
	c, begun := cursor{left: set}, false
	var err error
	for ; len(c.left) > 0; begun = true {
		if records, err = t.batch(&c, records, &marks); err != nil {
			break
		}
	}
	if len(records) == 0 { // an answer of nothing but marks would come for ever
		t.offset = max(t.offset, marks)
	}
	if err != nil && !begun && len(records) == 0 {
		return nil, fmt.Errorf("read records of topic %s: %w", t.topic, err)
	}
	return records, nil
}

// batch adds the records of the next batch.
func (t *tail) batch(c *cursor, records []record, marks *int64) ([]record, error) {
	set := c.left
	if len(set) <= batchVersion {
		c.left = nil
		return records, errShort
	}
	length := int32(binary.BigEndian.Uint32(set[batchLength:]))
	if set[batchVersion] != 2 || len(set) >= batchHeader && binary.BigEndian.Uint16(set[batchFlags:])&batchCompressed != 0 {
		c.left = nil
		more, err := t.unpack(set)
		return append(records, more...), err
	}
	if int64(length) > int64(len(set)-batchLength-4) { // the rest did not fit into the answer
		c.left = nil
		return records, nil
	}
	all := c.take(int64(length) + batchLength + 4)
	if len(all) < batchHeader {
		c.left = nil
		return records, errShort
	}
	if sum := crc32.Checksum(all[batchFlags:], castagnoli); sum != binary.BigEndian.Uint32(all[batchSum:]) {
		c.left = nil
		return records, errors.New("kafka: checksum of a batch does not match")
	}
	base := int64(binary.BigEndian.Uint64(all))
	if binary.BigEndian.Uint16(all[batchFlags:])&batchControl != 0 {
		*marks = max(*marks, base+1)
		return records, nil
	}
	first := int64(binary.BigEndian.Uint64(all[batchFirstTime:]))
	body := cursor{left: all[batchHeader:]}
	for range binary.BigEndian.Uint32(all[batchCount:]) {
		one := cursor{left: body.take(body.varint())}
		one.take(1) // attributes
		sent, offset := first+one.varint(), base+one.varint()
		one.take(max(one.varint(), 0)) // key
		size := one.varint()
		value := one.take(max(size, 0))
		if body.short || one.short {
			return records, errShort
		}
		if offset < t.offset {
			continue
		}
		if size < 0 {
			value = nil
		} else {
			value = append(make([]byte, 0, len(value)), value...)
		}
		records = append(records, record{offset: offset, time: time.UnixMilli(sent), value: value})
		t.offset = offset + 1
	}
	return records, nil
}

// unpack leaves what is compressed, or of before Kafka 0.11, to the client.
func (t *tail) unpack(set []byte) ([]record, error) {
	size := appendInt32(nil, int32(len(set)))
	var from protocol.RecordSet
	if _, err := from.ReadFrom(bufio.NewReader(io.MultiReader(bytes.NewReader(size), bytes.NewReader(set)))); err != nil {
		return nil, err
	}
	if from.Records == nil {
		return nil, nil
	}
	records, err := t.copy(from.Records)
	if len(records) == 0 {
		t.skipControl(from.Records)
	}
	return records, err
}

// copy takes the records out of the client's buffers and gives those back.
func (t *tail) copy(from protocol.RecordReader) ([]record, error) {
	var records []record
	for {
		r, err := from.ReadRecord()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		if r.Offset >= t.offset {
			value, err := protocol.ReadAll(r.Value)
			if err != nil {
				return records, err
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
// client hides.
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
