package kafka

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func ackOf(n, bytes int) activation.Ack {
	r := &activation.Record{
		ActivationID: activation.ID(fmt.Sprintf("%032x", n)),
		Namespace:    "guest", Name: "hello", Subject: "guest", Version: "0.0.1",
		Response: activation.Response{Result: json.RawMessage(`{"x":"` + strings.Repeat("x", bytes) + `"}`)},
	}
	instance := activation.Instance{ID: 0, UniqueName: "0", UserMemory: 1 << 31}
	return activation.NewCombined(activation.NewTransID("t", 1, false), r, instance)
}

// An ack that is over the limit goes without its result: when it is over ours
// at once, when it is over the topic's after the broker's word.
func TestAckTooLargeIsShrunk(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		for _, c := range []struct {
			name, limit string
			bytes       int
		}{
			{"ours", fmt.Sprint(MaxMessageBytes), MaxMessageBytes},
			{"the topic's", "20000", 30000},
		} {
			topic := b.topic("max.message.bytes=" + c.limit)
			p := b.producer()
			tries := func() int64 { return 1 }
			if b.fake != nil && c.bytes == MaxMessageBytes {
				tries = b.countRequests(kmsg.Produce)
			}
			reported := make(chan error, 1)
			if err := p.SendAck(b.ctx(), topic, ackOf(1, c.bytes), func(err error) { reported <- err }); err != nil {
				b.t.Fatal(err)
			}
			if err := <-reported; err != nil {
				b.t.Fatal(err)
			}
			if n := tries(); n != 1 {
				b.t.Errorf("over %s limit: sent %d times", c.name, n)
			}
			got := b.take(topic, 1)[0].Value
			if want := ackOf(1, 1).Shrink().Encode(); !bytes.Equal(got, want) {
				b.t.Errorf("over %s limit: %d bytes came: %.200s", c.name, len(got), got)
			}
			if s := p.Stats(); s.Shrunk != 1 || s.Sent != 1 {
				b.t.Errorf("over %s limit: stats %+v", c.name, s)
			}
		}
	})
}

// Messages that fit one by one are not lost for being too large together.
func TestProducerSplitsABatchThatIsTooLarge(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic("max.message.bytes=5000")
		p := b.producer()
		reported := make(chan error, 41)
		for i := range 40 {
			value := []byte(fmt.Sprintf("%04d%s", i, strings.Repeat("x", 1000)))
			if err := p.Send(b.ctx(), topic, value, func(err error) { reported <- err }); err != nil {
				b.t.Fatal(err)
			}
			if i == 20 {
				if err := p.Send(b.ctx(), topic, make([]byte, 6000), func(err error) { reported <- err }); err != nil {
					b.t.Fatal(err)
				}
			}
		}
		if err := p.Close(b.ctx()); err != nil || p.Stats().Dropped != 1 {
			b.t.Errorf("Close: %v, stats %+v", err, p.Stats())
		}
		for i := range 41 {
			if err := <-reported; (err != nil) != (i == 21) || i == 21 && !errors.Is(err, ErrTooLarge) {
				b.t.Errorf("message %d: %v", i, err)
			}
		}
		for i, r := range b.take(topic, 40) {
			if got := string(r.Value[:4]); got != fmt.Sprintf("%04d", i) {
				b.t.Fatalf("record %d is %s", i, got)
			}
		}
	})
}

// batchBytes is what brokers compare with a topic's limit, to the byte.
func TestBatchBytesIsWhatTheBrokerCounts(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic("max.message.bytes=10000")
		p := b.producer()
		fits := 10000
		for batchBytes(fits) > 10000 {
			fits--
		}
		if err := b.fate(p, topic, strings.Repeat("x", fits)); err != nil {
			b.t.Errorf("%d bytes, %d with all around them: %v", fits, batchBytes(fits), err)
		}
		if err := b.fate(p, topic, strings.Repeat("x", fits+1)); !errors.Is(err, ErrTooLarge) {
			b.t.Errorf("%d bytes, %d with all around them: %v", fits+1, batchBytes(fits+1), err)
		}
		if err := p.Send(b.ctx(), topic, make([]byte, MaxMessageBytes), nil); !errors.Is(err, ErrTooLarge) {
			b.t.Errorf("a message over every limit: %v", err)
		}
	})
}

func TestVarintBytes(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 8191, 8192, 1 << 20} {
		if got := len(binary.AppendVarint(nil, int64(n))); got != varintBytes(n) {
			t.Errorf("%d takes %d bytes, not %d", n, got, varintBytes(n))
		}
	}
}
