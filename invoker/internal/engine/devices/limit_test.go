package devices

import (
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// TestNamespaceShares: the running containers of a namespace hold no more than its
// limit together, what one leaves is the others', and one that gets beyond it is ended.
func TestNamespaceShares(t *testing.T) {
	b := open(t, nil)
	guests := map[string]*shimtest.Guest{}
	for _, c := range []struct{ name, namespace string }{{"a", "one"}, {"b", "one"}, {"c", "two"}} {
		g, err := b.Prepare(c.name, simulatedDevice(), container.DeviceRequest{Shim: "managed", Namespace: c.namespace, NamespaceLimit: 10 * mib})
		check.NoError(t, err)
		b.Begin(c.name, gpu.MemoryRequest{})
		guests[c.name] = b.guest(g)
		b.awaitUsage(guests[c.name].PID(), 0)
	}
	try := func(what, name string, mb, want int64) {
		t.Helper()
		for _, n := range []string{"a", "b", "c"} { // a process that answers has read what was sent before
			for range 2 {
				_, err := b.container(n).shim.Report(b.limited())
				check.NoError(t, err)
			}
		}
		check.Equal(t, guests[name].Do("try %d", mb*mib), want, "%s: %d MiB of %s: the driver answers", what, mb, name)
	}
	try("more than all", "a", 11, 2)
	try("alone", "a", 7, 0)
	try("beside 7 of 10", "b", 4, 2)
	try("beside 7 of 10", "b", 2, 0)
	try("of another namespace", "c", 10, 0)
	b.End(b.limited(), "a", gpu.MemoryRequest{})
	try("when the other rests", "b", 8, 0)
	b.last(0)
	events{b.Mover}.Usage("b", 1, gpu.Usage{Allocated: mib})
	over := b.await("the report on the limit", func(h gpu.MemoryReport) bool { return h.Over != "" })
	check.Equal(t, over.Container, "b")
	check.Contains(t, over.Over, "namespace one held 11 MB")
	check.Contains(t, over.Over, "limit of 10 MB")
}

// inNamespace starts a guest in a running container of a namespace with 10 MiB.
func (b *fixture) inNamespace(name string, promised int64) *shimtest.Guest {
	b.t.Helper()
	g, err := b.Prepare(name, simulatedDevice(), container.DeviceRequest{Shim: "managed", Namespace: "one", NamespaceLimit: 10 * mib})
	check.NoError(b.t, err)
	b.Begin(name, gpu.MemoryRequest{Bytes: promised})
	guest := b.guest(g)
	b.awaitUsage(guest.PID(), 0)
	return guest
}

// TestNamespaceIsGranted: of two containers of a namespace one is refused the memory that the other
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
		check.Equal(t, guests[try.guest].Do("try %d", try.mb*mib), try.want, "%d MiB in container %c: the driver answers", try.mb, 'a'+try.guest)
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
	check.Equal(t, taken.Load(), 40, "blocks of a quarter MiB below a limit of 40")
	for name := range b.containers {
		_, err := b.container(name).shim.Report(b.limited())
		check.NoError(t, err)
	}
	for len(b.reports) > 0 {
		check.Equal(t, check.Receive(t, b.reports).Over, "")
	}
}

// TestReservedWithoutShim: a container without a shim is not ended for memory that was reserved
// for its run, where another of its namespace took more before.
func TestReservedWithoutShim(t *testing.T) {
	b := open(t, func(o *Options) { o.proc = t.TempDir() })
	made := map[string]container.GPU{}
	for name, word := range map[string]string{"a": "managed", "b": "off"} {
		g, err := b.Prepare(name, realDevice(), container.DeviceRequest{Shim: word, Namespace: "one", NamespaceLimit: 50 * mib})
		check.NoError(t, err)
		made[name] = g
	}
	const pid = 7
	b.shows(pid, "environ", b.container("b").shim.Dir())
	see := func(bytes int64) string {
		b.observe([]nvml.Reading{{Listed: true, Processes: []nvml.Process{{PID: pid, Bytes: bytes + mib + unreportedBytes}}}})
		return b.last(assumedPID).Over
	}
	b.Begin("a", gpu.MemoryRequest{})
	guest := b.guest(made["a"])
	b.awaitUsage(guest.PID(), 0)
	check.Equal(t, guest.Do("try %d", 40*mib), 0, "40 MiB of 50: the driver answers")
	b.awaitUsage(guest.PID(), 40*mib)
	b.Begin("b", gpu.MemoryRequest{Context: 21 * mib})
	check.Equal(t, b.container("a").allowed, 30*mib, "bytes of 50 beside 20 that are reserved")
	check.Equal(t, see(20*mib), "", "what was reserved for it")
	check.Contains(t, see(40*mib), "held 80 MB of GPU memory together", "more than that")
}

