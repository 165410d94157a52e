package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// record is what lies on disk beside a running process. Numbers of processes
// are reused; the time of its start and the boot tell it from another.
type record struct {
	Boot  string `json:"boot"`
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot
}

const recordFile = "process.json"

func (c *child) record(boot string) error {
	stat, err := readStat(c.pid)
	if err != nil {
		return err
	}
	text, err := json.Marshal(record{Boot: boot, PID: c.pid, Start: stat.start})
	if err != nil {
		return fmt.Errorf("write record of process %s: %w", c.id, err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, recordFile), text, 0o600); err != nil {
		return fmt.Errorf("write record of process %s: %w", c.id, err)
	}
	return nil
}

// removeLeftover ends what an engine before this one has left running, and
// deletes its files.
func (e *Engine) removeLeftover(id container.ID) error {
	dir := filepath.Join(e.options.StateDir, string(id))
	errs := []error{e.killRecorded(filepath.Join(dir, recordFile)), killMarked(id)}
	if err := os.RemoveAll(dir); err != nil {
		errs = append(errs, fmt.Errorf("delete files of process %s: %w", id, err))
	}
	return errors.Join(errs...)
}

// killRecorded ends the recorded process if it is still the one that was
// recorded. A directory without a readable record has none to end.
func (e *Engine) killRecorded(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	var r record
	if json.Unmarshal(text, &r) != nil || r.Boot != e.boot || r.PID <= 1 {
		return nil
	}
	return killChecked(r.PID, func() bool {
		stat, err := readStat(r.PID)
		return err == nil && stat.start == r.Start
	})
}

// killMarked ends every process that carries the container's id in its
// environment, until there is none: a process may start another while it is
// looked for.
func killMarked(id container.ID) error {
	marker := markerVar + "=" + string(id)
	var errs []error
	looks := newPatience()
	for range 100 {
		pids := marked(marker, looks)
		if len(pids) == 0 {
			return nil
		}
		errs = nil
		for _, pid := range pids {
			errs = append(errs, killChecked(pid, func() bool { return hasMarker(pid, marker, looks) }))
		}
	}
	return errors.Join(append(errs, fmt.Errorf("processes of %s do not end", id))...)
}

func marked(marker string, looks *patience) []int {
	var pids []int
	for _, pid := range allPIDs() {
		if pid != os.Getpid() && hasMarker(pid, marker, looks) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// patience is for processes that become another program: the system tells of no
// end of that, so they are looked at again. It is for all that are looked at
// together: one that hid its environment for good holds up nothing for long.
type patience struct {
	looks int
	pause time.Duration
}

func newPatience() *patience { return &patience{looks: 1000, pause: time.Millisecond} }

// wait tells whether there is another look.
func (p *patience) wait() bool {
	if p.looks--; p.looks < 0 {
		return false
	}
	<-time.After(p.pause)
	return true
}

// hasMarker waits for a process that becomes another program: for a moment it
// shows no environment, though it has one, and whoever started it takes it as
// started then.
func hasMarker(pid int, marker string, looks *patience) bool {
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
		if changes = becomesAnother(pid); changes && !looks.wait() {
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
	const patience = 2000 // ms; a process in an uninterruptible call may outlast it
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, patience)
		if !errors.Is(err, unix.EINTR) {
			return nil
		}
	}
}
