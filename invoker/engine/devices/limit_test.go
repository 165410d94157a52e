package devices

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// TestNamespaceShares: the running containers of a namespace hold no more than its
// limit together, what one leaves is the others', and one that gets beyond it is ended.
func TestNamespaceShares(t *testing.T) {
	b := open(t, nil)
	guests := map[string]*shimtest.Guest{}
	for _, c := range []struct{ name, namespace string }{{"a", "one"}, {"b", "one"}, {"c", "two"}} {
		g, err := b.Prepare(c.name, simulatedDevice(), container.DeviceRequest{Shim: "managed", Namespace: c.namespace, NamespaceLimit: 10 * mib})
		if err != nil {
			t.Fatal(err)
		}
		b.Begin(c.name, gpu.Need{})
		guests[c.name] = b.guest(g)
		b.awaitUsage(guests[c.name].PID(), 0)
	}
	try := func(what, name string, mb, want int64) {
		t.Helper()
		for _, n := range []string{"a", "b", "c"} { // a process that answers has read what was sent before
			for range 2 {
				if _, err := b.container(n).shim.Report(b.limited()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if code := guests[name].Do("try %d", mb*mib); code != want {
			t.Errorf("%s: %d MiB of %s: the driver answers %d, want %d", what, mb, name, code, want)
		}
	}
	try("more than all", "a", 11, 2)
	try("alone", "a", 7, 0)
	try("beside 7 of 10", "b", 4, 2)
	try("beside 7 of 10", "b", 2, 0)
	try("of another namespace", "c", 10, 0)
	b.End(b.limited(), "a", gpu.Need{})
	try("when the other rests", "b", 8, 0)
	b.last(0)
	events{b.Mover}.Usage("b", 1, gpu.Usage{Allocated: mib})
	over := b.await("the report on the limit", func(h gpu.MemoryReport) bool { return h.Over != "" })
	if over.Container != "b" || !strings.Contains(over.Over, "namespace one held 11 MB") || !strings.Contains(over.Over, "limit of 10 MB") {
		t.Errorf("reported %+v", over)
	}
}

// inNamespace starts a guest in a running container of a namespace with 10 MiB.
func (b *fixture) inNamespace(name string, promised int64) *shimtest.Guest {
	b.t.Helper()
	g, err := b.Prepare(name, simulatedDevice(), container.DeviceRequest{Shim: "managed", Namespace: "one", NamespaceLimit: 10 * mib})
	if err != nil {
		b.t.Fatal(err)
	}
	b.Begin(name, gpu.Need{Bytes: promised})
	guest := b.guest(g)
	b.awaitUsage(guest.PID(), 0)
	return guest
}

// TestNamespaceIsGranted: of two containers of a namespace one is refused what the other
// has taken and not reported yet.
func TestNamespaceIsGranted(t *testing.T) {
	b := open(t, nil)
	guests := []*shimtest.Guest{b.inNamespace("a", 0), b.inNamespace("b", 0), b.inNamespace("c", 2*mib)}
	for _, try := range []struct {
		guest    int
		mb, want int64
	}{
		{0, 6, 0}, {1, 6, 2}, {1, 2, 0}, {0, 1, 2}, // two are reserved
		{2, 2, 0}, {2, 1, 2}, {1, 1, 2},
	} {
		if code := guests[try.guest].Do("try %d", try.mb*mib); code != try.want {
			t.Errorf("%d MiB in container %c: the driver answers %d, want %d", try.mb, 'a'+try.guest, code, try.want)
		}
	}
}

// TestNamespaceRace: containers of a namespace that allocate at the same time get its
// limit together, and none is ended for it.
func TestNamespaceRace(t *testing.T) {
	b := open(t, nil)
	var taken atomic.Int64
	var all sync.WaitGroup
	for _, guest := range []*shimtest.Guest{b.inNamespace("a", 0), b.inNamespace("b", 0), b.inNamespace("c", 0)} {
		all.Go(func() {
			for guest.Do("try %d", mib/4) == 0 {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	if n := taken.Load(); n != 40 {
		t.Errorf("%d blocks of a quarter MiB below a limit of 40", n)
	}
	for name := range b.containers {
		if _, err := b.container(name).shim.Report(b.limited()); err != nil {
			t.Fatal(err)
		}
	}
	for len(b.reports) > 0 {
		if h := <-b.reports; h.Over != "" {
			t.Errorf("reported %+v", h)
		}
	}
}

// TestNamespaceBesideFrozen: a container that does not answer keeps what it was granted
// for a while, and then what it holds.
func TestNamespaceBesideFrozen(t *testing.T) {
	b := open(t, func(o *Options) { o.confirmTime = confirmTime })
	frozen, other := b.inNamespace("a", 0), b.inNamespace("b", 0)
	if code := frozen.Do("try %d", 2*mib); code != 0 {
		t.Fatalf("the driver answers %d", code)
	}
	if _, err := b.container("a").shim.Report(b.limited()); err != nil {
		t.Fatal(err)
	}
	if err := frozen.Process().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct{ mb, want int64 }{{9, 2}, {8, 0}} {
		if code := other.Do("try %d", try.mb*mib); code != try.want {
			t.Errorf("%d MiB beside 2 of 10: the driver answers %d, want %d", try.mb, code, try.want)
		}
	}
}

// TestNamespaceBeyondGrant: a container that takes more than it was granted is ended for
// it, and not the one that holds what it was granted.
func TestNamespaceBeyondGrant(t *testing.T) {
	b := open(t, nil)
	honest := b.inNamespace("a", 0)
	b.inNamespace("b", 0)
	if code := honest.Do("try %d", 7*mib); code != 0 {
		t.Fatalf("the driver answers %d", code)
	}
	if _, err := b.container("a").shim.Report(b.limited()); err != nil {
		t.Fatal(err)
	}
	events{b.Mover}.Usage("b", 1, gpu.Usage{Allocated: 5 * mib})
	events{b.Mover}.Usage("a", 1, gpu.Usage{})
	over := b.await("the report on the limit", func(h gpu.MemoryReport) bool { return h.Over != "" })
	if over.Container != "b" || !strings.Contains(over.Over, "held 12 MB") {
		t.Errorf("reported %+v", over)
	}
	for len(b.reports) > 0 {
		if h := <-b.reports; h.Over != "" {
			t.Errorf("reported %+v", h)
		}
	}
}

// TestDeviceIsShared: without any limit a container may have what others that run
// leave of the device, and what was reserved for it whatever they report.
func TestDeviceIsShared(t *testing.T) {
	b := open(t, func(o *Options) { o.helloTime = time.Millisecond }) // b has no process
	g := b.prepare("a", "managed")
	b.prepare("b", "managed")
	b.Begin("a", gpu.Need{Bytes: 20 * mib})
	guest := b.guest(g)
	b.awaitUsage(guest.PID(), 0)
	try := func(what string, mb, want int64) {
		t.Helper()
		if _, err := b.container("a").shim.Report(b.limited()); err != nil {
			t.Fatal(err)
		}
		if code := guest.Do("try %d", mb*mib); code != want {
			t.Errorf("%s: %d MiB: the driver answers %d, want %d", what, mb, code, want)
		}
	}
	b.Begin("b", gpu.Need{Bytes: 200 * mib})
	try("beside 200 promised of 256, and two contexts", 55, 2)
	try("beside 200 promised of 256, and two contexts", 10, 0)
	b.End(b.limited(), "b", gpu.Need{Bytes: 200 * mib})
	try("alone", 100, 0)
	events{b.Mover}.Usage("b", 1, gpu.Usage{Allocated: 1 << 48})
	b.Begin("b", gpu.Need{})
	try("beside one that reports all as its own", 1, 2)
	b.End(b.limited(), "b", gpu.Need{})
	try("when that rests", 100, 0)
}

// TestReservationStands: what another reports takes nothing of a reservation.
func TestReservationStands(t *testing.T) {
	b := open(t, nil)
	g := b.prepare("a", "managed")
	b.prepare("hostile", "managed")
	events{b.Mover}.Usage("hostile", 1, gpu.Usage{Allocated: 1 << 48})
	b.Begin("hostile", gpu.Need{})
	b.Begin("a", gpu.Need{Bytes: 20 * mib})
	guest := b.guest(g)
	b.awaitUsage(guest.PID(), 0)
	if _, err := b.container("a").shim.Report(b.limited()); err != nil {
		t.Fatal(err)
	}
	if code := guest.Do("try %d", 20*mib); code != 0 {
		t.Errorf("20 MiB of 20 promised: the driver answers %d", code)
	}
	if code := guest.Do("try 1"); code != 2 {
		t.Errorf("a byte beyond: the driver answers %d, want out of memory", code)
	}
}

// realDevice is the device of the fake driver, taken for a real one.
func realDevice() gpu.Device {
	d := simulatedDevice()
	d.Simulated = false
	return d
}

// TestLibrariesBesideTheLimit: what a process's libraries have on the device beside its
// memory is learned and not held against its limits; what it takes later past the shim is.
func TestLibrariesBesideTheLimit(t *testing.T) {
	for _, wish := range []container.DeviceRequest{
		{Shim: "managed", Limit: 100 * mib},
		{Shim: "managed", Namespace: "one", NamespaceLimit: 100 * mib},
	} {
		b := open(t, func(o *Options) { o.proc = t.TempDir() })
		g, err := b.Prepare("a", realDevice(), wish)
		if err != nil {
			t.Fatal(err)
		}
		b.Begin("a", gpu.Need{})
		guest := b.guest(g)
		b.shows(guest.PID(), "environ", b.container("a").shim.Dir())
		read := func(libraries int64) string {
			t.Helper()
			usage, err := b.container("a").shim.Report(b.limited())
			if err != nil {
				t.Fatal(err)
			}
			b.last(0)
			b.observe([]nvml.Reading{{Listed: true, Processes: []nvml.Process{{PID: guest.PID(), Bytes: usage[guest.PID()].Allocated + libraries}}}})
			return b.last(assumedPID).Over
		}
		guest.Do("try %d", 10*mib)
		if over := read(1500 * mib); over != "" {
			t.Errorf("libraries are loaded: %s", over)
		}
		if code := guest.Do("try %d", 90*mib); code != 0 {
			t.Errorf("all of the limit beside the libraries: the driver answers %d", code)
		}
		for range learningRuns {
			if over := read(1500 * mib); over != "" {
				t.Errorf("at its limit: %s", over)
			}
			b.End(b.limited(), "a", gpu.Need{})
			b.Begin("a", gpu.Need{})
		}
		if over := read(1500 * mib); over != "" {
			t.Errorf("at its limit: %s", over)
		}
		if over := read(1500*mib + shimctl.LibraryBytes); !strings.Contains(over, "limit of 100 MB") {
			t.Errorf("past the shim beyond its limit: %q", over)
		}
	}
}

// TestLittleBesideTheLimit: a process that had little beside its memory when it was at
// its limit is not taken to need more.
func TestLittleBesideTheLimit(t *testing.T) {
	b := newContainer("a", realDevice())
	b.limit = 100 * mib
	b.reporting[7], b.usage[7] = false, gpu.Usage{Allocated: 100 * mib}
	see := func(bytes int64) string {
		return b.overByNVML(map[int]observed{7: {bytes, 1}}, mib)
	}
	for ; b.ended <= learningRuns; b.ended++ {
		if over := see(150 * mib); over != "" {
			t.Errorf("with 50 MiB of libraries: %s", over)
		}
	}
	if over := see(300 * mib); over == "" {
		t.Error("200 MiB past the shim beyond its limit are not found")
	}
}

// TestLimitNearTheLargestNumber: what an action's author takes for no limit is none.
func TestLimitNearTheLargestNumber(t *testing.T) {
	b := open(t, nil)
	if _, err := b.Prepare("a", realDevice(), container.DeviceRequest{Shim: "managed", Limit: math.MaxInt64}); err != nil {
		t.Fatal(err)
	}
	if over := b.container("a").overByNVML(map[int]observed{7: {500 * mib, 1}}, mib); over != "" {
		t.Errorf("500 MiB: %s", over)
	}
}
