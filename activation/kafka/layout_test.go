package kafka

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/produce"
)

// byClient is a request as the client lays it out, behind its head.
func byClient(t *testing.T, version int16, req protocol.Message) []byte {
	t.Helper()
	if p, ok := req.(protocol.PreparedMessage); ok {
		p.Prepare(version)
	}
	var b bytes.Buffer
	if err := protocol.WriteRequest(&b, version, 7, "me", req); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func composed(key protocol.ApiKey, version int16, body func([]byte) []byte) []byte {
	l := &link{clientID: "me", versions: map[protocol.ApiKey]int16{key: version}, number: 6}
	f := l.compose(key)
	f.bytes = body(f.bytes)
	f.bytes[2], f.bytes[3] = byte((len(f.bytes)-4)>>8), byte(len(f.bytes)-4)
	return f.bytes
}

var sentAt = time.UnixMilli(1_700_000_000_123)

func someParcels() []parcel {
	return []parcel{
		{value: []byte("one"), time: sentAt},
		{value: []byte(strings.Repeat("x", 700)), key: []byte("k"), time: sentAt.Add(90 * time.Second)},
		{value: []byte{}, key: []byte{}, time: sentAt.Add(-time.Second)},
	}
}

// readerOf hands them to the client.
func readerOf(batch []parcel) protocol.RecordReader {
	var all []protocol.Record
	for _, m := range batch {
		r := protocol.Record{Time: m.time, Value: protocol.NewBytes(m.value)}
		if m.key != nil {
			r.Key = protocol.NewBytes(m.key)
		}
		all = append(all, r)
	}
	return protocol.NewRecordReader(all...)
}

// What we lay out is what the client does, byte for byte, in each version.
func TestRequestsAreTheClients(t *testing.T) {
	for version := int16(fetchFrom); version <= fetchTo; version++ {
		tail := newTail(nil, "invoker0", 3, 1, 128<<10, fetchWait)
		tail.offset = 1 << 40
		want := byClient(t, version, &fetch.Request{
			ReplicaID: -1, MaxWaitTime: 500, MinBytes: 1, MaxBytes: 128 << 10, SessionEpoch: -1,
			Topics: []fetch.RequestTopic{{Topic: "invoker0", Partitions: []fetch.RequestPartition{{
				Partition: 3, CurrentLeaderEpoch: -1, FetchOffset: 1 << 40, LogStartOffset: -1, PartitionMaxBytes: 128 << 10,
			}}}},
		})
		got := composed(protocol.Fetch, version, func(b []byte) []byte { return tail.appendFetch(b, version, fetchWait) })
		if !bytes.Equal(got, want) {
			t.Errorf("Fetch version %d: %q, want %q", version, got, want)
		}
	}
	for version := int16(produceFrom); version <= produceTo; version++ {
		for n := 1; n <= 3; n++ {
			want := byClient(t, version, &produce.Request{
				Acks: 1, Timeout: int32(callTimeout / time.Millisecond),
				Topics: []produce.RequestTopic{{Topic: "completed0", Partitions: []produce.RequestPartition{{
					Partition: 2, RecordSet: protocol.RecordSet{Records: readerOf(someParcels()[:n])},
				}}}},
			})
			got := composed(protocol.Produce, version, func(b []byte) []byte {
				return appendProduce(b, "completed0", 2, someParcels()[:n])
			})
			if !bytes.Equal(got, want) {
				t.Errorf("Produce version %d of %d: %q, want %q", version, n, got, want)
			}
		}
	}
}

// clientAnswer is an answer as the client lays it out, behind its head.
func clientAnswer(t *testing.T, version int16, res protocol.Message) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := protocol.WriteResponse(&b, version, 7, res); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()[8:]
}

