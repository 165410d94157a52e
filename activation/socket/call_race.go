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

func nothing(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == syscall.EAGAIN
}

func errno(err error) syscall.Errno {
	no, _ := err.(syscall.Errno)
	return no
}
