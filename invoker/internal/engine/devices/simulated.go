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
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// The state file of the fake driver stands for NVML on simulated devices: it has the
// memory that each process really uses, whatever the process reports. Of a process only its plain
// memory is read, as NVML lists it. The layout is in shim/test/fake/usage.h.
const (
	stateMagic   = 0x6b616601
	stateHeader  = 8 + 8*stateDevices*2
	stateDevices = 8
	stateSlots   = 256
	stateSlot    = 16 + 4*8*stateDevices
	// The numbers of a slot, for each device: plain, managed, kept.
	stateNumbers = 3
)

// stateInterval is the time between two polls.
const stateInterval = 500 * time.Millisecond

// slotHolder is the process of a slot: its number as its own name space has it,
// and that name space.
type slotHolder struct {
	pid   int
	space uint64
}

// simulation reads the states of simulated devices.
type simulation struct {
	m      *Mover
	pids   map[slotHolder]int // by our name space; 0: not in it
	logged bool               // that a state cannot be read
	// outside counts the numbers that were given to processes of other name spaces.
	outside int
}

// WatchSimulated begins to poll the use of simulated devices, until Close: processes that
// report less are charged, and the observer gets the use. Without the
// fake driver nothing is polled.
func (m *Mover) WatchSimulated(o Observer) {
	isSimulated := func(d gpu.Device) bool { return d.Simulated }
	if m.options.Driver == "" || m.control == nil || !slices.ContainsFunc(m.options.Devices, isSimulated) {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stopPolling = stop
	s := &simulation{m: m, pids: map[slotHolder]int{}}
	m.polling.Go(func() {
		ticker := time.NewTicker(stateInterval)
		defer ticker.Stop()
		for {
			readings := s.read()
			o.Observe(translate(readings))
			m.observe(readings)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// read reads all devices. A device whose state cannot be read lists no process.
func (s *simulation) read() []nvml.Reading {
	var out []nvml.Reading
	seen := map[slotHolder]int{}
	for _, d := range s.m.options.Devices {
		r := nvml.Reading{Device: d.Index, Utilization: -1, Memory: nvml.Memory{Total: d.MemoryBytes, Used: -1}}
		reported, err := readState(filepath.Join(s.m.deviceDir(d), stateName))
		switch {
		case err == nil:
			r.Listed, r.Memory.Used = true, 0
			for holder, held := range reported {
				r.Memory.Used += held.all
				seen[holder] = s.pid(holder)
				r.Processes = append(r.Processes, nvml.Process{PID: seen[holder], Bytes: held.plain})
			}
		case errors.Is(err, fs.ErrNotExist):
			r.Listed, r.Memory.Used = true, 0 // no process has used it yet
		case !s.logged:
			s.logged = true
			s.m.log.Warn("state of a simulated GPU cannot be read", "device", d.String(), "error", err)
		}
		out = append(out, r)
	}
	s.pids = seen
	return out
}

// pid is the number of a process in our name space.
func (s *simulation) pid(holder slotHolder) int {
	if pid, known := s.pids[holder]; known && pid > 0 {
		return pid
	}
	if space(s.m.options.proc, "self") == holder.space {
		return holder.pid
	}
	if pid := foreignPID(s.m.options.proc, holder); pid > 0 {
		return pid
	}
	return s.pidOutside(holder)
}

// foreignPID finds a process of another name space.
func foreignPID(proc string, holder slotHolder) int {
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
		if innermost(string(text)) == holder.pid && space(proc, e.Name()) == holder.space {
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

// space is the name space of processes that a process is in; 0: unknown.
func space(proc, pid string) uint64 {
	var st syscall.Stat_t
	if syscall.Stat(filepath.Join(proc, pid, "ns", "pid"), &st) != nil {
		return 0
	}
	return st.Ino
}

// slotBytes is the memory of a process on a simulated device: its plain memory, and all.
type slotBytes struct{ plain, all int64 }

// readState returns the memory of each living process on a simulated device. It does
// not take the file's lock, because the lock's owner may be frozen.
func readState(path string) (map[slotHolder]slotBytes, error) {
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
	reported := map[slotHolder]slotBytes{}
	for i := range stateSlots {
		slot := text[stateHeader+i*stateSlot:][:stateSlot]
		if binary.LittleEndian.Uint32(slot[4:]) == 0 || !lockedAt(file, int64(1+i)) {
			continue
		}
		holder := slotHolder{int(binary.LittleEndian.Uint32(slot)), binary.LittleEndian.Uint64(slot[8:])}
		held := reported[holder]
		for k := range stateNumbers {
			bytes := int64(min(binary.LittleEndian.Uint64(slot[16+8*stateDevices*k:]), maxUsed))
			held.all = min(held.all+bytes, maxUsed)
			if k == 0 {
				held.plain = min(held.plain+bytes, maxUsed)
			}
		}
		reported[holder] = held
	}
	return reported, nil
}

// maxUsed bounds a number in a file that others write.
const maxUsed = 1 << 48

// lockedAt reports whether a living process holds a byte of the file.
func lockedAt(file *os.File, at int64) bool {
	const openFileGetLock = 36 // F_OFD_GETLK
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Start: at, Len: 1}
	return syscall.FcntlFlock(file.Fd(), openFileGetLock, &l) == nil && l.Type != syscall.F_UNLCK
}

// A simulated device may have a driver, which replaces the real one. All containers
// of the device share its state, a file: what one uses, no other can have.

// Where driver and state appear in containers with a file system of their own.
const (
	driverTarget = "/opt/gpuwhisk/driver"
	stateTarget  = "/run/gpuwhisk-device"
	stateName    = "state"
)

// mountDriver puts a copy of the simulated devices' driver beside the sockets,
// where containers have a file system of their own: see installFile.
func (m *Mover) mountDriver() error {
	if m.options.Driver == "" || !m.options.Mounted {
		return nil
	}
	dir := filepath.Join(m.options.Dir, "driver")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make driver directory: %w", err)
	}
	// It lies below a directory that is ours alone.
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("open driver directory to containers: %w", err)
	}
	if _, err := installFile(filepath.Join(m.options.Driver, driverName), filepath.Join(dir, driverName)); err != nil {
		return fmt.Errorf("fake driver: %w", err)
	}
	m.options.Driver = dir
	return nil
}

// deviceDir is where a simulated device's state is.
func (m *Mover) deviceDir(device gpu.Device) string {
	return filepath.Join(m.options.Dir, "device"+strconv.Itoa(device.Index))
}

// stateDir makes a simulated device's state, if it is not there. Any user of a
// container may write to it.
func (m *Mover) stateDir(device gpu.Device) (string, error) {
	dir := m.deviceDir(device)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make state of simulated device %d: %w", device.Index, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, stateName), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return "", fmt.Errorf("make state of simulated device %d: %w", device.Index, err)
	}
	err = errors.Join(os.Chmod(dir, 0o755), file.Chmod(0o666), file.Close())
	if err != nil {
		return "", fmt.Errorf("open state of simulated device %d to containers: %w", device.Index, err)
	}
	return dir, nil
}

// simulate gives a container its simulated device, where that has a driver.
func (m *Mover) simulate(g *container.GPU, device gpu.Device) error {
	if !device.Simulated || m.options.Driver == "" || m.options.Mounted && m.control == nil {
		return nil
	}
	driver, state := m.options.Driver, ""
	if m.control != nil {
		dir, err := m.stateDir(device)
		if err != nil {
			return err
		}
		state = filepath.Join(dir, stateName)
		if m.options.Mounted {
			g.Mounts = append(g.Mounts, container.Mount{Source: driver, Target: driverTarget})
			g.Shared = append(g.Shared, container.Mount{Source: dir, Target: stateTarget})
			driver, state = driverTarget, filepath.Join(stateTarget, stateName)
		}
	}
	link := gpu.DefaultTransferModel().BytesPerSecond
	g.Env = append(g.Env,
		"CUDA_VISIBLE_DEVICES=0",
		"LD_LIBRARY_PATH="+driver,
		"FAKE_CUDA_MEMORY="+strconv.FormatInt(device.MemoryBytes, 10),
		"FAKE_CUDA_BANDWIDTH="+strconv.FormatInt(int64(link), 10),
		// A page that a kernel faults in comes at half the speed of one that
		// was fetched ahead.
		"FAKE_CUDA_FAULT_NS="+strconv.FormatInt(int64(2*faultUnit/link*1e9), 10),
		"FAKE_CUDA_STATE="+state,
	)
	return nil
}

// faultUnit is the unit in which the fake driver counts faults.
const faultUnit = 64 << 10

// clearSimulated removes the files of simulate and mountDriver.
func (m *Mover) clearSimulated() error {
	if m.options.Driver == "" {
		return nil
	}
	var errs []error
	for _, d := range m.options.Devices {
		if d.Simulated {
			errs = append(errs, os.RemoveAll(m.deviceDir(d)))
		}
	}
	if m.options.Mounted {
		errs = append(errs, os.RemoveAll(m.options.Driver))
	}
	return errors.Join(errs...)
}
