package docker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

// frame gives one message as the daemon sends it.
func frame(kind byte, text string) []byte {
	head := make([]byte, 8)
	head[0] = kind
	binary.BigEndian.PutUint32(head[4:], uint32(len(text)))
	return append(head, text...)
}

func TestReadEntry(t *testing.T) {
	at := time.Date(2024, 6, 10, 6, 13, 20, 250e6, time.UTC)
	cases := []struct {
		name   string
		frame  []byte
		stream string
		text   string
	}{
		{"stdout", frame(1, "2024-06-10T06:13:20.250000000Z hi there\n"), "stdout", "hi there\n"},
		{"stderr", frame(2, "2024-06-10T06:13:20.250000000Z \n"), "stderr", "\n"},
		{"piece", frame(1, "2024-06-10T06:13:20.250000000Z x"), "stdout", "x"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := readEntry(bufio.NewReader(bytes.NewReader(c.frame)))
			if err != nil || !got.at.Equal(at) || got.stream != c.stream || string(got.text) != c.text {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	for name, raw := range map[string][]byte{
		"cut head": {1, 0, 0}, "cut text": frame(1, "2024-06-10T06:13:20Z hi")[:12], "no time": frame(1, "hi\n"),
		"daemon's error": frame(3, "2024-06-10T06:13:20Z no\n"), "endless": {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
	} {
		if got, err := readEntry(bufio.NewReader(bytes.NewReader(raw))); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func FuzzReadEntry(f *testing.F) {
	f.Add(frame(1, "2024-06-10T06:13:20.250000000Z hi\n"))
	f.Add(frame(2, ""))
	f.Add([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := bufio.NewReader(bytes.NewReader(raw))
		for {
			e, err := readEntry(in)
			if err != nil {
				return
			}
			if e.stream != "stdout" && e.stream != "stderr" || e.at.IsZero() && e.at.Year() != 1 {
				t.Fatalf("got %+v", e)
			}
		}
	})
}
