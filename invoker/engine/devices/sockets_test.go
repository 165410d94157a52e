package devices

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

func TestContainersAreForgotten(t *testing.T) {
	b := open(t, nil)
	b.prepare(name, "managed")
	dir := b.container(name).shim.Dir()
	if _, err := b.Prepare(name, simulatedDevice(), container.DeviceRequest{Shim: "managed"}); err == nil {
		t.Error("a container is prepared twice")
	}
	b.Forget(name)
	b.Forget(name)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory is left: %v", err)
	}
	b.Begin(name, gpu.Need{})
	b.End(b.limited(), name, gpu.Need{})
	if n, err := b.Move(b.limited(), evict(1), 0); n != 0 || err != nil {
		t.Errorf("an order to a forgotten container: %d, %v", n, err)
	}
	b.prepare(name, "managed") // the name may come again; Close forgets it
}

// TestInvokerStartsAgain: the next invoker finds the sockets of one that was
// killed, and a process that outlived it does not disturb.
func TestInvokerStartsAgain(t *testing.T) {
	b := open(t, nil)
	old := b.loaded()
	o := b.options
	if err := b.control.Close(); err != nil { // as its end would: all stays
		t.Fatal(err)
	}
	next, err := OpenMover(o)
	if err != nil {
		t.Fatal(err)
	}
	reports := make(chan gpu.MemoryReport, 100)
	next.Listen(func(h gpu.MemoryReport) { reports <- h })
	old.Kill() // with its container, before there are others
	g, err := next.Prepare(name, o.Devices[0], container.DeviceRequest{Shim: "managed"})
	if err != nil {
		t.Fatal(err)
	}
	b.guest(g).Do("alloc %d", mib)
	next.End(b.limited(), name, gpu.Need{})
	for len(reports) > 0 {
		if h := <-reports; h.PID == old.PID() || h.PID == assumedPID {
			t.Errorf("reported %+v", h)
		}
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	next.Listen(func(gpu.MemoryReport) {})
	if _, err := next.Prepare(name, o.Devices[0], container.DeviceRequest{Shim: "managed"}); err != nil {
		t.Fatal(err)
	}
	next.Assume(name, gpu.Usage{Allocated: 32 * mib, Resident: 32 * mib})
	if n, err := next.Move(b.limited(), evict(1), 0); n != 32*mib || err != nil {
		t.Errorf("at once after the restart: %d, %v", n, err)
	}
	g.Kill()
	// A process that never connects is waited for so long, and no longer.
	next.options.rejoinTime = time.Millisecond
	other := gpu.Order{Kind: gpu.Evict, Container: "wsk00_9_guest_other", Epoch: 1}
	if _, err := next.Prepare(other.Container, o.Devices[0], container.DeviceRequest{Shim: "managed"}); err != nil {
		t.Fatal(err)
	}
	next.Assume(other.Container, gpu.Usage{Allocated: mib, Resident: mib})
	if n, err := next.Move(b.limited(), other, 0); n != 0 || err != nil {
		t.Errorf("to one that reports by no shim: %d, %v", n, err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// TestLeftovers: what an earlier invoker left goes, other files stay, and a
// process of then does not disturb.
func TestLeftovers(t *testing.T) {
	base := t.TempDir()
	old := filepath.Join(base, "0123456789abcdef")
	for _, dir := range []string{old, filepath.Join(base, "0123456789abcdeg")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, shimctl.SocketName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := clearSockets(base, nil); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(base, "*"))
	if len(left) != 1 || filepath.Base(left[0]) != "0123456789abcdeg" {
		t.Errorf("left: %v", left)
	}
	if err := clearSockets(filepath.Join(base, "none"), nil); err != nil {
		t.Errorf("no directory: %v", err)
	}
}

func TestSocketDir(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(base, strings.Repeat("x", LongestSocket))
	blocked := filepath.Join(file, "below")
	if _, err := SocketDir(long, blocked); err == nil || !strings.Contains(err.Error(), "the kernel takes 107") {
		t.Errorf("neither can be: %v", err)
	}
	for _, c := range []struct {
		want string
		dirs []string
	}{
		{filepath.Join(base, "a"), []string{filepath.Join(base, "a"), filepath.Join(base, "b")}},
		{filepath.Join(base, "b"), []string{blocked, filepath.Join(base, "b")}},
		{filepath.Join(base, "c"), []string{long, filepath.Join(base, "c")}},
	} {
		if got, err := SocketDir(c.dirs...); got != c.want || err != nil {
			t.Errorf("%s, %v: want %s", got, err, c.want)
		}
	}
}
