//go:build race

package socket

import "syscall"

// The race detector takes a read as being after a write only by these calls.

func read(fd uintptr, data []byte) (int, syscall.Errno) {
	n, err := syscall.Read(int(fd), data)
	return n, errno(err)
}

func write(fd uintptr, data []byte) (int, syscall.Errno) {
	n, err := syscall.Write(int(fd), data)
	return n, errno(err)
}

func errno(err error) syscall.Errno {
	no, _ := err.(syscall.Errno)
	return no
}
