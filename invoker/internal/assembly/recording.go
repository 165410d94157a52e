package assembly

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
)

// recording writes the events and orders of the GPU scheduler to a file, for gpuwhisk sim
// replay. A recording with a gap cannot be replayed. So it ends for good when the file is full
// or the disk is too slow, with a line in the log, and the invoker goes on. One goroutine
// writes; it ends with Close.
type recording struct {
	path      string
	file      *os.File
	log       *slog.Logger
	lines     chan []byte
	remaining int64 // bytes that may be written; the caller's
	ended     bool  // the caller's
	done      chan struct{}
	err       error // the goroutine's, then Close's
}

// recordingLines is how many lines may wait for the disk: seconds of a busy scheduler.
const recordingLines = 65536

// newRecording begins a recording in the file path, of at most size bytes. An existing file
// is renamed to path.old first. A goroutine writes the recording until Close.
func newRecording(path string, size int64, log *slog.Logger) (*recording, error) {
	if err := os.Rename(path, path+".old"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("keep the last recording of GPU scheduling (whisk.gpu.record): %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the recording of GPU scheduling (whisk.gpu.record): %w", err)
	}
	l := &recording{path: path, file: f, log: log, remaining: size, lines: make(chan []byte, recordingLines), done: make(chan struct{})}
	go l.write()
	return l, nil
}

func (g *gpus) openRecording(context.Context) (hooks, error) {
	c := g.c.GPU
	if c.Record == "" || len(g.devices) == 0 {
		return hooks{}, nil
	}
	l, err := newRecording(c.Record, int64(c.RecordSize), g.Log)
	if err != nil {
		return hooks{}, err
	}
	g.recording = l
	return hooks{close: closer(l.Close)}, nil
}

// errRecordingEnded is the error of a line after the end of the recording.
var errRecordingEnded = errors.New("the recording of GPU scheduling has ended")

// Write takes one line. It is called by one goroutine, and does not block.
func (l *recording) Write(line []byte) (int, error) {
	if l.ended {
		return 0, errRecordingEnded
	}
	if l.remaining -= int64(len(line)); l.remaining < 0 {
		l.end("it has the size of whisk.gpu.record-size")
		return 0, errRecordingEnded
	}
	select {
	case l.lines <- bytes.Clone(line):
		return len(line), nil
	default:
		l.end("the disk is too slow")
		return 0, errRecordingEnded
	}
}

func (l *recording) end(why string) {
	l.ended = true
	l.log.Warn("recording of GPU scheduling ends here", "file", l.path, "reason", why)
}

// write writes lines until the channel is closed. It flushes when no line waits.
func (l *recording) write() {
	defer close(l.done)
	w := bufio.NewWriter(l.file)
	for line := range l.lines {
		_, err := w.Write(line)
		if len(l.lines) == 0 && err == nil {
			err = w.Flush()
		}
		if err != nil && l.err == nil {
			l.err = err
			l.log.Error("write the recording of GPU scheduling", "file", l.path, "error", err)
		}
	}
	if err := errors.Join(w.Flush(), l.file.Close()); l.err == nil {
		l.err = err
	}
}

// Close writes the rest. Nothing may be written after Close.
func (l *recording) Close() error {
	close(l.lines)
	<-l.done
	return l.err
}
