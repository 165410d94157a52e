package controller

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestDamagedMessagesAreOneLine: damaged pings and acks cannot fill the disk with log
// lines.
func TestDamagedMessagesAreOneLine(t *testing.T) {
	var text bytes.Buffer
	c := New(Config{Log: slog.New(slog.NewTextHandler(&text, nil))})
	defer c.cancel()
	for range 1000 {
		c.onPing([]byte("{"))
		c.onAck([]byte("{"))
	}
	lines := bytes.Count(text.Bytes(), []byte("\n"))
	check.AtLeast(t, lines, 1)
	check.AtMost(t, lines, 2, "one a minute")
}

// TestHealthTest: an invoker is up once it has carried out its test without an error
// of the system.
func TestHealthTest(t *testing.T) {
	c := New(Config{Log: slog.New(slog.DiscardHandler)})
	defer c.cancel()
	c.closed = true // nothing is sent
	invoker := activation.Instance{ID: 3}
	c.onPing(activation.Ping{Instance: invoker, Enabled: true}.Encode())
	other := activation.NewTransID("another", now(), false)
	c.onAck(activation.NewCompletion(other, newID(), false, invoker).Encode())
	c.onAck(activation.NewCompletion(c.health, newID(), true, invoker).Encode())
	check.Equal(t, c.pool.members[3].state, Unhealthy, "after the ack of another activation, and of a test that failed")
	c.onAck(activation.NewCompletion(c.health, newID(), false, invoker).Encode())
	check.Equal(t, c.pool.members[3].state, Healthy)
}

// TestResultsReachTheirCallers: the first answer reaches the caller that waits, whatever
// comes before and after.
func TestResultsReachTheirCallers(t *testing.T) {
	c := New(Config{Log: slog.New(slog.DiscardHandler)})
	defer c.cancel()
	id, trans, invoker := newID(), activation.NewTransID("t", now(), false), activation.Instance{ID: 3}
	record := &activation.Record{ActivationID: id, Namespace: "guest", Name: "a", Subject: "guest", Version: "0.0.1", Start: 1}
	result := activation.NewResult(trans, record).Encode()
	answers := make(chan *activation.Record, 1)
	c.callers.Store(id, answers)
	c.onAck(activation.NewCompletion(trans, id, false, invoker).Encode()) // the completion may overtake the result
	c.onAck(result)
	c.onAck(result) // nobody reads the second ack, and onAck must not block
	got := check.Receive(t, answers)
	check.That(check.Must(t), got != nil)
	check.Equal(t, got.ActivationID, id)
	c.callers.Delete(id)
	c.onAck(result)
	check.Equal(t, len(answers), 0, "after the caller had left")
}
