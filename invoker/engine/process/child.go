package process

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/logs"
)

// child is one container: the proxy process, called the leader, and whatever
// it started.
type child struct {
	id      container.ID
	name    string
	dir     string
	limit   int64 // bytes of memory, 0 for none
	pid     int   // of the leader, and of its process group and session
	cmd     *exec.Cmd
	out     *logs.Writer
	streams [2]*logs.Stream // its stdout and stderr
	tail    *logs.Tail
	ended   chan struct{} // closed when the leader has ended
	wg      sync.WaitGroup

	ctx    context.Context // ends with Remove
	cancel context.CancelFunc

	mu        sync.Mutex
	reaped    bool             // the pid may belong to another process by now
	state     *os.ProcessState // from then on
	handedOut bool             // the caller has the id, so its death is reported
	removed   bool             // the caller has asked for its end, so it is not
	paused    bool
	oom       bool
}

func (c *child) logPath() string {
	return filepath.Join(c.dir, string(c.id)+"-json.log")
}

// kill ends the leader's process group, for its memory use or for another reason.
func (c *child) kill(oom bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oom = c.oom || oom && !c.reaped
	c.signalLocked(syscall.SIGKILL)
}

// signalLocked reaches the leader's process group. It answers false when the leader has
// ended: then the group's number may be another's.
func (c *child) signalLocked(s syscall.Signal) bool {
	if c.reaped {
		return false
	}
	return syscall.Kill(-c.pid, s) == nil
}

// printDelay is how long the output of a dead process is read when something that
// it started still has it open: long enough for a busy machine to read what the
// process itself has printed.
const printDelay = time.Second

// await waits for the leader's end and ends its group with it, as a container
// ends with its first process. While the leader is a zombie its number is
// safe.
func (e *Engine) await(c *child) {
	c.waitForEnd()
	c.mu.Lock()
	c.signalLocked(syscall.SIGKILL)
	c.state, _ = c.cmd.Process.Wait()
	c.reaped = true
	news := c.handedOut && !c.removed
	c.mu.Unlock()
	_ = c.cmd.Wait() // for its output alone
	for _, s := range c.streams {
		s.End()
	}
	close(c.ended)
	if news {
		e.log.Warn("a process ended by itself", "container", c.id, "state", c.state)
		e.reportDeath(c.id)
	}
}

// waitForEnd waits until the leader has ended, and leaves it a zombie: it is reaped
// by await alone.
func (c *child) waitForEnd() {
	for {
		err := unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// stopped reports whether the leader stands still, or goes no more for another
// reason.
func (c *child) stopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped || !c.paused {
		return true
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && info.Signo != 0 || err == unix.ECHILD
}

// watched reports whether the container can use memory at all.
func (c *child) watched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.reaped && !c.paused
}

// starter starts processes from one thread that lives as long as the engine.
// The kernel's parent-death signal is sent when the thread that started the
// process ends (prctl(2), PR_SET_PDEATHSIG), not when the whole process does.
type starter struct {
	calls chan func()
	stop  chan struct{}
	wg    sync.WaitGroup
}

func newStarter() *starter {
	s := &starter{calls: make(chan func()), stop: make(chan struct{})}
	s.wg.Go(func() {
		// Never unlocked: the thread ends with the goroutine. By then all its
		// children have ended.
		runtime.LockOSThread()
		for {
			select {
			case call := <-s.calls:
				call()
			case <-s.stop:
				return
			}
		}
	})
	return s
}

func (s *starter) start(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	select {
	case s.calls <- func() { done <- cmd.Start() }:
		return <-done
	case <-s.stop:
		return errClosed
	}
}

func (s *starter) close() {
	close(s.stop)
	s.wg.Wait()
}
