package gpucheck

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
)

// fit cuts a size to what the host can take in when it leaves the device, with as
// much again for everything else.
func (t *trial) fit(want int64) int64 {
	host, ok := t.s.HostMemory, true
	if host == 0 {
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
	free, ok := number(field("/proc/meminfo", "MemAvailable", ":"))
	limit, limited := number(content("/sys/fs/cgroup/memory.max"))
	used, known := number(content("/sys/fs/cgroup/memory.current"))
	if limited && known && (!ok || limit-used < free) {
		return max(limit-used, 0), true
	}
	return free, ok
}

// number reads bytes, or kB as /proc/meminfo has them.
func number(text string) (int64, bool) {
	kb, inKB := strings.CutSuffix(text, " kB")
	n, err := strconv.ParseInt(kb, 10, 64)
	if inKB {
		n <<= 10
	}
	return n, err == nil
}

// content is a file's text; what is not there is empty.
func content(path string) string {
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text))
}

// field is the value of the first line of a file that begins with a name.
func field(path, name, separator string) string {
	for line := range strings.Lines(content(path)) {
		key, value, ok := strings.Cut(line, separator)
		if ok && strings.TrimSpace(key) == name {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

func orUnknown(s string) string { return cmp.Or(s, "unknown") }

// report begins the report with what is known before the first step.
func (f *fixture) report() *Report {
	d := f.device
	r := &Report{
		Fake: f.fake(), Driver: pick(f, "NVIDIA's driver", "fake driver"), Version: f.s.Version, Started: f.began.UTC(), Goals: *f.s.Goals,
		Machine: Machine{
			OS:        orUnknown(field("/etc/os-release", "PRETTY_NAME", "=")),
			Kernel:    content("/proc/sys/kernel/osrelease") + " " + runtime.GOARCH,
			Processor: orUnknown(field("/proc/cpuinfo", "model name", ":")),
			Cores:     runtime.NumCPU(),
		},
		Card: Card{
			Name: d.Device, Capability: d.Capability, Processors: d.Processors, Memory: d.Total, Free: d.Free,
			Managed: d.Managed == 1, Concurrent: d.Concurrent == 1,
			CUDA: fmt.Sprintf("%d.%d", d.Driver/1000, d.Driver%1000/10),
			MIG:  "unknown", Mode: "unknown", NVML: f.witness,
		},
	}
	r.Machine.Memory, _ = number(field("/proc/meminfo", "MemTotal", ":"))
	if f.nvml != nil {
		r.Card.Driver = f.nvml.Versions().Driver
	}
	if n, ok := f.card(); ok {
		r.Card.MIG, r.Card.MPS, r.Card.Mode = n.MIG.String(), n.MPS, n.Mode.String()
	}
	return r
}

// openNVML never fails: without NVML the report has the reason.
func (f *fixture) openNVML() {
	library := f.s.NVML
	if f.fake() && library == "" {
		library = f.path("nvml/libnvidia-ml.so.1")
		if !exists(library) {
			f.witness = "not asked: no fake management library lies beside the shim"
			return
		}
	}
	driver, err := nvml.Open(nvml.Options{Library: library})
	if err != nil {
		f.witness = "not asked: " + err.Error()
		return
	}
	f.nvml, f.witness = driver, pick(f, orUnknown(driver.Versions().NVML), "a fake library")
}

// card is the card that the programs use: the one at their device's address.
func (f *fixture) card() (nvml.Card, bool) {
	if f.nvml == nil {
		return nvml.Card{}, false
	}
	cards, _ := f.nvml.Cards() // what it does not list is unknown
	for _, c := range cards {
		if len(cards) == 1 || sameBus(c.Bus, f.device.Bus) {
			return c, true
		}
	}
	return nvml.Card{}, false
}

// used is how much of the card is in use; false where that is not reported. A fake
// library follows the fake driver only where the environment has it do so.
func (f *fixture) used() (int64, bool) {
	c, ok := f.card()
	return c.Memory.Used, ok && !f.fake() && c.Memory.Used >= 0
}

// listed is what a process has on the card, with its context and libraries; false where
// that is not reported.
func (f *fixture) listed(pid int) (int64, bool) {
	c, _ := f.card()
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
