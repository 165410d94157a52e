package logs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

// Writer is the log file of a container, in Docker's json-file form.
type Writer struct {
	path  string
	limit int64 // size at which the file is rotated, 0 for none

	mu   sync.Mutex
	file *os.File
	size int64
	line []byte
	torn bool // the last line is incomplete because the disk was full
}

// OpenWriter makes the log file at path, where none may be yet. The file is rotated when it
// reaches limit bytes; 0 means no limit.
func OpenWriter(path string, limit int64) (*Writer, error) {
	file, err := makeLog(path)
	if err != nil {
		return nil, fmt.Errorf("make log file: %w", err)
	}
	return &Writer{path: path, limit: limit, file: file}, nil
}

// makeLog creates a log file. It fails if the path exists, because the process may have
// put a pipe there.
func makeLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
}

// Files is how many files a container's log has at most, the current one included. An
// activation that prints a little more than its limit rotates the log twice. With three
// files its reader, however late, still finds by their names that no file is missing.
const Files = 3

// Rotate begins a new file. It keeps the older files, as Docker names them, where the
// reader finds them.
func (o *Writer) Rotate() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rotate()
}

// Close closes the file. The caller has ended the streams.
func (o *Writer) Close() error {
	if err := o.file.Close(); err != nil {
		return fmt.Errorf("close log file: %w", err)
	}
	return nil
}

// Stream writes the output of one stream of a process into the log file, in the same
// form as Docker. A line longer than maxPiece is split, and only its last piece has a
// line feed.
type Stream struct {
	name   string
	writer *Writer
	rest   []byte // of a line
}

// Stream returns a writer for one of the container's streams, stdout or stderr.
func (o *Writer) Stream(name string) *Stream { return &Stream{name: name, writer: o} }

// Write never fails: the process must not notice that its log is incomplete.
func (s *Stream) Write(text []byte) (int, error) {
	s.rest = append(s.rest, text...)
	done := 0
	for {
		rest := s.rest[done:]
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 || n > maxPiece {
			if len(rest) < maxPiece {
				break
			}
			n = maxPiece
		}
		s.writer.write(s.name, rest[:n])
		done += n
	}
	s.rest = s.rest[:copy(s.rest, s.rest[done:])]
	return len(text), nil
}

// End gives text at the end the line feed that it lacks.
func (s *Stream) End() {
	if len(s.rest) > 0 {
		s.writer.write(s.name, append(s.rest, '\n'))
		s.rest = nil
	}
}

// write appends one line to the file. An error does not reach the action: the line
// is lost, and the next activation's log may be complete again. Of a
// line that was written in part only that one is lost.
func (o *Writer) write(stream string, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line = AppendLine(o.line[:0], stream, time.Now(), text)
	if o.limit > 0 && o.size > 0 && o.size+int64(len(o.line)) > o.limit {
		_ = o.rotate()
	}
	if o.torn {
		o.torn = o.put([]byte{'\n'}) == 0
	}
	if !o.torn {
		n := o.put(o.line)
		o.torn = n > 0 && n < len(o.line)
	}
}

func (o *Writer) put(b []byte) int {
	n, _ := o.file.Write(b)
	o.size += int64(n)
	return n
}

func (o *Writer) rotate() error {
	for n := Files - 1; n > 1; n-- {
		// Without this older file, or where its process is in the way, there is one less.
		_ = os.Rename(o.path+"."+strconv.Itoa(n-1), o.path+"."+strconv.Itoa(n))
	}
	if err := os.Rename(o.path, o.path+".1"); err != nil {
		return err
	}
	file, err := makeLog(o.path)
	if err != nil {
		return errors.Join(err, os.Rename(o.path+".1", o.path))
	}
	_ = o.file.Close()
	o.file, o.size = file, 0
	o.torn = false
	return nil
}
