package shimctl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// arena is a container's host memory for swapped device memory: a file in memory, which its
// processes map. Its pages are charged to the container, whose processes touch them, and no
// other container gets the file. The file begins with a page of counters, in which each process
// keeps the number of bytes that it has pinned. Behind it each process has a range of its own.
// The zero value is ready to use: the first process gets a new file. An arena is safe for
// concurrent use.
type arena struct {
	mu   sync.Mutex
	file *os.File
	pids [arenaProcesses]int // of each range; 0: the range is free
}

const (
	arenaProcesses = 512 // counters in a page
	rangeBits      = 48  // bits of an address on a device
	arenaSize      = (arenaProcesses + 1) << rangeBits

	emptying = -1 // the range's process has ended, and its pages are being freed
)

// open makes the file. Nobody can shrink it, because a process that uses lost pages would be
// killed. The caller must hold mu.
func (a *arena) open() error {
	if a.file != nil {
		return nil
	}
	fd, err := unix.MemfdCreate("gpuwhisk-arena", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fmt.Errorf("make file for swapped memory: %w", err)
	}
	err = unix.Ftruncate(fd, arenaSize)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("size file for swapped memory: %w", err)
	}
	a.file = os.NewFile(uintptr(fd), "gpuwhisk-arena")
	return nil
}

// admit gives a process a range, and sends it the file and the range's number. A process that
// connects again keeps its range. If no range is free, the process keeps its swapped memory
// itself.
func (a *arena) admit(pid int, conn *net.UnixConn) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	number := slices.Index(a.pids[:], pid)
	if number < 0 {
		number = slices.Index(a.pids[:], 0)
	}
	if number < 0 {
		return nil
	}
	if err := a.open(); err != nil {
		return err
	}
	a.pids[number] = pid
	frame := encode(typeArena, 0, uint64(number))
	err := control(a.file, func(fd int) error { return sendFileNow(conn, frame, fd) })
	if err != nil {
		return fmt.Errorf("send file for swapped memory to process %d: %w", pid, err)
	}
	return nil
}

// release frees the pages of a process that has ended.
func (a *arena) release(pid int) error {
	a.mu.Lock()
	number, file := slices.Index(a.pids[:], pid), a.file
	if number >= 0 {
		a.pids[number] = emptying
	}
	a.mu.Unlock()
	if number < 0 {
		return nil
	}
	_, err := file.WriteAt(make([]byte, 8), int64(8*number))
	err = errors.Join(err, control(file, func(fd int) error {
		const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		return unix.Fallocate(fd, punch, int64(number+1)<<rangeBits, 1<<rangeBits)
	}))
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("free swapped memory of process %d: %w", pid, err)
	}
	a.mu.Lock()
	a.pids[number] = 0
	a.mu.Unlock()
	return nil
}

// pinned returns the host memory that the processes have pinned here, by their own counters.
func (a *arena) pinned() (sum int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	counters := make([]byte, 8*arenaProcesses)
	if a.file == nil {
		return 0
	}
	if _, err := a.file.ReadAt(counters, 0); err != nil {
		return 0 // the container is being closed
	}
	for i, pid := range a.pids {
		if pid > 0 {
			sum += capped(binary.NativeEndian.Uint64(counters[8*i:]), maxBytes)
		}
	}
	return sum
}

// close ends the use of the file: its pages are free once no process maps them.
func (a *arena) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file != nil {
		_ = a.file.Close()
	}
}

// control calls f with the descriptor of the file, which stays open meanwhile.
func control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

// sendFileNow sends a frame with a descriptor if the socket takes it without waiting.
func sendFileNow(conn *net.UnixConn, frame []byte, file int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.Sendmsg(int(fd), frame, unix.UnixRights(file), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	return errors.Join(err, failed)
}
