//go:build !linux

package shimctl

import (
	"errors"
	"net"
	"os"
	"time"
)

// The shim is a Linux library: elsewhere none can connect.
func peer(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }

func sendNow(*net.UnixConn, []byte) int { return 0 }

func ownedByUs(os.FileInfo) bool { return true }

type pidfd struct{}

func watch(*net.UnixConn, int) pidfd { return pidfd{} }

func (pidfd) ended(time.Duration) bool { return true }

func (pidfd) watches() bool { return false }

func (pidfd) release() {}

type arena struct{}

func (*arena) admit(int, *net.UnixConn) error { return errors.ErrUnsupported }

func (*arena) release(int) error { return nil }

func (*arena) pinned() int64 { return 0 }

func (*arena) close() {}
