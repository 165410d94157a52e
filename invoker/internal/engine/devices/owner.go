package devices

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// The container of a process is found by its socket: plain processes have its path
// in their environment, those with a file system of their own have its directory
// mounted. Either way the name of the container's directory is in it, which no other
// container has.

// owns reports whether a process may report for a container. The directory's
// permissions keep other users out already; this finds one container's process
// at another's socket. A file that cannot be read, as from a process namespace of our
// own, is no reason to refuse.
func (m *Mover) owns(name string, pid int) bool {
	named := m.named(pid)
	return len(named) == 0 || slices.Contains(named, name)
}

// named lists the containers whose directory is named in a process.
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

// ownerOnce keeps the answer for as long as the process is listed. Only
// NVML's goroutine calls it.
func (m *Mover) ownerOnce(pid int) (name string, ok bool) {
	if name, known := m.owners[pid]; known && (name == "" || m.container(name) != nil) {
		return name, name != ""
	}
	name = ""
	asked := true
	if named := m.named(pid); len(named) == 1 {
		name = named[0]
	} else if len(named) == 0 && !m.visible(pid) {
		name, asked = m.engineOwner(func(pids []int, _ uint64) bool { return slices.Contains(pids, pid) })
	}
	if asked || name != "" {
		m.owners[pid] = name
	}
	return name, name != ""
}

// forgetOwners drops processes that are not listed any more: their numbers are
// used again.
func (m *Mover) forgetOwners(readings []nvml.Reading) {
	for pid := range m.owners {
		listed := func(p nvml.Process) bool { return p.PID == pid }
		if !slices.ContainsFunc(readings, func(r nvml.Reading) bool { return slices.ContainsFunc(r.Processes, listed) }) {
			delete(m.owners, pid)
		}
	}
}

// An invoker in a container without the host's process ids has no access to processes
// of other containers. Process ids that shims report and ids that NVML, or the state
// of a simulated device, lists are then not the same. The container engine is asked of
// which container a process is, and the usage of all processes of a container is
// compared with the sum of their reports.

// Processes asks the container engine for the processes of a container: their
// ids as the host has them, and their process name space, 0 if it is not known.
type Processes func(ctx context.Context, name string) (pids []int, space uint64, err error)

// askTime bounds the questions of one poll.
const askTime = 2 * time.Second

// Ask sets where the processes of containers are asked for. Before the first Watch.
func (m *Mover) Ask(p Processes) { m.processes = p }

// visible reports whether a process is in our own name space.
func (m *Mover) visible(pid int) bool {
	_, err := os.Stat(filepath.Join(m.options.proc, strconv.Itoa(pid)))
	return err == nil
}

// engineOwner asks the engine for the container whose processes match. asked is false
// where the engine did not answer for all.
func (m *Mover) engineOwner(is func(pids []int, space uint64) bool) (name string, asked bool) {
	if m.processes == nil {
		return "", true
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	asked = true
	for _, b := range m.all() {
		pids, space, err := m.processes(ctx, b.name)
		if err == nil && is(pids, space) {
			return b.name, true
		}
		asked = asked && err == nil // it may be gone, or not be there yet
	}
	return "", asked
}

// pidOutside gives a number of ours to a process of a simulated device that is not
// in our name space, once its container is known; 0 before.
func (s *simulation) pidOutside(holder slotHolder) int {
	name, _ := s.m.engineOwner(func(_ []int, space uint64) bool { return space != 0 && space == holder.space })
	if name == "" {
		return 0
	}
	s.outside++
	pid := shimctl.Outside + s.outside
	s.m.owners[pid] = name
	return pid
}

// observed is the memory that a device lists of a process of a container, or of all
// processes in another name space together.
type observed struct {
	bytes     int64
	processes int
}

// sumOf is the memory that a device lists of a container's processes.
func sumOf(found map[int]observed) (bytes int64) {
	for _, s := range found {
		bytes += s.bytes
	}
	return bytes
}

// processKey is the key under which a process is counted: its number, or one for all
// in other name spaces.
func (m *Mover) processKey(p nvml.Process) int {
	if p.PID > shimctl.Outside || m.processes != nil && !m.visible(p.PID) {
		return shimctl.Outside
	}
	return p.PID
}

// reportedBy is the usage that is reported by the processes of a key. The caller
// holds Mover.mu.
func (b *gpuContainer) reportedBy(key int) (usages []gpu.Usage) {
	if key != shimctl.Outside {
		if _, reports := b.reporting[key]; reports {
			usages = append(usages, b.usage[key])
		}
		return usages
	}
	for pid := range b.reporting {
		if pid > shimctl.Outside {
			usages = append(usages, b.usage[pid])
		}
	}
	return usages
}
