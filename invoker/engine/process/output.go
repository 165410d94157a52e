package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/engine/logs"
)

// output copies what a process prints into a log file of Docker's json-file
// form, with pieces of the same length, so that one collector reads both.
type output struct {
	path  string
	limit int64 // size at which the file is rotated, 0 for none
	ours  [2]*pipe
	their [2]*os.File
	wg    sync.WaitGroup

	mu   sync.Mutex
	file *os.File
	size int64
	line []byte
	torn bool // the last line has no end: the disk was full
}

// lingering is how long the pipe of a dead process is read when something that
// it started still has it open.
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
		o.ours[i], o.their[i] = &pipe{file: ours}, their
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
			_ = f.file.SetReadDeadline(time.Now().Add(lingering))
		}
	}
	o.wg.Wait()
}

func (o *output) close() error {
	o.finish()
	for _, f := range o.ours {
		if f != nil {
			_ = f.file.Close()
		}
	}
	if err := o.file.Close(); err != nil {
		return fmt.Errorf("close log file: %w", err)
	}
	return nil
}

// pipe is our end of one through which a process prints. What lies in it when
// the time is over is still read: on a busy machine the last words of a process
// may have waited for us all that time, and not for being printed.
type pipe struct {
	file *os.File
	late int // bytes read after the time
}

// pipeSize is more than a pipe holds (pipe(7): 64 KiB, and a MiB on
// request). Whatever comes beyond it was printed later.
const pipeSize = 1 << 20

// Read waits as the file does. When its time is over it only takes what is
// there.
func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.file.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) || p.late > pipeSize {
		return n, err
	}
	raw, failed := p.file.SyscallConn()
	if failed != nil {
		return 0, err
	}
	failed = raw.Control(func(fd uintptr) { n, _ = syscall.Read(int(fd), b) })
	if failed != nil || n <= 0 {
		return 0, err
	}
	p.late += n
	return n, nil
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
// the line is lost, and the next activation's log may be complete again. Of a
// line that was written in part only that one is lost.
func (o *output) write(stream string, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line = logs.AppendLine(o.line[:0], stream, time.Now(), text)
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

func (o *output) put(b []byte) int {
	n, _ := o.file.Write(b)
	o.size += int64(n)
	return n
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
	o.torn = false
	return nil
}
