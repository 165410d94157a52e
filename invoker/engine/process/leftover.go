package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// removeLeftover ends what an engine before this one has left running, and
// deletes its files.
func (e *Engine) removeLeftover(id container.ID) error {
	dir := filepath.Join(e.options.StateDir, string(id))
	killErr := killByMarker(id)
	if err := os.RemoveAll(dir); err != nil {
		return errors.Join(killErr, fmt.Errorf("delete files of process %s: %w", id, err))
	}
	return killErr
}

// killByMarker ends every process that carries the container's id in its
// environment, until there is none: a process may start another while it is
// looked for.
func killByMarker(id container.ID) error {
	marker := markerVar + "=" + string(id)
	var errs []error
	tries := newRetries()
	for range 100 {
		pids := withMarker(marker, tries)
		if len(pids) == 0 {
			return nil
		}
		errs = nil
		for _, pid := range pids {
			errs = append(errs, killChecked(pid, func() bool { return hasMarker(pid, marker, tries) }))
		}
	}
	return errors.Join(append(errs, fmt.Errorf("processes of %s do not end", id))...)
}

func withMarker(marker string, tries *retries) []int {
	var pids []int
	for _, pid := range allPIDs() {
		if pid != os.Getpid() && hasMarker(pid, marker, tries) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// retries is for processes that become another program: the system reports no
// end of that, so they are checked again. It is for all that are checked together:
// one that hid its environment for good delays nothing for long.
type retries struct {
	left  int
	pause time.Duration
}

func newRetries() *retries { return &retries{left: 1000, pause: time.Millisecond} }

// wait pauses, and reports whether there is another try.
func (p *retries) wait() bool {
	if p.left--; p.left < 0 {
		return false
	}
	<-time.After(p.pause)
	return true
}

// hasMarker waits for a process that becomes another program: for a moment it
// shows no environment, though it has one, and its parent takes it as
// started then.
func hasMarker(pid int, marker string, tries *retries) bool {
	for changes := true; ; {
		environ, err := os.ReadFile(procPath(pid, "environ"))
		if err != nil {
			return false // ended, or another user's
		}
		if len(environ) > 0 {
			return strings.Contains("\x00"+string(environ)+"\x00", "\x00"+marker+"\x00")
		}
		if !changes { // it has none
			return false
		}
		if changes = becomesAnother(pid); changes && !tries.wait() {
			return false
		} // if it does not, it may have it now
	}
}

// killChecked kills a process by a descriptor, so that between the check and
// the signal its number cannot come to mean another process. It waits for the
// end.
func killChecked(pid int, same func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if !same() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	const timeoutMillis = 2000 // ms; a process in an uninterruptible call may outlast it
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, timeoutMillis)
		if !errors.Is(err, unix.EINTR) {
			return nil
		}
	}
}
