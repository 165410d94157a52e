package devices

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// observer records the reports.
type observer struct{ faults []string }

func (o *observer) Observe(r []gpu.Reading) { o.faults = append(o.faults, fmt.Sprint(r)) }
func (o *observer) DeviceLost(i int, why string) {
	o.faults = append(o.faults, fmt.Sprintf("lost %d: %s", i, why))
}
func (o *observer) DeviceBack(i int) { o.faults = append(o.faults, fmt.Sprintf("back %d", i)) }

func TestNewsOfDevices(t *testing.T) {
	d := &fakeDriver{cards: cards()}
	log := &safeBuffer{}
	h, err := openHost("0,3", slog.New(slog.NewTextHandler(log, nil)), func() (driver, error) { return d, nil })
	check.NoError(t, err)
	o := &observer{}
	check.NoError(t, h.Watch(o, open(t, nil).Mover))
	check.Equal(t, uuids(d.watch.Devices), "GPU-a GPU-d")
	d.watch.Readings([]nvml.Reading{
		{Device: 0, Utilization: 0.5, Memory: nvml.Memory{Total: 9, Used: 7}},
		{Device: 1, Lost: true, Utilization: -1},
	})
	for _, f := range []nvml.Fault{
		{Device: 1, Kind: nvml.Lost, Severity: nvml.Fatal, Text: "off the bus"},
		{Device: 1, Kind: nvml.Found, Severity: nvml.Degraded},
		{Device: 0, Kind: nvml.XID, Severity: nvml.OfProcess, Number: 31},
		{Device: 0, Kind: nvml.XID, Severity: nvml.Degraded, Number: 63},
		{Device: 0, Kind: nvml.ECC, Severity: nvml.Fatal, Text: "memory error"},
	} {
		d.watch.Fault(f)
	}
	want := []string{"[{0 0.5 7}]", "lost 1: off the bus", "back 1", "lost 0: memory error"}
	check.EqualSlices(t, o.faults, want)
	for level, n := range map[string]int{"level=ERROR": 2, "level=WARN": 3, "a program made an error on the gpu": 1} {
		got := log.count(level)
		check.Equal(t, got, n, "%d lines of %s, want %d", got, level, n)
	}
}

// shows has a process show a text as the kernel would in a file of it.
func (b *fixture) shows(pid int, file, text string) {
	b.t.Helper()
	own := filepath.Join(b.options.proc, fmt.Sprint(pid))
	check.NoError(b.t, os.MkdirAll(own, 0o755))
	check.NoError(b.t, os.WriteFile(filepath.Join(own, file), []byte(text), 0o600))
}

func TestOwners(t *testing.T) {
	for _, c := range []struct {
		file    string
		mounted bool
		text    string // with the directory for %s
	}{
		{"environ", false, "A=1\x00GPUWHISK_SHIM_SOCKET=%s/shim.sock\x00B=2\x00"},
		{"mountinfo", true, "36 35 98:0 %s /run/gpuwhisk ro,noatime - tmpfs tmpfs rw\n"},
	} {
		b := open(t, func(o *Options) { o.Mounted, o.proc = c.mounted, t.TempDir() })
		b.prepare("a", "managed")
		b.prepare("b", "off")
		show := func(name string) string { return fmt.Sprintf(c.text, b.container(name).shim.Dir()) }
		for pid, text := range map[int]string{1: show("a"), 2: show("b"), 3: "A=1", 4: show("a") + show("b")} {
			b.shows(pid, c.file, text)
		}
		for pid, want := range map[int]string{1: "a", 2: "b", 3: "any", 4: "ab", 5: "any"} {
			for _, name := range []string{"a", "b"} {
				check.Equal(t, b.owns(name, pid), want == "any" || strings.Contains(want, name), "process %d by its %s: of %s", pid, c.file, name)
			}
		}
	}
}

// A process may report only for the container that it names.
func TestStrangerIsRefused(t *testing.T) {
	b := open(t, nil)
	a := b.prepare("a", "managed")
	b.prepare("c", "managed")
	own := b.guest(a)
	b.await("the guest", func(h gpu.MemoryReport) bool { return h.PID == own.PID() })
	check.That(t, !b.owns("c", own.PID()), "a process of a may report for c")
	check.That(t, b.owns("a", own.PID()), "a process of a may not report for a")
	check.That(t, b.owns("a", os.Getpid()), "a process that shows nothing is refused")
}

