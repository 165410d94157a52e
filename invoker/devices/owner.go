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
	named := m.named(pid)
	return len(named) == 0 || slices.Contains(named, name)
}

// named lists the containers whose directory a process shows.
func (m *Mover) named(pid int) (names []string) {
	file := "environ"
	if m.options.Mounted {
		file = "mountinfo"
	}
	text, err := os.ReadFile(filepath.Join(m.options.proc, strconv.Itoa(pid), file))
	if err != nil {
		return nil
	}
	for _, b := range m.all() {
		if b.shim != nil && bytes.Contains(text, []byte("/"+filepath.Base(b.shim.Dir()))) {
			names = append(names, b.name)
		}
	}
	return names
}

// ownerOnce remembers the answer for as long as the process is listed. Only
// NVML's goroutine calls it.
func (m *Mover) ownerOnce(pid int) (name string, ok bool) {
	if name, known := m.owners[pid]; known && (name == "" || m.box(name) != nil) {
		return name, name != ""
	}
	name = ""
	asked := true
	if named := m.named(pid); len(named) == 1 {
		name = named[0]
	} else if len(named) == 0 && !m.visible(pid) {
		name, asked = m.ownerAbroad(pid)
	}
	if asked || name != "" {
		m.owners[pid] = name
	}
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
