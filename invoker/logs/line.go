package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Line is one line of a container's log. A line longer than the driver's
// buffer comes in pieces, and only the last of them ends in a line feed.
type Line struct {
	Log    string `json:"log"`
	Stream string `json:"stream"`
	Time   string `json:"time"`
}

var errNoStream = errors.New("stream or time is missing")

// ParseLine reads one line of a json-file log, without its line feed. Keys it
// does not know are ignored.
func ParseLine(raw []byte) (Line, error) {
	if line, ok := parsePlain(raw); ok {
		return line, nil
	}
	var line Line
	if err := json.Unmarshal(raw, &line); err != nil {
		return Line{}, fmt.Errorf("parse log line: %w", err)
	}
	if line.Stream == "" || line.Time == "" {
		return Line{}, fmt.Errorf("parse log line: %w", errNoStream)
	}
	return line, nil
}

// parsePlain reads the very form that Docker writes, without reflection. For
// anything else it answers false, and the general parser decides.
func parsePlain(raw []byte) (Line, bool) {
	rest, ok := bytes.CutPrefix(raw, []byte(`{"log":"`))
	if !ok {
		return Line{}, false
	}
	text, rest, ok := plainString(rest)
	if !ok {
		return Line{}, false
	}
	stream, rest, ok := plainStream(rest)
	if !ok {
		return Line{}, false
	}
	at, rest, ok := plainString(rest)
	if !ok || at == "" || len(rest) != 1 || rest[0] != '}' {
		return Line{}, false
	}
	return Line{Log: text, Stream: stream, Time: at}, true
}

// plainStream reads from behind the text up to the opening quote of the time.
// There are two streams, so their names cost no allocation.
func plainStream(b []byte) (string, []byte, bool) {
	if rest, ok := bytes.CutPrefix(b, []byte(`,"stream":"stdout","time":"`)); ok {
		return "stdout", rest, true
	}
	if rest, ok := bytes.CutPrefix(b, []byte(`,"stream":"stderr","time":"`)); ok {
		return "stderr", rest, true
	}
	return "", nil, false
}

// plainString reads a JSON string up to its closing quote and gives what
// follows. It refuses what is rare or doubtful: control bytes, invalid UTF-8,
// and escapes beyond ASCII.
func plainString(b []byte) (string, []byte, bool) {
	n := bytes.IndexAny(b, `"\`)
	if n < 0 || !plainBytes(b[:n]) {
		return "", nil, false
	}
	if b[n] == '"' {
		return string(b[:n]), b[n+1:], true
	}
	// Most lines have one escape, the line feed at their end.
	out := append(make([]byte, 0, n+16), b[:n]...)
	for b = b[n:]; ; {
		if b[0] == '"' {
			return string(out), b[1:], true
		}
		c, size, ok := escaped(b)
		if !ok {
			return "", nil, false
		}
		out, b = append(out, c), b[size:]
		n = bytes.IndexAny(b, `"\`)
		if n < 0 || !plainBytes(b[:n]) {
			return "", nil, false
		}
		out, b = append(out, b[:n]...), b[n:]
	}
}

func plainBytes(b []byte) bool {
	for _, c := range b {
		if c < ' ' {
			return false
		}
	}
	return utf8.Valid(b)
}

// escaped reads one escape sequence that stands for an ASCII character.
func escaped(b []byte) (c byte, size int, ok bool) {
	if len(b) < 2 {
		return 0, 0, false
	}
	switch b[1] {
	case 'n':
		return '\n', 2, true
	case 't':
		return '\t', 2, true
	case 'r':
		return '\r', 2, true
	case '"', '\\', '/':
		return b[1], 2, true
	case 'u':
		return escapedASCII(b)
	}
	return 0, 0, false
}

func escapedASCII(b []byte) (c byte, size int, ok bool) {
	if len(b) < 6 || b[2] != '0' || b[3] != '0' {
		return 0, 0, false
	}
	hi, ok1 := hexDigit(b[4])
	lo, ok2 := hexDigit(b[5])
	if !ok1 || !ok2 || hi > 7 {
		return 0, 0, false
	}
	return hi<<4 | lo, 6, true
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
