package kafka

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
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
			check.EqualSlices(b.t, got, ackOf(1, 1).Shrink().Encode(), "over %s limit", c.name)
			s := p.Stats()
			check.Equal(b.t, s.Shrunk, 1, "over %s limit: stats", c.name)
			check.Equal(b.t, s.Sent, 1, "over %s limit: stats", c.name)
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
		check.NoError(b.t, p.Close(b.ctx()))
		check.Equal(b.t, p.Stats().Dropped, 1)
		for i := range 41 {
			err := <-reported
			check.That(b.t, (err != nil) == (i == 21), "message %d: %v", i, err)
			if i == 21 && !errors.Is(err, errTooLarge) {
				b.t.Errorf("message %d: %v", i, err)
			}
		}
		for i, r := range b.take(topic, 40) {
			check.Equal(check.Must(b.t), string(r.Value[:4]), fmt.Sprintf("%04d", i), "record %d", i)
		}
	})
}
