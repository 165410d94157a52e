package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/logs"
)

// output copies what a process prints into a log file of Docker's json-file
// form, with pieces of the same length, so that one collector reads both.
type output struct {
	path  string
	limit int64 // size at which the file is rotated, 0 for none
	ours  [2]*os.File
	their [2]*os.File
	wg    sync.WaitGroup

	mu   sync.Mutex
	file *os.File
	size int64
	line []byte
}

// lingering is how long the last words of a dead process may take from the
// pipe to the file, when something it started still holds the pipe.
const lingering = 50 * time.Millisecond

func openOutput(path string, limit int64) (*output, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make log file: %w", err)
	}
	return &output{path: path, limit: limit, file: file}, nil
}

// attach gives the command its ends of the pipes.
func (o *output) attach(cmd *exec.Cmd) error {
	for i := range o.ours {
		ours, their, err := os.Pipe()
		if err != nil {
			o.started()
			return fmt.Errorf("make pipe: %w", err)
		}
		o.ours[i], o.their[i] = ours, their
	}
	cmd.Stdout, cmd.Stderr = o.their[0], o.their[1]
	return nil
}

// started closes the command's ends, which it has by now, and copies from ours.
func (o *output) started() {
	for i, stream := range []string{"stdout", "stderr"} {
		if o.their[i] == nil {
			continue
		}
		_ = o.their[i].Close()
		o.wg.Go(func() { o.copy(stream, o.ours[i]) })
	}
}

// finish waits until everything that was printed is in the file. A process
// that outlived the leader may hold a pipe; it is not waited for.
func (o *output) finish() {
	for _, f := range o.ours {
		if f != nil {
			_ = f.SetReadDeadline(time.Now().Add(lingering))
		}
	}
	o.wg.Wait()
}

func (o *output) close() error {
	o.finish()
	for _, f := range o.ours {
		if f != nil {
			_ = f.Close()
		}
	}
	if err := o.file.Close(); err != nil {
		return fmt.Errorf("close log file: %w", err)
	}
	return nil
}

// copy cuts a stream into lines as Docker's copier does: a line longer than
// its buffer comes in pieces of the buffer's length, and only the last one has
// a line feed. Text at the end gets the line feed that it lacks.
func (o *output) copy(stream string, from io.Reader) {
	buf := make([]byte, 0, logs.MaxPiece)
	for {
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		rest := o.lines(stream, buf)
		if err != nil && len(rest) > 0 {
			o.lines(stream, append(rest, '\n'))
		}
		if err != nil {
			return
		}
		if len(rest) == cap(buf) {
			o.write(stream, rest)
			rest = nil
		}
		buf = buf[:copy(buf[:cap(buf)], rest)]
	}
}

// lines writes the whole lines of buf and gives what is left.
func (o *output) lines(stream string, buf []byte) []byte {
	for {
		n := bytes.IndexByte(buf, '\n')
		if n < 0 {
			return buf
		}
		o.write(stream, buf[:n+1])
		buf = buf[n+1:]
	}
}

// write appends one line to the file. An error is not the action's business:
// the line is lost, and the next activation's log may be complete again.
func (o *output) write(stream string, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line = logs.AppendLine(o.line[:0], stream, time.Now(), text)
	if o.limit > 0 && o.size > 0 && o.size+int64(len(o.line)) > o.limit {
		_ = o.rotate()
	}
	n, _ := o.file.Write(o.line)
	o.size += int64(n)
}

// rotate keeps one older file, as Docker names it. Its reader finds it there.
func (o *output) rotate() error {
	if err := os.Rename(o.path, o.path+".1"); err != nil {
		return err
	}
	file, err := os.OpenFile(o.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return errors.Join(err, os.Rename(o.path+".1", o.path))
	}
	_ = o.file.Close()
	o.file, o.size = file, 0
	return nil
}
