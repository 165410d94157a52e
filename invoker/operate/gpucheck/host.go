package gpucheck

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
)

// fit cuts a size to what the host can take in when it leaves the device, with as
// much again for everything else.
func (t *trial) fit(want int64) int64 {
	host, ok := t.s.HostMemory, true
	if host <= 0 {
		host, ok = hostFree()
	}
	if !ok || want <= host/2 {
		return want
	}
	const least = 64 << 20
	if host/2 < least {
		skip("the host has %s free: too little to swap to", size(host))
	}
	cut := host / 2 &^ (1<<20 - 1)
	t.remark("Cut from %s to %s altogether, because the host has %s free (--host-memory overrides that).", size(want), size(cut), size(host))
	return cut
}

// hostFree is the memory of the host that this process may still use; false where
// the kernel does not report it.
func hostFree() (int64, bool) {
	free, ok := kibibytes("/proc/meminfo", "MemAvailable")
	limit, limited := number("/sys/fs/cgroup/memory.max")
	used, known := number("/sys/fs/cgroup/memory.current")
	if limited && known && (!ok || limit-used < free) {
		return max(limit-used, 0), true
	}
	return free, ok
}

func number(path string) (int64, bool) {
	text, _ := os.ReadFile(path) // no file, no number
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

func kibibytes(path, name string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSuffix(field(path, name, ":"), " kB"), 10, 64)
	return n << 10, err == nil
}

// field is the value of the first line of a file that begins with a name.
func field(path, name, separator string) string {
	content, _ := os.ReadFile(path) // no file, no value
	for line := range strings.Lines(string(content)) {
		key, value, ok := strings.Cut(line, separator)
		if ok && strings.TrimSpace(key) == name {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

// report begins the report with what is known before the first step.
func (f *fixture) report() *Report {
	return &Report{
		Fake: f.fake, Driver: pick(f, "NVIDIA's driver", "fake driver"), Version: f.s.Version, Started: f.began.UTC(),
		Machine: thisMachine(), Card: f.card(), Goals: *f.s.Goals,
	}
}

func thisMachine() Machine {
	m := Machine{
		OS:        orUnknown(field("/etc/os-release", "PRETTY_NAME", "=")),
		Processor: orUnknown(field("/proc/cpuinfo", "model name", ":")),
		Cores:     runtime.NumCPU(),
	}
	m.Memory, _ = kibibytes("/proc/meminfo", "MemTotal")
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	}
	return m
}

func (f *fixture) card() Card {
	d := f.device
	c := Card{
		Name: d.Device, Capability: d.Capability, Processors: d.Processors, Memory: d.Total, Free: d.Free,
		Managed: d.Managed == 1, Concurrent: d.Concurrent == 1,
		CUDA: fmt.Sprintf("%d.%d", d.Driver/1000, d.Driver%1000/10),
		MIG:  "unknown", Mode: "unknown", NVML: f.monitor.source,
	}
	if f.monitor.driver != nil {
		c.Driver = f.monitor.driver.Versions().Driver
	}
	if n, ok := f.monitor.card(); ok {
		c.MIG, c.MPS, c.Mode = n.MIG.String(), n.MPS, n.Mode.String()
	}
	return c
}

// monitor reads how full the card is from its driver's management library: a second
// witness beside cuMemGetInfo.
type monitor struct {
	driver *nvml.Driver // nil: none
	source string       // for the report: what the card is observed by, or why it is not
	bus    string
	fake   bool // a fake library follows the fake driver only where the environment has it do so
}

// openMonitor never fails: without NVML the report has the reason.
func openMonitor(s Settings, fake bool, bus string) *monitor {
	m := &monitor{bus: bus, fake: fake}
	library := s.NVML
	if fake && library == "" {
		library = filepath.Join(s.Shim, "nvml", "libnvidia-ml.so.1")
		if !exists(library) {
			m.source = "not asked: no fake management library lies beside the shim"
			return m
		}
	}
	driver, err := nvml.Open(nvml.Options{Library: library})
	if err != nil {
		m.source = "not asked: " + err.Error()
		return m
	}
	m.driver, m.source = driver, orUnknown(driver.Versions().NVML)
	if fake {
		m.source = "a fake library"
	}
	return m
}

// card is the card that the programs use: the one at their device's address.
func (m *monitor) card() (nvml.Card, bool) {
	if m.driver == nil {
		return nvml.Card{}, false
	}
	cards, _ := m.driver.Cards() // what it does not list is unknown
	for _, c := range cards {
		if len(cards) == 1 || sameBus(c.Bus, m.bus) {
			return c, true
		}
	}
	return nvml.Card{}, false
}

// used is how much of the card is in use; false where that is not reported.
func (m *monitor) used() (int64, bool) {
	c, ok := m.card()
	return c.Memory.Used, ok && !m.fake && c.Memory.Used >= 0
}

// listed is what a process has on the card, with its context and libraries; false where
// that is not reported.
func (m *monitor) listed(pid int) (int64, bool) {
	c, _ := m.card()
	for _, p := range c.Processes {
		if p.PID == pid && p.Bytes >= 0 {
			return p.Bytes, true
		}
	}
	return 0, false
}

// sameBus compares PCI addresses whose domain is written with four digits or with
// eight.
func sameBus(a, b string) bool {
	short := func(address string) string { return strings.TrimLeft(strings.ToLower(address), "0") }
	return a != "" && short(a) == short(b)
}

func orUnknown(s string) string { return cmp.Or(s, "unknown") }
