package kafka

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
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

// An ack that is over its topic's limit goes without its result.
func TestAckTooLargeIsShrunk(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		for _, c := range []struct {
			name, limit string
			bytes       int
		}{
			{"the default", fmt.Sprint(MaxMessageBytes), MaxMessageBytes},
			{"a small", "20000", 30000},
		} {
			topic := b.topic("max.message.bytes=" + c.limit)
			p := b.producer()
			reported := make(chan error, 1)
			b.must(p.SendAck(b.ctx(), topic, ackOf(1, c.bytes), func(err error) { reported <- err }))
			b.must(<-reported)
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
			b.must(p.Send(b.ctx(), topic, value, func(err error) { reported <- err }))
			if i == 20 {
				b.must(p.Send(b.ctx(), topic, make([]byte, 6000), func(err error) { reported <- err }))
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
