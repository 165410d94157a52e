package devices

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// containerDir is the name of a container's directory, as shimctl makes it.
var containerDir = regexp.MustCompile(`^[0-9a-f]{16}$`)

// LongestSocket is the most bytes that the path of a socket may have (unix(7), less the
// closing zero).
const LongestSocket = 107

// SocketLength is the length of the path of a container's socket below a directory.
func SocketLength(dir string) int {
	return len(filepath.Join(dir, "0123456789abcdef", shimctl.SocketName))
}

// SocketDir chooses the directory of the sockets: the first of the directories that
// can be made and whose path is short enough.
func SocketDir(dirs ...string) (string, error) {
	var errs []error
	for _, dir := range dirs {
		dir, err := filepath.Abs(dir)
		if n := SocketLength(dir); err == nil && n > LongestSocket {
			err = fmt.Errorf("a socket below %s has a path of %d bytes, the kernel takes %d", dir, n, LongestSocket)
		}
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// Sweep removes the sockets that an earlier process left, except for prepared containers. It
// touches no other file in the directory.
func (m *Mover) Sweep() error {
	if m.control == nil {
		return nil
	}
	used := map[string]bool{}
	for _, b := range m.all() {
		if b.shim != nil {
			used[filepath.Base(b.shim.Dir())] = true
		}
	}
	return clearSockets(m.options.Dir, used)
}

func clearSockets(dir string, used map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read socket directory: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !containerDir.MatchString(e.Name()) || used[e.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove old shim socket: %w", err)
		}
	}
	return nil
}

// Assume has a prepared container that was adopted count as using so much until its
// own processes report: they connect to the socket by themselves. It returns the
// report to assume, false if a process has reported already.
func (m *Mover) Assume(name string, u gpu.Usage) (gpu.MemoryReport, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.containers[name]
	if b == nil {
		return gpu.MemoryReport{}, false
	}
	b.moved = true // the last order of the previous process is not known
	b.rejoins = time.Now().Add(m.options.rejoinTime)
	if b.connected || len(b.listedOnly) > 0 {
		return gpu.MemoryReport{}, false // a process was faster
	}
	b.assumed = true
	return gpu.MemoryReport{Container: name, PID: assumedPID, Usage: u}, true
}

// rejoined waits until the processes of an adopted container have connected: until
// then an order reaches none of them, and nothing would seem to be movable. It gives
// up after a while.
func (m *Mover) rejoined(ctx context.Context, b *gpuContainer) error {
	m.mu.Lock()
	received, at := b.connected, b.rejoins
	m.mu.Unlock()
	if received || at.IsZero() {
		return nil
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-b.firstReport:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Release closes the connections of a container that lives on: its socket's
// directory stays for the next process.
func (m *Mover) Release(name string) {
	m.mu.Lock()
	b := m.containers[name]
	delete(m.containers, name)
	m.kept = true
	m.mu.Unlock()
	if b == nil || b.shim == nil {
		return
	}
	if err := b.shim.Leave(); err != nil {
		m.log.Warn("close shim socket", "container", name, "error", err)
	}
}

// installFile copies a file to the sockets, for containers to mount, and returns a
// digest of it. Their engine mounts the host's files, which ours need not be where we run
// in a container ourselves; the sockets' directory must be shared in any case.
func installFile(from, to string) (digest string, err error) {
	data, err := os.ReadFile(from)
	if err != nil {
		return "", fmt.Errorf("read %s for containers: %w", filepath.Base(from), err)
	}
	// Containers of before may have the old file mounted: it is not touched.
	if err := os.WriteFile(to+".new", data, 0o600); err != nil {
		return "", fmt.Errorf("copy %s for containers: %w", filepath.Base(from), err)
	}
	if err := os.Chmod(to+".new", 0o555); err != nil {
		return "", fmt.Errorf("open %s to containers: %w", to, err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		return "", fmt.Errorf("copy %s for containers: %w", filepath.Base(from), err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}
