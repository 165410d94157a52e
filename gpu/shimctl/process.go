package shimctl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

const (
	// outQueue holds the frames to a process that does not read: a few orders and heartbeats.
	// A process that is further behind gets no more until it reads.
	outQueue = 32
	// writeTimeout: a process reads within this, or is not served any more.
	writeTimeout = 5 * time.Second
	// A shim reports its usage at most a hundred times a second by itself. Frames beyond this
	// rate, of all processes of a container together, stay in the sockets' buffers, which
	// costs nothing.
	framesPerSecond = 100 * DefaultProcesses
	frameBurst      = framesPerSecond
	// helloTimeout: a shim identifies itself as soon as it connects.
	helloTimeout = 5 * time.Second
	// endGrace: a process that dies closes its sockets a moment before it is
	// dead.
	endGrace = 500 * time.Millisecond
)

// Outside is below the numbers of processes that our process namespace does not
// show. Those have the numbers that they have in their own, which they report
// themselves: it distinguishes a container's processes, and nothing else.
const Outside = 1 << 30

// maxPID is above all numbers that Linux gives to processes.
const maxPID = 1 << 22

// process is one connection of a shim.
type process struct {
	pid       int    // 0: outside, and not reported yet
	backend   uint32 // of its hello
	conn      *net.UnixConn
	container *Container
	pidfd     pidfd
	out       chan []byte
	queued    atomic.Int32  // frames in out or on their way from there
	gone      chan struct{} // closed when reading has ended

	// Guarded by container.mu.
	lastFrame time.Time
	silent    bool
	gotHello  bool
	account
}

// send sends a frame at once if the socket takes it, which avoids a goroutine switch;
// otherwise it queues the frame. A process that is too far behind does not get the frame. The
// frames queued before it then end the connection, at the latest after writeTimeout. The
// caller must hold container.mu.
func (p *process) send(b []byte) {
	if p.queued.Load() == 0 {
		if b = b[sendNow(p.conn, b):]; len(b) == 0 {
			return
		}
	}
	select {
	case p.out <- b:
		p.queued.Add(1)
	default:
	}
}

// hangUp ends the connection; its goroutines follow.
func (p *process) hangUp() { _ = p.conn.Close() }

func (p *process) write() {
	for {
		select {
		case b := <-p.out:
			_ = p.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := p.conn.Write(b); err != nil {
				p.hangUp()
				return
			}
			p.queued.Add(-1)
		case <-p.gone:
			return
		}
	}
}

func (p *process) read() {
	c := p.container
	err := p.readFrames()
	p.hangUp()
	close(p.gone)
	if err != nil && !ended(err) {
		c.refuse(fmt.Errorf("process %d: %w", p.pid, err))
	}
	c.left(p, p.pidfd.ended(endGrace))
}

// ended reports whether a connection broke as it does when a process ends, with
// or without frames of ours unread.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET)
}

// readFrames reads frames of a process until its connection ends or one is malformed.
func (p *process) readFrames() error {
	r := bufio.NewReaderSize(p.conn, 4096)
	buf := make([]byte, frameMax)
	_ = p.conn.SetReadDeadline(time.Now().Add(helloTimeout))
	for {
		f, err := readFrame(r, buf)
		if err != nil {
			return err
		}
		awaited, err := p.handle(f)
		if err != nil {
			return err
		}
		if wait := p.container.frameDelay(awaited, time.Now()); wait > 0 && !retry.SleepUnless(p.container.ctl.stop, wait) {
			return nil
		}
	}
}

// handle acts on one frame, and reports whether it was the answer to a question of
// ours. The first must be a hello of our version.
func (p *process) handle(f frame) (awaited bool, err error) {
	c := p.container
	if !p.gotHello {
		if f.kind != typeHello {
			return false, fmt.Errorf("%w: type %d before hello", errFrame, f.kind)
		}
		// The shim is sent our version also if it has another, as the reason why
		// it is not served.
		if f.hello.Version != version {
			_, _ = p.conn.Write(encode(typeHello, 0, version, 0))
			return false, fmt.Errorf("shim of version %d, want %d", f.hello.Version, version)
		}
		p.gotHello, p.backend = true, f.hello.Backend
		if p.pid == 0 {
			p.pid = Outside + 1 + int(f.hello.PID%maxPID)
		}
		_ = p.conn.SetReadDeadline(time.Time{})
		return false, c.joined(p)
	}
	c.alive(p)
	switch f.kind {
	case typeUsage:
		u := c.bounded(f.usage)
		c.holds(p, u)
		c.ctl.events.Usage(c.id, p.pid, u)
		return c.reported(p, f.epoch, u), nil
	case typeWant:
		c.wants(p, f.epoch)
	case typeRefused:
		c.ctl.events.Refused(c.id, p.pid, f.refused)
	case typeDone:
		return c.finished(p, f.epoch, f.done), nil
	}
	return false, nil
}

// frameDelay counts a frame of any of the container's processes, and reports how long
// the process is not to be read.
func (c *Container) frameDelay(awaited bool, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if awaited {
		c.frames.refund()
	}
	return c.frames.next(now)
}

// rateLimit bounds how fast frames, or connections, are taken.
type rateLimit struct {
	left             float64
	at               time.Time
	perSecond, burst float64
}

// next takes one from the allowance and reports how long to wait.
func (r *rateLimit) next(now time.Time) time.Duration {
	r.left = min(r.burst, r.left+now.Sub(r.at).Seconds()*r.perSecond)
	r.at = now
	r.left--
	if r.left >= 0 {
		return 0
	}
	return time.Duration(-r.left / r.perSecond * float64(time.Second))
}

// refund returns the rate used by an answer and the frames before it, because a process that
// gets many questions may send many answers.
func (r *rateLimit) refund() { r.left = min(r.burst, r.left+4) }
