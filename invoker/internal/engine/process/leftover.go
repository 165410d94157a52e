package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// removeLeftover kills the processes that an earlier engine left running, and deletes
// their files.
func (e *Engine) removeLeftover(id container.ID) error {
	dir := filepath.Join(e.options.StateDir, string(id))
	killErr := killByMarker(id)
	if err := os.RemoveAll(dir); err != nil {
		return errors.Join(killErr, fmt.Errorf("delete files of process %s: %w", id, err))
	}
	return killErr
}

// killByMarker kills every process with the container's id in its environment, until
// there is none. It repeats the search, because a process may start another one
// meanwhile.
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

// retries limits the repeated checks of processes during exec, whose end the system does
// not report. All processes of a search share the retries, so a process that hides its
// environment forever cannot delay the search for long.
type retries struct {
	remaining int
	pause     time.Duration
}

func newRetries() *retries { return &retries{remaining: 1000, pause: time.Millisecond} }

// wait pauses, and reports whether another try is allowed.
func (p *retries) wait() bool {
	if p.remaining--; p.remaining < 0 {
		return false
	}
	<-time.After(p.pause)
	return true
}

// hasMarker reports whether a process has the marker in its environment. During exec the
// environment is briefly empty, although the parent already counts the process as
// started, so hasMarker waits for the end of the exec.
func hasMarker(pid int, marker string, tries *retries) bool {
	for changes := true; ; {
		environ, err := os.ReadFile(procPath(pid, "environ"))
		if err != nil {
			return false // ended, or belongs to another user
		}
		if len(environ) > 0 {
			return strings.Contains("\x00"+string(environ)+"\x00", "\x00"+marker+"\x00")
		}
		if !changes { // it has no environment
			return false
		}
		if changes = becomesAnother(pid); changes && !tries.wait() {
			return false
		} // after the exec, read the environment again
	}
}

// killChecked kills a process through a descriptor, so that its pid cannot be reused
// between the check and the signal. It waits for the end.
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
	const timeoutMillis = 2000 // ms; an uninterruptible call may take longer
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, timeoutMillis)
		if !errors.Is(err, unix.EINTR) {
			return nil
		}
	}
}