func TestAnswersAreReadInEachVersion(t *testing.T) {
	for version := int16(produceFrom); version <= produceTo; version++ {
		for _, code := range []int16{0, 3} {
			offset, err := produced(clientAnswer(t, version, &produce.Response{Topics: []produce.ResponseTopic{{
				Topic: "completed0", Partitions: []produce.ResponsePartition{{ErrorCode: code, BaseOffset: 77, LogAppendTime: -1, ErrorMessage: "no"}},
			}}}))
			if offset != 77 || int16(codeOf(err)) != code {
				t.Errorf("version %d: offset %d, %v, want 77, %d", version, offset, err, code)
			}
		}
		if _, err := produced(clientAnswer(t, version, &produce.Response{})); codeOf(err) != 3 {
			t.Errorf("version %d: an answer without the topic: %v", version, err)
		}
	}
	for version := int16(fetchFrom); version <= fetchTo; version++ {
		for _, code := range []int16{0, 1} {
			answer := clientAnswer(t, version, &fetch.Response{ThrottleTimeMs: 5, Topics: []fetch.ResponseTopic{{
				Topic: "invoker0", Partitions: []fetch.ResponsePartition{{
					Partition: 3, ErrorCode: code, HighWatermark: 99, AbortedTransactions: []fetch.ResponseTransaction{{ProducerID: 1}, {ProducerID: 2}},
					PreferredReadReplica: -1, RecordSet: protocol.RecordSet{Version: 2, Records: readerOf(someParcels())},
				}},
			}}})
			set, end, err := fetchedSet(answer, version)
			if int16(codeOf(err)) != code {
				t.Errorf("version %d: %v, want %d", version, err, code)
			}
			if code != 0 {
				continue
			}
			tail := newTail(nil, "invoker0", 3, 1, 1, 0)
			got, err := tail.take(set)
			if err != nil || end != 99 || !same(got, 0, 3) {
				t.Errorf("version %d: end %d, records %v, %v", version, end, got, err)
			}
		}
		if _, _, err := fetchedSet(clientAnswer(t, version, &fetch.Response{}), version); err == nil {
			t.Errorf("version %d: an answer without the topic is none", version)
		}
	}
	broken := clientAnswer(t, 11, &fetch.Response{ErrorCode: 70})
	if _, _, err := fetchedSet(broken, 11); codeOf(err) != 70 {
		t.Errorf("an error of the whole: %v", err)
	}
}

func codeOf(err error) int { return int(code(err)) }

// same tells whether these are someParcels from one to another, at offsets that
// are their index.
func same(got []record, from, to int) bool {
	want := someParcels()[from:to]
	return slices.EqualFunc(got, want, func(r record, m parcel) bool {
		from++
		return r.offset == int64(from-1) && r.time.Equal(m.time) && bytes.Equal(r.value, m.value)
	})
}

// batchAt is a batch as a broker keeps it.
func batchAt(offset int64, batch []parcel) []byte {
	b := appendBatch(nil, batch)
	copy(b, appendInt64(nil, offset))
	return b
}

func TestTakeReadsWhatABrokerMaySend(t *testing.T) {
	whole := batchAt(0, someParcels())
	two := slices.Concat(batchAt(0, someParcels()[:1]), batchAt(1, someParcels()[1:]))
	second := len(batchAt(0, someParcels()[:1]))
	control := batchAt(8, someParcels()[:1])
	control[batchFlags+1] |= batchControl | 1<<4
	seal(control)
	damaged := slices.Clone(two)
	damaged[len(damaged)-1]++
	spoilt := slices.Clone(whole)
	spoilt[len(spoilt)-1]++
	tests := []struct {
		name   string
		set    []byte
		from   int64 // the offset that was asked for
		want   [2]int
		fails  bool
		offset int64 // that is next
	}{
		{name: "one batch", set: whole, want: [2]int{0, 3}, offset: 3},
		{name: "from its middle", set: whole, from: 2, want: [2]int{2, 3}, offset: 3},
		{name: "two batches", set: two, want: [2]int{0, 3}, offset: 3},
		{name: "the last cut off", set: two[:len(two)-1], want: [2]int{0, 1}, offset: 1},
		{name: "the last cut off in its header", set: two[:second+10], want: [2]int{0, 1}, offset: 1},
		{name: "the only one cut off", set: whole[:len(whole)-1], offset: 0},
		{name: "damaged behind a good one", set: damaged, want: [2]int{0, 1}, offset: 1},
		{name: "damaged", set: spoilt, fails: true},
		{name: "too short to be one", set: whole[:10], fails: true},
		{name: "a mark alone", set: control, from: 8, offset: 9},
		{name: "a mark behind records", set: slices.Concat(two, control), want: [2]int{0, 3}, offset: 3},
		{name: "nothing", offset: 0},
	}
	for _, test := range tests {
		tail := newTail(nil, "t", 0, 1, 1, 0)
		tail.offset = test.from
		got, err := tail.take(test.set)
		if (err != nil) != test.fails || !same(got, test.want[0], test.want[1]) || tail.offset != test.offset {
			t.Errorf("%s: %v, %v, next offset %d", test.name, got, err, tail.offset)
		}
	}
}

