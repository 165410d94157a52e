package devices

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
)

// A process shows to which container it belongs by what it was given: plain
// processes by the variable that names their socket, those with a file system
// of their own by the socket's directory that is mounted there. Both hold the
// name of the container's directory, which no other container has.

// owns tells whether a process may speak for a container. The directory's
// permissions keep strangers out already; this finds one container's process
// at another's socket. What cannot be read, as from a process namespace of our
// own, is no reason to refuse.
func (m *Mover) owns(name string, pid int) bool {
	owner, ok := m.owner(pid)
	return !ok || owner == name
}

// owner finds the container of a process; ok is false when that cannot be
// told.
func (m *Mover) owner(pid int) (name string, ok bool) {
	file := "environ"
	if m.options.Mounted {
		file = "mountinfo"
	}
	text, err := os.ReadFile(filepath.Join(m.proc(), strconv.Itoa(pid), file))
	if err != nil {
		return "", false
	}
	return m.named(text)
}

// named finds the container whose directory a text names.
func (m *Mover) named(text []byte) (name string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.boxes {
		if b.shim != nil && bytes.Contains(text, []byte("/"+filepath.Base(b.shim.Dir()))) {
			return b.name, true
		}
	}
	return "", false
}

// ownerOnce remembers the answer for as long as the process is listed. Only
// NVML's goroutine calls it.
func (m *Mover) ownerOnce(pid int) (name string, ok bool) {
	if name, known := m.owners[pid]; known && (name == "" || m.box(name) != nil) {
		return name, name != ""
	}
	name, _ = m.owner(pid)
	m.owners[pid] = name
	return name, name != ""
}

// forgetOwners drops who is not listed any more: its number may be another's
// soon.
func (m *Mover) forgetOwners(readings []nvml.Reading) {
	for pid := range m.owners {
		listed := func(p nvml.Process) bool { return p.PID == pid }
		if !slices.ContainsFunc(readings, func(r nvml.Reading) bool { return slices.ContainsFunc(r.Processes, listed) }) {
			delete(m.owners, pid)
		}
	}
}

func (m *Mover) proc() string {
	if m.options.proc != "" {
		return m.options.proc
	}
	return "/proc"
}
