package controller

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// TestDamagedMessagesAreOneLine: whoever may write to the topics of pings and acks
// cannot fill the disk with the log.
func TestDamagedMessagesAreOneLine(t *testing.T) {
	var text bytes.Buffer
	c := New(Config{Log: slog.New(slog.NewTextHandler(&text, nil))})
	defer c.cancel()
	for range 1000 {
		c.onPing([]byte("{"))
		c.onAck([]byte("{"))
	}
	if n := bytes.Count(text.Bytes(), []byte("\n")); n == 0 || n > 2 {
		t.Errorf("%d lines, want one a minute", n)
	}
}

// TestOneHealthTestAtATime: until the test of an invoker is answered, no other is sent.
func TestOneHealthTestAtATime(t *testing.T) {
	c := New(Config{Log: slog.New(slog.DiscardHandler)})
	defer c.cancel()
	c.closed = true // nothing is sent
	invoker := activation.Instance{ID: 3}
	c.onPing(activation.Ping{Instance: invoker, Enabled: true}.Encode())
	if !c.pool.members[3].testing {
		t.Fatal("the test is not under way")
	}
	c.onAck(activation.NewCompletion(c.health, NewID(), true, invoker).Encode())
	if c.pool.members[3].testing {
		t.Error("the test is under way after its ack")
	}
}