// seal sets the checksum of a batch that was changed.
func seal(batch []byte) {
	copy(batch[batchSum:], appendInt32(nil, int32(crc32.Checksum(batch[batchFlags:], castagnoli))))
}

// clients tells whether some of the batches are left to the client.
func clients(set []byte) bool {
	for len(set) > batchVersion {
		if set[batchVersion] != 2 || len(set) >= batchHeader && set[batchFlags+1]&batchCompressed != 0 {
			return true
		}
		c := cursor{left: set[batchLength:]}
		if c.take(int64(c.int32())); c.short {
			return false
		}
		set = c.left
	}
	return false
}

// No answer of a broker ends the process, or makes it take more memory than the
// answer has; and what the client reads of it, we do.
func FuzzTake(f *testing.F) {
	f.Add(batchAt(0, someParcels()), int64(0), true)
	f.Add(slices.Concat(batchAt(0, someParcels()[:1]), batchAt(1, someParcels()[1:])), int64(1), false)
	f.Add([]byte(strings.Repeat("\x00", 80)), int64(0), true)
	f.Fuzz(func(t *testing.T, set []byte, from int64, mend bool) {
		set = slices.Clone(set)
		if mend && len(set) >= batchHeader {
			seal(set)
		}
		if clients(set) {
			return
		}
		tail := newTail(nil, "t", 0, 1, 1, 0)
		tail.offset = from
		got, err := tail.take(set)
		if err != nil && len(got) > 0 {
			t.Errorf("records and an error: %v", err)
		}
		last := int64(math.MinInt64)
		for _, r := range got {
			if r.offset < from || r.offset <= last || r.offset >= tail.offset {
				t.Errorf("offset %d of %d after %d, next %d", r.offset, from, last, tail.offset)
			}
			last = r.offset
		}
		_, _, _ = fetchedSet(set, 11)
		_, _ = produced(set)
	})
}

// What a broker says of the size of its answer is believed as far as it comes.
func TestFrameOfALiar(t *testing.T) {
	f := &frame{}
	if err := f.read(strings.NewReader("short"), math.MaxInt32-4); err == nil {
		t.Error("read what was not there")
	}
	if cap(f.bytes) > 2*largeFrame {
		t.Errorf("%d bytes taken for 5", cap(f.bytes))
	}
	long := strings.Repeat("x", 5*largeFrame+1)
	if err := f.read(strings.NewReader(long), len(long)); err != nil || string(f.bytes) != long {
		t.Errorf("%d bytes, %v", len(f.bytes), err)
	}
}

func TestBatchBytesIsTheBatch(t *testing.T) {
	for _, n := range []int{0, 1, 50, 63, 64, 120, 8183, 8184, 8190, 1 << 20} {
		if got := len(appendBatch(nil, []parcel{{value: make([]byte, n), time: sentAt}})); got != batchBytes(n) {
			t.Errorf("%d bytes are a batch of %d, not %d", n, got, batchBytes(n))
		}
	}
	for _, n := range []int64{0, -1, 1, 63, -64, 64, -65, math.MaxInt64, math.MinInt64} {
		if got := len(binary.AppendVarint(nil, n)); got != varintBytes(n) {
			t.Errorf("%d takes %d bytes, not %d", n, got, varintBytes(n))
		}
	}
}
