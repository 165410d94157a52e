package shimctl

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// peer asks the kernel which process is on the other side. The number is of
// our process namespace, whatever the process itself believes.
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
	if cred.Pid <= 0 {
		return 0, fmt.Errorf("the peer is in a process namespace that we do not see")
	}
	return int(cred.Pid), nil
}

// sendNow sends what the socket takes without waiting, and returns how much
// that was. An error is found by whoever writes or reads next.
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

// life watches whether a process still exists. Its number alone would not do:
// another process may get it.
type life struct{ fd int }

func watch(pid int) *life {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		fd = -1 // it is gone, or the kernel cannot tell: a hang-up is its end
	}
	return &life{fd}
}

// ended waits up to so long for the process to end.
func (l *life) ended(within time.Duration) bool {
	if l.fd < 0 {
		return true
	}
	until := time.Now().Add(within)
	for {
		p := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, int(max(time.Until(until), 0).Milliseconds()))
		if err == nil {
			return n > 0
		}
		if err != unix.EINTR {
			return true
		}
	}
}

func (l *life) release() {
	if l.fd >= 0 {
		_ = unix.Close(l.fd)
	}
	l.fd = -1
}
