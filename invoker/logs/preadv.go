//go:build !race && (amd64 || arm64)

package logs

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// preadReady is a read that fails where it would have to wait for the disk. Not
// every file system has it: known tells.
func preadReady(fd uintptr, data []byte, offset int64) (n int, known bool) {
	part := unix.Iovec{Base: &data[0], Len: uint64(len(data))}
	// The offset is in one register, and the next is not looked at.
	got, _, no := syscall.RawSyscall6(unix.SYS_PREADV2, fd, uintptr(unsafe.Pointer(&part)), 1, uintptr(offset), 0, unix.RWF_NOWAIT)
	switch no {
	case 0:
		return int(got), true
	case syscall.EAGAIN, syscall.EINTR:
		return -1, true
	}
	return -1, false
}
