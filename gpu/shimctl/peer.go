package shimctl

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// peer returns the id of the process on the other side, by the kernel's report, in our process
// namespace. It returns 0 for a process outside the namespace, for example if we run in a
// container without the host's namespace.
func peer(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("reach socket: %w", err)
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, fmt.Errorf("ask for the peer: %w", err)
	}
	return int(cred.Pid), nil
}

// sendNow sends the bytes that the socket takes without waiting, and returns their number. The
// next write or read returns any error.
func sendNow(conn *net.UnixConn, b []byte) int {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	err = raw.Control(func(fd uintptr) {
		n, _ = unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	if err != nil {
		return 0
	}
	return max(n, 0)
}

func ownedByUs(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// pidfd watches whether a process still exists. Its number alone would not do:
// another process may get it.
type pidfd struct{ file *os.File }

// watch begins to watch the process on the other side.
func watch(conn *net.UnixConn, pid int) pidfd {
	fd, err := -1, error(nil)
	if pid > 0 {
		fd, err = unix.PidfdOpen(pid, 0)
	} else if raw, e := conn.SyscallConn(); e == nil {
		// By the connection, where the kernel can (Linux 6.5).
		e = raw.Control(func(at uintptr) { fd, err = unix.GetsockoptInt(int(at), unix.SOL_SOCKET, unix.SO_PEERPIDFD) })
		err = errors.Join(err, e)
	}
	if err != nil || fd < 0 {
		return pidfd{} // it is gone, or the kernel cannot report it: a hang-up is its end
	}
	_ = unix.SetNonblock(fd, true) // the runtime then waits for the socket, not a thread
	return pidfd{os.NewFile(uintptr(fd), "pidfd")}
}

// ended waits up to so long for the process to end, or for the release.
func (p pidfd) ended(within time.Duration) bool {
	if p.file == nil {
		return true
	}
	raw, err := p.file.SyscallConn()
	if err != nil {
		return true
	}
	over := false
	check := func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		over = n > 0
		return over
	}
	_ = raw.Control(func(fd uintptr) { check(fd) })
	if !over && within > 0 && p.file.SetReadDeadline(time.Now().Add(within)) == nil {
		_ = raw.Read(check)
	}
	return over
}

// watches reports whether the end of the process can be known for sure.
func (p pidfd) watches() bool { return p.file != nil }

// release ends the watch.
func (p pidfd) release() {
	if p.file != nil {
		_ = p.file.Close()
	}
}
