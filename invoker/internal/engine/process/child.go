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

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// child is one container: the proxy process, called the leader, and its descendants.
type child struct {
	id      container.ID
	name    string
	dir     string
	limit   int64 // of memory in bytes; 0: none
	pid     int   // of the leader, and of its process group and session
	cmd     *exec.Cmd
	output  *logs.Writer
	streams [2]*logs.Stream // its stdout and stderr
	tail    *logs.Tail
	ended   chan struct{} // closed when the leader has ended
	wg      sync.WaitGroup

	ctx    context.Context // ends with Remove
	cancel context.CancelFunc

	mu        sync.Mutex
	reaped    bool             // another process may have the pid now
	state     *os.ProcessState // set together with reaped
	handedOut bool             // the caller has the id, so a death is reported
	removed   bool             // the caller has removed the child, so its death is not reported
	paused    bool
	oom       bool
}

func (c *child) logPath() string {
	return filepath.Join(c.dir, string(c.id)+"-json.log")
}

// kill kills the leader's process group. oom reports whether memory use is the reason.
func (c *child) kill(oom bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oom = c.oom || oom && !c.reaped
	c.signalLocked(syscall.SIGKILL)
}

// signalLocked signals the leader's process group. It returns false if the leader has
// been reaped, because the group's number may then belong to others. The caller must
// hold mu.
func (c *child) signalLocked(s syscall.Signal) bool {
	if c.reaped {
		return false
	}
	return syscall.Kill(-c.pid, s) == nil
}

// printDelay is how long the output of a dead process is read if a descendant still has
// it open. It is long enough for a busy machine to read all output of the process
// itself.
const printDelay = time.Second

// await waits for the end of the leader, and then kills its group, as a container ends
// with its first process. While the leader is a zombie, its pid cannot be reused.
func (e *Engine) await(c *child) {
	c.waitForEnd()
	c.mu.Lock()
	c.signalLocked(syscall.SIGKILL)
	c.state, _ = c.cmd.Process.Wait()
	c.reaped = true
	news := c.handedOut && !c.removed
	c.mu.Unlock()
	_ = c.cmd.Wait() // only to finish its output
	for _, s := range c.streams {
		s.End()
	}
	close(c.ended)
	if news {
		e.log.Warn("a process ended by itself", "container", c.id, "state", c.state)
		e.reportDeath(c.id)
	}
}

// waitForEnd blocks until the leader has ended. It leaves a zombie, which only await
// reaps.
func (c *child) waitForEnd() {
	for {
		err := unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// stopped reports whether the leader is stopped, or has ended.
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

// watched reports whether the container can use memory.
func (c *child) watched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.reaped && !c.paused
}

// starter starts processes from one thread that lives as long as the engine. The kernel
// sends the parent-death signal when the thread that started the process ends (prctl(2),
// PR_SET_PDEATHSIG), not when the whole process does.
type starter struct {
	calls chan func()
	stop  chan struct{}
	wg    sync.WaitGroup
}

func newStarter() *starter {
	s := &starter{calls: make(chan func()), stop: make(chan struct{})}
	s.wg.Go(func() {
		// Never unlocked: the thread ends with the goroutine. All its children have
		// ended then.
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