// TestNamespaceToItsLastByte: beside a container of its namespace that holds nothing, one
// may have all of the limit.
func TestNamespaceToItsLastByte(t *testing.T) {
	b := open(t, nil)
	b.inNamespace("idle", 0)
	check.Equal(t, b.inNamespace("a", 0).Do("try %d", 10*mib), 0, "10 MiB of 10: the driver answers")
}

// TestByteBesideTheLimit: a process that was granted nothing may take a byte, and its
// container is not ended for that.
func TestByteBesideTheLimit(t *testing.T) {
	b := newContainer("a", realDevice())
	b.limit, b.host = 10*mib, 10*mib
	for _, c := range []struct {
		bytes int64
		over  bool
	}{{1, false}, {2, false}, {3, true}} {
		for _, u := range []gpu.Usage{{Allocated: c.bytes}, {Pinned: c.bytes}} {
			b.overReported = false
			b.usage = map[int]gpu.Usage{1: {Allocated: 10 * mib, Pinned: 10 * mib}, 2: u}
			check.Equal(t, b.overByReport() != "", c.over, "%+v", u)
		}
	}
}

// TestNamespaceBesideFrozen: a container that does not answer keeps its grant for a while,
// and then the memory that it holds.
func TestNamespaceBesideFrozen(t *testing.T) {
	b := open(t, func(o *Options) { o.confirmTime = confirmTime })
	frozen, other := b.inNamespace("a", 0), b.inNamespace("b", 0)
	check.Equal(check.Must(t), frozen.Do("try %d", 2*mib), 0, "the driver answers")
	_, err := b.container("a").shim.Report(b.limited())
	check.NoError(t, err)
	check.NoError(t, frozen.Process().Signal(syscall.SIGSTOP))
	for _, try := range []struct{ mb, want int64 }{{9, 2}, {8, 0}} {
		check.Equal(t, other.Do("try %d", try.mb*mib), try.want, "%d MiB beside 2 of 10: the driver answers", try.mb)
	}
}

// TestNamespaceBeyondGrant: a container that takes more than its grant is ended, and the
// container within its grant is not.
func TestNamespaceBeyondGrant(t *testing.T) {
	b := open(t, nil)
	honest := b.inNamespace("a", 0)
	b.inNamespace("b", 0)
	check.Equal(check.Must(t), honest.Do("try %d", 7*mib), 0, "the driver answers")
	_, err := b.container("a").shim.Report(b.limited())
	check.NoError(t, err)
	events{b.Mover}.Usage("b", 1, gpu.Usage{Allocated: 5 * mib})
	events{b.Mover}.Usage("a", 1, gpu.Usage{})
	over := b.await("the report on the limit", func(h gpu.MemoryReport) bool { return h.Over != "" })
	check.Equal(t, over.Container, "b")
	check.Contains(t, over.Over, "held 12 MB")
	for len(b.reports) > 0 {
		check.Equal(t, check.Receive(t, b.reports).Over, "")
	}
}

// TestDeviceIsShared: without any limit a container may have the rest that other running
// containers leave of the device, and its reservation whatever they report.
func TestDeviceIsShared(t *testing.T) {
	b := open(t, func(o *Options) { o.helloTime = time.Millisecond }) // b has no process
	g := b.prepare("a", "managed")
	b.prepare("b", "managed")
	b.Begin("a", gpu.MemoryRequest{Bytes: 20 * mib})
	guest := b.guest(g)
	b.awaitUsage(guest.PID(), 0)
	try := func(what string, mb, want int64) {
		t.Helper()
		_, err := b.container("a").shim.Report(b.limited())
		check.NoError(t, err)
		check.Equal(t, guest.Do("try %d", mb*mib), want, "%s: %d MiB: the driver answers", what, mb)
	}
	b.Begin("b", gpu.MemoryRequest{Bytes: 200 * mib})
	try("beside 200 promised of 256, and two contexts", 55, 2)
	try("beside 200 promised of 256, and two contexts", 10, 0)
	b.End(b.limited(), "b", gpu.MemoryRequest{Bytes: 200 * mib})
	try("alone", 100, 0)
	events{b.Mover}.Usage("b", 1, gpu.Usage{Allocated: 1 << 48})
	b.Begin("b", gpu.MemoryRequest{})
	try("beside one that reports all as its own", 1, 2)
	b.End(b.limited(), "b", gpu.MemoryRequest{})
	try("when that rests", 100, 0)
}

// TestReservationStands: the reports of others take nothing of a reservation.
func TestReservationStands(t *testing.T) {
	b := open(t, nil)
	g := b.prepare("a", "managed")
	b.prepare("hostile", "managed")
	events{b.Mover}.Usage("hostile", 1, gpu.Usage{Allocated: 1 << 48})
	b.Begin("hostile", gpu.MemoryRequest{})
	b.Begin("a", gpu.MemoryRequest{Bytes: 20 * mib})
	guest := b.guest(g)
	b.awaitUsage(guest.PID(), 0)
	_, err := b.container("a").shim.Report(b.limited())
	check.NoError(t, err)
	check.Equal(t, guest.Do("try %d", 20*mib), 0, "20 MiB of 20 promised: the driver answers")
	check.Equal(t, guest.Do("try 1"), 2, "a byte beyond: the driver answers")
}

