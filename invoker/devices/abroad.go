package devices

import (
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

// An invoker in a container without the host's process ids sees no process of
// other containers. A shim then talks for a number of its own, and what NVML, or
// the state of a simulated device, shows cannot be laid beside it process by
// process. The engine says which container a process is of, and what all
// processes of a container have is compared with what all say.

// Processes asks the container engine for the processes of a container: their
// ids as the host has them, and their name space of processes, 0 if it cannot be
// told.
type Processes func(ctx context.Context, name string) (pids []int, space uint64, err error)

// askTime bounds the questions of one look.
const askTime = 2 * time.Second

// Ask keeps who is asked for the processes of containers. Before the first Watch.
func (m *Mover) Ask(p Processes) { m.processes = p }

// visible tells whether a process is in our own name space.
func (m *Mover) visible(pid int) bool {
	_, err := os.Stat(filepath.Join(m.options.proc, strconv.Itoa(pid)))
	return err == nil
}

// abroad asks the engine which container's processes are such ones. asked is false
// where the engine did not answer for all.
func (m *Mover) abroad(is func(pids []int, space uint64) bool) (name string, asked bool) {
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

// ownerAbroad is the container of a process that we do not see.
func (m *Mover) ownerAbroad(pid int) (name string, asked bool) {
	return m.abroad(func(pids []int, _ uint64) bool { return slices.Contains(pids, pid) })
}

// pidAbroad gives a number of ours to a process of a simulated device that we do
// not see, once its container is known; 0 before.
func (s *simulation) pidAbroad(who slotHolder) int {
	name, _ := s.m.abroad(func(_ []int, space uint64) bool { return space != 0 && space == who.space })
	if name == "" {
		return 0
	}
	s.abroad++
	pid := shimctl.Outside + s.abroad
	s.m.owners[pid] = name
	return pid
}

// sight is what a device shows of a process of a container, or of all that are
// abroad together.
type sight struct {
	bytes     int64
	processes int
}

// place is where in the books a process stands: by its number, or with the others
// that are abroad.
func (m *Mover) place(p nvml.Process) int {
	if p.PID > shimctl.Outside || m.processes != nil && !m.visible(p.PID) {
		return shimctl.Outside
	}
	return p.PID
}

// speakers are the processes that say what they hold of what is seen at a place.
// The caller holds b.mu.
func (b *box) speakers(place int) (said []gpu.Usage) {
	if place != shimctl.Outside {
		if _, talks := b.talks[place]; talks {
			said = append(said, b.holds[place])
		}
		return said
	}
	for pid := range b.talks {
		if pid > shimctl.Outside {
			said = append(said, b.holds[pid])
		}
	}
	return said
}
