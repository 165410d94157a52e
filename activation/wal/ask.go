package wal

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// asker has the system sync a file, and waits for that as for a connection: no
// thread does. A call that takes as long as a disk would have the Go runtime give
// the work to another thread, and watch all threads closely for some milliseconds
// after: ten times a second that is a twentieth of what a busy invoker computes.
type asker struct {
	queue uintptr  // of the system, for one request
	event *os.File // tells that it is done
}

// request is an iocb of Linux (linux/aio_abi.h, little endian).
type request struct {
	_       uint64 // ours
	_       uint64
	do      uint16
	_       uint16
	file    uint32
	_       [3]uint64 // what to read or write
	_       uint64
	options uint32
	event   uint32
}

// answer is an io_event.
type answer struct {
	_, _   uint64
	result int64 // below 0: a number of an error
	_      int64
}

const (
	doDataSync = 3 // IOCB_CMD_FDSYNC
	tellEvent  = 1 // IOCB_FLAG_RESFD
)

// newAsker fails where the system takes no requests, or none from us.
func newAsker() (*asker, error) {
	a := &asker{}
	if _, _, no := syscall.RawSyscall(syscall.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&a.queue)), 0); no != 0 {
		return nil, fmt.Errorf("set up a queue of requests: %w", no)
	}
	fd, _, no := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if no != 0 {
		a.destroy()
		return nil, fmt.Errorf("make an event: %w", no)
	}
	a.event = os.NewFile(fd, "eventfd")
	return a, nil
}

// sync has the data of a file survive a loss of power. ok is false where that was
// not answered: the asker is good for nothing then. One goroutine at a time.
func (a *asker) sync(f *os.File) (ok bool, err error) {
	if !a.submit(f) {
		return false, nil
	}
	var count [8]byte
	if _, err := a.event.Read(count[:]); err != nil {
		return false, err
	}
	runtime.KeepAlive(f)
	var got answer
	n, _, no := syscall.RawSyscall6(syscall.SYS_IO_GETEVENTS, a.queue, 1, 1, uintptr(unsafe.Pointer(&got)), 0, 0)
	switch {
	case no != 0 || n != 1:
		return false, nil
	case got.result < 0:
		return true, syscall.Errno(-got.result)
	}
	return true, nil
}

// submit makes the request. It tells whether the system took it.
func (a *asker) submit(f *os.File) (ok bool) {
	event, err := a.event.SyscallConn()
	if err != nil {
		return false
	}
	file := f.Fd()
	err = event.Control(func(event uintptr) {
		r := &request{do: doDataSync, file: uint32(file), options: tellEvent, event: uint32(event)}
		n, _, no := syscall.RawSyscall(syscall.SYS_IO_SUBMIT, a.queue, 1, uintptr(unsafe.Pointer(&r)))
		runtime.KeepAlive(r) // the system has a copy from here on
		ok = no == 0 && n == 1
	})
	return ok && err == nil
}

func (a *asker) destroy() { _, _, _ = syscall.RawSyscall(syscall.SYS_IO_DESTROY, a.queue, 0, 0) }

// close waits for a request under way.
func (a *asker) close() {
	a.destroy()
	_ = a.event.Close()
}