// TestUnheardProcesses: memory that NVML lists for a container's processes is charged
// unless they report it themselves.
func TestUnheardProcesses(t *testing.T) {
	b := open(t, func(o *Options) { o.proc = t.TempDir() })
	hooked := b.guest(b.prepare(name, "managed"))
	b.prepare("static", "managed")
	dir := b.container("static").shim.Dir()
	for pid, text := range map[int]string{8: dir, 9: dir, 10: "of no container", hooked.PID(): b.container(name).shim.Dir()} {
		b.shows(pid, "environ", text)
	}
	b.awaitUsage(hooked.PID(), 0)
	b.last(0)
	read := func(of ...nvml.Process) { b.observe([]nvml.Reading{{Listed: true, Processes: of}}) }
	expect := func(what string, want ...gpu.MemoryReport) {
		t.Helper()
		var got []gpu.MemoryReport
		for len(b.reports) > 0 {
			if h := <-b.reports; h.PID != hooked.PID() {
				got = append(got, h)
			}
		}
		slices.SortFunc(got, func(x, y gpu.MemoryReport) int { return x.PID - y.PID })
		check.EqualSlices(t, got, want, "%s: reported", what)
	}
	all := func(pid int, bytes int64) gpu.MemoryReport {
		return gpu.MemoryReport{Container: "static", PID: pid, Usage: gpu.Usage{Allocated: bytes, Resident: bytes}}
	}
	b.assume(b.container("static"), gpu.MemoryRequest{Bytes: 5})
	reserved := all(assumedPID, 5)
	reserved.Assumed = true
	expect("assumed", reserved)
	own := nvml.Process{PID: hooked.PID(), Bytes: 60 * mib}
	read(own, nvml.Process{PID: 8, Bytes: 40 * mib}, nvml.Process{PID: 10, Bytes: 7 * mib}, nvml.Process{PID: 11, Bytes: 7 * mib})
	expect("found", gpu.MemoryReport{Container: "static", PID: assumedPID, Exited: true}, all(8, 40*mib))
	b.assume(b.container("static"), gpu.MemoryRequest{Bytes: 5})
	read(own, nvml.Process{PID: 8, Bytes: 41 * mib})
	expect("a small change")
	read(own, nvml.Process{PID: 8, Bytes: 80 * mib}, nvml.Process{PID: 9, Bytes: -1})
	expect("a large one, and one without a number", all(8, 80*mib))
	b.observe([]nvml.Reading{{Listed: false}})
	expect("a driver that lists no process")
	b.observe([]nvml.Reading{{Listed: true, Processes: []nvml.Process{own, {PID: 8, Bytes: 120 * mib}}}, {Device: 1, Lost: true}})
	expect("beside a device that is lost", all(8, 120*mib))
	b.observe([]nvml.Reading{{Device: 1, Listed: true, Processes: []nvml.Process{{PID: 8, Bytes: 80 * mib}}}})
	expect("on a device that is not the container's", gpu.MemoryReport{Container: "static", PID: 8, Exited: true})
	read(own)
	expect("no process is left")
	// More than its report, a context and the driver's own part.
	own.Bytes = 200 * mib
	read(own)
	expect("hidden", gpu.MemoryReport{Container: name, PID: -own.PID, Usage: gpu.Usage{Allocated: 135 * mib, Resident: 135 * mib}})
	own.Bytes = 60 * mib
	read(own)
	expect("hidden no more", gpu.MemoryReport{Container: name, PID: -own.PID, Exited: true})
	b.container("static").limit = 10 * mib
	read(own, nvml.Process{PID: 8, Bytes: 70 * mib})
	expect("beyond its limit, but for the driver's bits", all(8, 70*mib))
	read(own, nvml.Process{PID: 8, Bytes: 90 * mib})
	check.Contains(t, b.last(assumedPID).Over, "limit of 10 MB", "beyond its limit")
	b.container("static").limit = 0
	read(own)
	check.Equal(t, len(b.owners), 1)
}
