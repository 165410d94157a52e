//go:build !race

package socket

import (
	"syscall"
	"unsafe"
)

func read(fd uintptr, data []byte) (int, syscall.Errno) {
	n, _, err := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)))
	return int(n), err
}

func write(fd uintptr, data []byte) (int, syscall.Errno) {
	n, _, err := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)))
	return int(n), err
}
