package controller

import (
	"bytes"
	"log/slog"
	"testing"
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