// realDevice is the device of the fake driver, taken for a real one.
func realDevice() gpu.Device {
	d := simulatedDevice()
	d.Simulated = false
	return d
}

// TestLibrariesBesideTheLimit: the memory of a process's libraries is learned and does not
// count against its limits. Memory that it takes later past the shim counts.
func TestLibrariesBesideTheLimit(t *testing.T) {
	for _, wish := range []container.DeviceRequest{
		{Shim: "managed", Limit: 100 * mib},
		{Shim: "managed", Namespace: "one", NamespaceLimit: 100 * mib},
	} {
		b := open(t, func(o *Options) { o.proc = t.TempDir() })
		g, err := b.Prepare("a", realDevice(), wish)
		check.NoError(t, err)
		b.Begin("a", gpu.MemoryRequest{})
		guest := b.guest(g)
		b.shows(guest.PID(), "environ", b.container("a").shim.Dir())
		read := func(libraries int64) string {
			t.Helper()
			usage, err := b.container("a").shim.Report(b.limited())
			check.NoError(t, err)
			b.last(0)
			b.observe([]nvml.Reading{{Listed: true, Processes: []nvml.Process{{PID: guest.PID(), Bytes: usage[guest.PID()].Plain + libraries}}}})
			return b.last(assumedPID).Over
		}
		guest.Do("try %d", 10*mib)
		check.Equal(t, read(1500*mib), "", "libraries are loaded")
		check.Equal(t, guest.Do("try %d", 90*mib), 0, "all of the limit beside the libraries: the driver answers")
		for range learningRuns {
			check.Equal(t, read(1500*mib), "", "at its limit")
			b.End(b.limited(), "a", gpu.MemoryRequest{})
			b.Begin("a", gpu.MemoryRequest{})
		}
		check.Equal(t, read(1500*mib), "", "at its limit")
		check.Contains(t, read(1500*mib+shimctl.LibraryBytes), "limit of 100 MB", "past the shim beyond its limit")
	}
}

// TestLittleBesideTheLimit: a process that had little beside its memory when it was at
// its limit is not taken to need more.
func TestLittleBesideTheLimit(t *testing.T) {
	b := newContainer("a", realDevice())
	b.limit = 100 * mib
	b.reporting[7], b.usage[7] = false, gpu.Usage{Allocated: 100 * mib, Plain: 100 * mib}
	see := func(bytes int64) string {
		return b.overByNVML(map[int]observed{7: {bytes, 1}}, mib)
	}
	for ; b.ended <= learningRuns; b.ended++ {
		check.Equal(t, see(150*mib), "", "with 50 MiB of libraries")
	}
	check.That(t, see(300*mib) != "", "200 MiB past the shim beyond its limit are not found")
}

// TestLimitNearTheLargestNumber: a number that an action's author takes for no limit is none.
func TestLimitNearTheLargestNumber(t *testing.T) {
	b := open(t, nil)
	if _, err := b.Prepare("a", realDevice(), container.DeviceRequest{Shim: "managed", Limit: math.MaxInt64}); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, b.container("a").overByNVML(map[int]observed{7: {500 * mib, 1}}, mib), "", "500 MiB")
}

// TestLibrariesOfOneThatExited: the memory of a process's libraries on the device ends
// with the process, and does not count for its namespace until the device is read again.
func TestLibrariesOfOneThatExited(t *testing.T) {
	b := open(t, func(o *Options) { o.proc = t.TempDir() })
	wish := container.DeviceRequest{Shim: "managed", Namespace: "one", NamespaceLimit: 100 * mib}
	for _, name := range []string{"a", "b"} {
		_, err := b.Prepare(name, realDevice(), wish)
		check.NoError(t, err)
		b.Begin(name, gpu.MemoryRequest{})
	}
	const pid = 7
	b.shows(pid, "environ", b.container("a").shim.Dir())
	events{b.Mover}.Usage("a", pid, gpu.Usage{Allocated: 10 * mib})
	b.observe([]nvml.Reading{{Listed: true, Processes: []nvml.Process{{PID: pid, Bytes: 1500 * mib}}}})
	check.AtLeast(check.Must(t), b.last(hiddenPID(pid)).Usage.Resident, 1000*mib, "libraries beside the memory")
	events{b.Mover}.Exited("a", pid)
	check.That(t, b.last(hiddenPID(pid)).Exited, "its libraries are reported as there")
	events{b.Mover}.Usage("a", 8, gpu.Usage{Allocated: 200 * mib})
	check.Contains(t, b.last(assumedPID).Over, "held 200 MB of GPU memory together")
}
