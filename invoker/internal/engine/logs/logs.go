// Package logs reads the output of a container during one activation and converts it to
// the form of an activation record. It reads the log files of Docker's json-file driver;
// the other engines write the same form.
//
// Collector is the pure half: it turns lines into a result. Tail is the shell: it waits
// for the lines of one container. The package starts no goroutines.
package logs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Sentinel is the text that a runtime prints on stdout and on stderr when an
// activation ends.
const Sentinel = "XXX_THE_END_OF_A_WHISK_ACTIVATION_XXX"

// The texts below are the same as in OpenWhisk (core/entity Messages), because tools look
// for these texts.
const (
	failedText = "There was an issue while collecting your logs. Data might be missing."
	brokenText = "The action did not initialize or run as expected. Log data might be missing."
)

func truncatedText(limit int64) string {
	return fmt.Sprintf("Logs were truncated because the total bytes size exceeds the limit of %d bytes.", limit)
}

// timeWidth is the width of an RFC 3339 time with nanoseconds. Docker cuts
// trailing zeros; the padding keeps the columns in line.
const timeWidth = 30

// stampForm keeps all nine digits, so that `wsk activation logs --strip`,
// which wants a fraction, recognises the line.
const stampForm = "2006-01-02T15:04:05.000000000Z"

// recordLine gives one line as it stands in an activation record.
func recordLine(time, stream, text string) string {
	return fmt.Sprintf("%-*s %s: %s", timeWidth, time, stream, text)
}

// trimTerminator cuts one line feed, carriage return with line feed, or form
// feed off the end, as OpenWhisk does.
func trimTerminator(text string) string {
	switch {
	case strings.HasSuffix(text, "\r\n"):
		return text[:len(text)-2]
	case strings.HasSuffix(text, "\n"), strings.HasSuffix(text, "\f"):
		return text[:len(text)-1]
	}
	return text
}

// maxPiece is the longest run of text that Docker's log copier passes on in
// one piece (daemon/logger/copier.go).
const maxPiece = 16 << 10

// Line is one line of a container's log as Docker's json-file driver writes it
// (daemon/logger/jsonfilelog/jsonlog). A line that is longer than the driver's buffer is
// split into pieces, and only the last piece ends in a line feed.
type Line struct {
	Log    string `json:"log,omitempty"`
	Stream string `json:"stream"`
	Time   string `json:"time"` // RFC 3339 with a fraction
}

// parseLine reads one line of a json-file log, without its line feed. Keys it
// does not know are ignored.
func parseLine(raw []byte) (Line, error) {
	var line Line
	if err := json.Unmarshal(raw, &line); err != nil {
		return Line{}, fmt.Errorf("parse log line: %w", err)
	}
	if line.Stream == "" || line.Time == "" {
		return Line{}, errors.New("parse log line: stream or time is missing")
	}
	return line, nil
}

// AppendLine appends one line of a json-file log, with its line feed.
func AppendLine(dst []byte, stream string, at time.Time, text []byte) []byte {
	line := Line{Log: string(text), Stream: stream, Time: at.UTC().Format(time.RFC3339Nano)}
	return append(append(dst, encodeLine(line)...), '\n')
}

// encodeLine is the line in the log's form, without its line feed.
func encodeLine(line Line) []byte {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err) // three strings can always be encoded
	}
	return text
}
