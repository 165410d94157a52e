package devices

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
)

// What NVML is for real devices, the state file of the fake driver is for
// simulated ones: it shows what each process really has there, whatever the
// process says. Its layout is in shim/test/fake/room.h.
const (
	stateMagic   = 0x6b616601
	stateHeader  = 8 + 8*stateDevices*2
	stateDevices = 8
	stateSlots   = 256
	stateSlot    = 16 + 4*8*stateDevices
	// The numbers of a slot, for each device in turn: plain, managed, kept.
	stateNumbers = 3
)

// stateInterval is the time between two looks.
const stateInterval = 500 * time.Millisecond

// slotHolder is the process of a slot: its number as its own name space has it,
// and that name space.
type slotHolder struct {
	pid   int
	space uint64
}

// simulation reads the states of simulated devices.
type simulation struct {
	m    *Mover
	pids map[slotHolder]int // as we see them; 0: not seen
	said bool               // that a state cannot be read
	// abroad counts the numbers that were given to processes we do not see.
	abroad int
}

// WatchSimulated begins to look at what processes have on simulated devices, until
// Close: the mover hears of those who say less, the observer what is used. Without
// the fake driver there is nothing to look at.
func (m *Mover) WatchSimulated(o Observer) {
	isSimulated := func(d gpu.Device) bool { return d.Simulated }
	if m.options.Driver == "" || m.control == nil || !slices.ContainsFunc(m.options.Devices, isSimulated) {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	m.blind = stop
	s := &simulation{m: m, pids: map[slotHolder]int{}}
	m.sight.Go(func() {
		ticker := time.NewTicker(stateInterval)
		defer ticker.Stop()
		for {
			readings := s.read()
			o.Observe(translate(readings))
			m.look(readings)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// read reads all devices. What cannot be read lists nobody.
func (s *simulation) read() []nvml.Reading {
	var out []nvml.Reading
	seen := map[slotHolder]int{}
	for _, d := range s.m.options.Devices {
		r := nvml.Reading{Device: d.Index, At: time.Now(), Utilization: -1, Average: -1, Memory: nvml.Memory{Total: d.MemoryBytes, Used: -1}}
		held, err := readState(filepath.Join(s.m.deviceDir(d), stateName))
		switch {
		case err == nil:
			r.Told, r.Memory.Used = true, 0
			for who, bytes := range held {
				r.Memory.Used += bytes
				seen[who] = s.pid(who)
				if pid := seen[who]; pid > 0 {
					r.Processes = append(r.Processes, nvml.Process{PID: pid, Bytes: bytes})
				}
			}
		case errors.Is(err, fs.ErrNotExist):
			r.Told, r.Memory.Used = true, 0 // nobody has come yet
		case !s.said:
			s.said = true
			s.m.log.Warn("state of a simulated GPU cannot be read", "device", d.String(), "error", err)
		}
		out = append(out, r)
	}
	s.pids = seen
	return out
}

// pid is the number by which we know a process.
func (s *simulation) pid(who slotHolder) int {
	if pid, known := s.pids[who]; known && pid > 0 {
		return pid
	}
	if space(s.m.options.proc, "self") == who.space {
		return who.pid
	}
	if pid := foreignPID(s.m.options.proc, who); pid > 0 {
		return pid
	}
	return s.pidAbroad(who)
}

// foreignPID looks for a process of another name space.
func foreignPID(proc string, who slotHolder) int {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(proc, e.Name(), "status"))
		if err != nil {
			continue
		}
		if innermost(string(text)) == who.pid && space(proc, e.Name()) == who.space {
			return pid
		}
	}
	return 0
}

// innermost is a process's number in its own name space.
func innermost(status string) int {
	for line := range strings.Lines(status) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			if f := strings.Fields(numbers); len(f) > 0 {
				n, _ := strconv.Atoi(f[len(f)-1])
				return n
			}
		}
	}
	return 0
}

// space is the name space of processes that a process is in; 0: not shown.
func space(proc, pid string) uint64 {
	var st syscall.Stat_t
	if syscall.Stat(filepath.Join(proc, pid, "ns", "pid"), &st) != nil {
		return 0
	}
	return st.Ino
}

// readState gives the bytes of each living process on a simulated device. Its
// lock is not taken: who holds it may be frozen.
func readState(path string) (map[slotHolder]int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text := make([]byte, stateHeader+stateSlots*stateSlot)
	n, _ := file.ReadAt(text, 0)
	if n == 0 {
		return nil, nil // made, and not used yet
	}
	if n < len(text) || binary.LittleEndian.Uint32(text) != stateMagic {
		return nil, fmt.Errorf("%s is not the state of a fake driver of this build", path)
	}
	held := map[slotHolder]int64{}
	for i := range stateSlots {
		slot := text[stateHeader+i*stateSlot:][:stateSlot]
		if binary.LittleEndian.Uint32(slot[4:]) == 0 || !lockedAt(file, int64(1+i)) {
			continue
		}
		who := slotHolder{int(binary.LittleEndian.Uint32(slot)), binary.LittleEndian.Uint64(slot[8:])}
		for k := range stateNumbers {
			bytes := binary.LittleEndian.Uint64(slot[16+8*stateDevices*k:])
			held[who] = min(held[who]+int64(min(bytes, mostHeld)), mostHeld)
		}
	}
	return held, nil
}

// mostHeld bounds what a file that others write may say.
const mostHeld = 1 << 48

// lockedAt tells whether a living process holds a byte of the file.
func lockedAt(file *os.File, at int64) bool {
	const openFileGetLock = 36 // F_OFD_GETLK
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Start: at, Len: 1}
	return syscall.FcntlFlock(file.Fd(), openFileGetLock, &l) == nil && l.Type != syscall.F_UNLCK
}
