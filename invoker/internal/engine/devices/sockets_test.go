package devices

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

func TestContainersAreForgotten(t *testing.T) {
	b := open(t, nil)
	b.prepare(name, "managed")
	dir := b.container(name).shim.Dir()
	_, err := b.Prepare(name, simulatedDevice(), container.DeviceRequest{Shim: "managed"})
	check.That(t, err != nil, "a container is prepared twice")
	b.Forget(name)
	b.Forget(name)
	_, err = os.Stat(dir)
	check.ErrorIs(t, err, os.ErrNotExist, "its directory is left")
	b.Begin(name, gpu.MemoryRequest{})
	b.End(b.limited(), name, gpu.MemoryRequest{})
	n, err := b.Move(b.limited(), evict(1), 0)
	check.Equal(t, n, 0, "an order to a forgotten container")
	check.NoError(t, err, "an order to a forgotten container")
	b.prepare(name, "managed") // the name may come again; Close forgets it
}

// TestInvokerStartsAgain: the next invoker finds the sockets of an invoker that was
// killed, and a process that outlived it does not disturb.
func TestInvokerStartsAgain(t *testing.T) {
	b := open(t, nil)
	old := b.loaded()
	o := b.options
	if err := b.control.Close(); err != nil { // as its end would: all stays
		t.Fatal(err)
	}
	next, err := OpenMover(o)
	check.NoError(t, err)
	reports := make(chan gpu.MemoryReport, 100)
	next.Listen(func(h gpu.MemoryReport) { reports <- h })
	old.Kill() // with its container, before there are others
	g, err := next.Prepare(name, o.Devices[0], container.DeviceRequest{Shim: "managed"})
	check.NoError(t, err)
	b.guest(g).Do("alloc %d", mib)
	next.End(b.limited(), name, gpu.MemoryRequest{})
	for len(reports) > 0 {
		h := check.Receive(t, reports)
		check.That(t, h.PID != old.PID(), "reported %+v", h)
		check.That(t, h.PID != assumedPID, "reported %+v", h)
	}
	check.NoError(t, next.Close())
}

// TestOrderToAnAdoptedContainer: its processes connect to the next invoker's socket
// every now and then; until they have found it an order is not carried out.
func TestOrderToAnAdoptedContainer(t *testing.T) {
	b := open(t, nil)
	g := b.loaded()
	o := b.options
	if err := b.control.Close(); err != nil { // as its end would: all stays
		t.Fatal(err)
	}
	o.rejoinTime = testTimeout
	next, err := OpenMover(o)
	check.NoError(t, err)
	next.Listen(func(gpu.MemoryReport) {})
	_, err = next.Prepare(name, o.Devices[0], container.DeviceRequest{Shim: "managed"})
	check.NoError(t, err)
	next.Assume(name, gpu.Usage{Allocated: 32 * mib, Resident: 32 * mib})
	n, err := next.Move(b.limited(), evict(1), 0)
	check.Equal(t, n, 32*mib, "at once after the restart")
	check.NoError(t, err, "at once after the restart")
	g.Kill()
	// A process that never connects is waited for so long, and no longer.
	next.options.rejoinTime = time.Millisecond
	other := gpu.Order{Kind: gpu.Evict, Container: "wsk00_9_guest_other", Epoch: 1}
	_, err = next.Prepare(other.Container, o.Devices[0], container.DeviceRequest{Shim: "managed"})
	check.NoError(t, err)
	next.Assume(other.Container, gpu.Usage{Allocated: mib, Resident: mib})
	n, err = next.Move(b.limited(), other, 0)
	check.Equal(t, n, 0, "to one that reports by no shim")
	check.NoError(t, err, "to one that reports by no shim")
	check.NoError(t, next.Close())
}

// TestLeftovers: the files of an earlier invoker go, other files stay, and a
// process of then does not disturb.
func TestLeftovers(t *testing.T) {
	base := t.TempDir()
	old := filepath.Join(base, "0123456789abcdef")
	for _, dir := range []string{old, filepath.Join(base, "0123456789abcdeg")} {
		check.NoError(t, os.Mkdir(dir, 0o755))
		check.NoError(t, os.WriteFile(filepath.Join(dir, shimctl.SocketName), nil, 0o600))
	}
	check.NoError(t, clearSockets(base, nil))
	left, _ := filepath.Glob(filepath.Join(base, "*"))
	check.Equal(check.Must(t), len(left), 1)
	check.Equal(t, filepath.Base(left[0]), "0123456789abcdeg")
	check.NoError(t, clearSockets(filepath.Join(base, "none"), nil), "no directory")
}

func TestSocketDir(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	check.NoError(t, os.WriteFile(file, nil, 0o600))
	long := filepath.Join(base, strings.Repeat("x", LongestSocket))
	blocked := filepath.Join(file, "below")
	_, err := SocketDir(long, blocked)
	check.ErrorContains(t, err, "the kernel takes 107", "neither can be")
	for _, c := range []struct {
		want string
		dirs []string
	}{
		{filepath.Join(base, "a"), []string{filepath.Join(base, "a"), filepath.Join(base, "b")}},
		{filepath.Join(base, "b"), []string{blocked, filepath.Join(base, "b")}},
		{filepath.Join(base, "c"), []string{long, filepath.Join(base, "c")}},
	} {
		got, err := SocketDir(c.dirs...)
		check.Equal(t, got, c.want)
		check.NoError(t, err, "%s: want %s", got, c.want)
	}
}
