package logs

import (
	"bytes"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// Collector turns the raw lines of one activation into the lines of its record. It is
// pure: the caller passes the lines and reports the end of the reading.
//
// A line ends the activation's output on its stream if its text ends in the sentinel. A
// sentinel in the middle of a line is the user's own text and is kept. A user can end
// the reading early by printing a sentinel, once. That neither flags the result nor
// costs the container.
type Collector struct {
	req       container.LogRequest
	lines     []string
	raw       [][]byte // the same lines as the log has them, where they are wanted
	size      int64    // bytes of the lines kept so far, each with its line feed
	ends      [2]int
	pieces    [2]piece
	truncated bool
	lost      bool
}

// piece remembers a line without its end whose text may be the first half of
// a sentinel that the log driver cut in two.
type piece struct {
	half  int // bytes of the sentinel at the end of the text, 0 for none
	kept  bool
	index int // where the line lies in lines, if it was kept
	time  string
	text  string
}

// newCollector starts the collection for one activation.
func newCollector(req container.LogRequest) *Collector {
	return &Collector{req: req}
}

// Add takes the next line of the log, without its line feed.
func (c *Collector) Add(raw []byte) {
	if c.truncated && !mayEnd(raw) {
		return
	}
	line, err := parseLine(raw)
	if err != nil {
		c.lost = true // a line that the daemon wrote half before it died
		return
	}
	stream := streamIndex(line.Stream)
	open := c.pieces[stream]
	c.pieces[stream] = piece{}
	if open.half > 0 && trimTerminator(line.Log) == Sentinel[open.half:] {
		c.cutHalf(open, line.Stream)
		c.ends[stream]++
		return
	}
	if before, ok := strings.CutSuffix(trimTerminator(line.Log), Sentinel); ok {
		c.ends[stream]++
		if before != "" { // text that the user did not end with a line feed
			line.Log = before
			if c.addLine(line, len(raw)) && c.req.Raw {
				c.raw = append(c.raw, encodeLine(line))
			}
		}
		return
	}
	kept := c.addLine(line, len(raw))
	if kept && c.req.Raw {
		c.raw = append(c.raw, bytes.Clone(raw))
	}
	if !strings.HasSuffix(line.Log, "\n") {
		c.pieces[stream] = piece{half: sentinelHalf(line.Log), kept: kept, index: len(c.lines) - 1, time: line.Time, text: line.Log}
	}
}

// mayEnd reports whether a line could hold a sentinel or a part of one. A line
// past the limit need not be parsed if not.
func mayEnd(raw []byte) bool { return bytes.IndexByte(raw, Sentinel[0]) >= 0 }

// addLine adds a line to the result if the limit allows. The limit counts the
// bytes of the log file, as OpenWhisk does.
func (c *Collector) addLine(line Line, rawLen int) bool {
	if c.truncated {
		return false
	}
	if c.size+int64(rawLen)+1 > c.req.LimitBytes {
		c.truncated = true
		return false
	}
	c.size += int64(rawLen) + 1
	c.lines = append(c.lines, recordLine(line.Time, line.Stream, trimTerminator(line.Log)))
	return true
}

// sentinelHalf gives the length of the longest end of text that a sentinel
// could begin with.
func sentinelHalf(text string) int {
	for n := min(len(Sentinel)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, Sentinel[:n]) {
			return n
		}
	}
	return 0
}

// cutHalf takes the first half of a sentinel out of the line that ended in it.
func (c *Collector) cutHalf(p piece, stream string) {
	if !p.kept {
		return
	}
	text := p.text[:len(p.text)-p.half]
	c.lines[p.index] = recordLine(p.time, stream, text)
	if c.req.Raw {
		c.raw[p.index] = encodeLine(Line{Log: text, Stream: stream, Time: p.time})
	}
}

func streamIndex(stream string) int {
	if stream == "stderr" {
		return 1
	}
	return 0
}

// counter returns a collector that continues from here and only finds the end of the
// output. It does not keep lines.
func (c *Collector) counter() *Collector {
	return &Collector{req: container.LogRequest{LimitBytes: -1}, ends: c.ends, pieces: c.pieces, truncated: true}
}

// lose records that something of the log could not be read. It is a no-op past the
// limit, where nothing is kept.
func (c *Collector) lose() { c.lost = c.lost || !c.truncated }

// Ended reports whether two sentinels were seen, on whatever streams: that is
// when OpenWhisk stops.
func (c *Collector) Ended() bool { return c.ends[0]+c.ends[1] >= 2 }

// endedOnBoth reports whether each stream has brought its sentinel, as every
// known runtime does it.
func (c *Collector) endedOnBoth() bool { return c.ends[0] > 0 && c.ends[1] > 0 }

// result closes the collection. The time stamps the lines that it adds.
func (c *Collector) result(at time.Time) container.LogResult {
	incomplete := c.lost || (c.req.WaitForSentinel && !c.Ended())
	switch {
	case c.truncated:
		if c.lost {
			c.stamp(at, failedText)
		}
		c.stamp(at, truncatedText(c.req.LimitBytes))
	case incomplete:
		c.stamp(at, failedText)
	}
	if c.req.Failed {
		c.stamp(at, brokenText)
	}
	return container.LogResult{Lines: c.lines, Raw: c.raw, Truncated: c.truncated, Incomplete: incomplete}
}

// stamp adds a line of the collector's own.
func (c *Collector) stamp(at time.Time, text string) {
	time := at.UTC().Format(stampForm)
	c.lines = append(c.lines, recordLine(time, "stderr", text))
	if c.req.Raw {
		c.raw = append(c.raw, encodeLine(Line{Log: text, Stream: "stderr", Time: time}))
	}
}

// Unreadable is the result when nothing of a log could be read: one bare line,
// as OpenWhisk writes it.
func Unreadable() container.LogResult {
	return container.LogResult{Lines: []string{failedText}, Incomplete: true}
}
