package shimctl

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// pages returns the bytes of a container's file for swapped memory, without the counters.
func pages(t *testing.T, c *Container) int64 {
	t.Helper()
	var st unix.Stat_t
	check.NoError(check.Must(t), control(c.arena.file, func(fd int) error { return unix.Fstat(fd, &st) }))
	const counters = 4096
	return st.Blocks*512 - counters
}

// TestSwappedMemoryIsFreed: the processes of a container share a file. It has no more pages than
// bytes are out or pinned, and none of a process that has ended.
func TestSwappedMemoryIsFreed(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	first := startGuest(t, c, "GPUWHISK_SHIM=vmm")
	second := startGuest(t, c, "GPUWHISK_SHIM=vmm")
	for _, g := range []interface {
		Do(string, ...any) int64
		PID() int
	}{first, second} {
		block := g.Do("alloc %d", 32*mib)
		g.Do("fill %d 1", block)
		rec.awaitUsage(t, g.PID(), 32*mib)
	}
	_, err := c.Evict(limited(t), 1)
	check.NoError(t, err)
	check.Equal(t, pages(t, c), 64*mib)
	first.Kill()
	rec.await(t, "the end of the first", func(e event) bool { return e.exited && e.pid == first.PID() })
	check.Equal(t, pages(t, c), 32*mib)
	_, err = c.Prefetch(limited(t), 2, 0)
	check.NoError(t, err)
	check.Equal(t, pages(t, c), 0)
	second.Do("check 0 1")

	// Another process may get the range. It finds nothing there.
	third := startGuest(t, c, "GPUWHISK_SHIM=vmm")
	block := third.Do("alloc %d", 32*mib)
	third.Do("fill %d 3", block)
	rec.awaitUsage(t, third.PID(), 32*mib)
	_, err = c.Evict(limited(t), 3)
	check.NoError(t, err)
	check.Equal(t, pages(t, c), 64*mib)
	third.Do("check %d 3", block)
	second.Do("check 0 1")
}

// TestPinnedMemoryIsCounted: a container's processes count their pinned memory in the file. A
// counter is believed up to a bound, and not after its process has ended.
func TestPinnedMemoryIsCounted(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	check.Equal(t, c.Pinned(), 0)
	var guests []*shimtest.Guest
	for i := range 2 {
		g := startGuest(t, c, "GPUWHISK_SHIM=vmm")
		g.Do("alloc %d", 32*mib)
		rec.awaitUsage(t, g.PID(), 32*mib)
		number := slices.Index(c.arena.pids[:], g.PID())
		_, err := c.arena.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(i+1)*mib), int64(8*number))
		check.NoError(t, err)
		guests = append(guests, g)
	}
	check.Equal(t, c.Pinned(), 3*mib)
	_, err := c.arena.file.WriteAt(binary.NativeEndian.AppendUint64(nil, math.MaxUint64), int64(8*slices.Index(c.arena.pids[:], guests[0].PID())))
	check.NoError(t, err)
	check.Equal(t, c.Pinned(), maxBytes+2*mib)
	guests[0].Kill()
	rec.await(t, "the end of the first", func(e event) bool { return e.exited && e.pid == guests[0].PID() })
	check.Equal(t, c.Pinned(), 2*mib)
}

// TestContainersShareNoSwappedMemory: each container has a file of its own, and a container
// whose memory is managed has none.
func TestContainersShareNoSwappedMemory(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	a, b, managed := openContainer(t, ctl, "a"), openContainer(t, ctl, "b"), openContainer(t, ctl, "c")
	for c, backend := range map[*Container]string{a: "vmm", b: "vmm", managed: "managed"} {
		g := startGuest(t, c, "GPUWHISK_SHIM="+backend)
		g.Do("alloc %d", 4*mib)
		rec.awaitUsage(t, g.PID(), 4*mib)
	}
	inode := func(c *Container) uint64 {
		var st unix.Stat_t
		check.NoError(check.Must(t), control(c.arena.file, func(fd int) error { return unix.Fstat(fd, &st) }))
		return st.Ino
	}
	check.That(t, inode(a) != inode(b))
	check.That(t, managed.arena.file == nil)
}
