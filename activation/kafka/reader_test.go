package kafka

import (
	"errors"
	"io"
	"testing"
	"time"

	wire "github.com/segmentio/kafka-go"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// answer is a broker's answer: records at some offsets, then an error.
type answer struct {
	offsets []int64
	end     error
}

func (a *answer) ReadRecord() (*wire.Record, error) {
	if len(a.offsets) == 0 {
		return nil, a.end
	}
	r := &wire.Record{Offset: a.offsets[0], Time: time.Unix(1, 0), Value: wire.NewBytes([]byte("x"))}
	a.offsets = a.offsets[1:]
	return r, nil
}

// A broker sends whole batches, so an answer may begin below the requested offset. Records
// before a fault count.
func TestReaderTakesWhatABrokerMaySend(t *testing.T) {
	fault := errors.New("checksum")
	for name, c := range map[string]struct {
		answer answer
		want   []int64
		next   int64
		err    error
	}{
		"nothing":                   {answer{nil, io.EOF}, nil, 5, nil},
		"a batch that begins below": {answer{[]int64{3, 4, 5, 6}, io.EOF}, []int64{5, 6}, 7, nil},
		"a batch that ends below":   {answer{[]int64{3, 4}, io.EOF}, nil, 5, nil},
		"holes":                     {answer{[]int64{6, 9}, io.EOF}, []int64{6, 9}, 10, nil},
		"a fault behind records":    {answer{[]int64{5, 6}, fault}, []int64{5, 6}, 7, nil},
		"a fault at the offset":     {answer{nil, fault}, nil, 5, fault},
	} {
		r := &partitionReader{offset: 5}
		records, err := r.readBatch(&c.answer)
		var got []int64
		for _, one := range records {
			got = append(got, one.offset)
			check.Equal(t, string(one.value), "x", "%s: record", name)
			check.That(t, one.time.Equal(time.Unix(1, 0)), "%s: record %+v", name, one)
		}
		check.EqualSlices(t, got, c.want, "%s: offsets", name)
		check.Equal(t, r.offset, c.next, "%s: reads", name)
		check.ErrorIs(t, err, c.err, "%s: error", name)
	}
}
