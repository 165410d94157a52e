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
	const least = 64 << 20
	host := cmp.Or(t.s.HostMemory, hostFree())
	switch {
	case want <= host/2:
		return want
	case host/2 < least:
		skip("the host has %s free: too little to swap to", size(host))
	}
	cut := host / 2 &^ (1<<20 - 1)
	t.remark("Cut from %s to %s altogether, because the host has %s free (--host-memory overrides that).", size(want), size(cut), size(host))
	return cut
}

// hostFree is the memory of the host that this process may still use.
func hostFree() int64 {
	free := number(field("/proc/meminfo", "MemAvailable", ":"))
	if limit := number(content("/sys/fs/cgroup/memory.max")); limit > 0 {
		free = min(free, max(limit-number(content("/sys/fs/cgroup/memory.current")), 0))
	}
	return free
}

// number reads bytes, or kB as /proc/meminfo has them; 0 is none.
func number(text string) int64 {
	kb, inKB := strings.CutSuffix(text, " kB")
	n, _ := strconv.ParseInt(kb, 10, 64)
	if inKB {
		n <<= 10
	}
	return n
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
	d, card := f.device, f.card()
	return &Report{
		Fake: f.fake(), Driver: pick(f.fake(), "fake driver", "NVIDIA's driver"), Version: f.s.Version, Started: f.began.UTC(), Goals: *f.s.Goals,
		Machine: Machine{
			OS:        orUnknown(field("/etc/os-release", "PRETTY_NAME", "=")),
			Kernel:    content("/proc/sys/kernel/osrelease") + " " + runtime.GOARCH,
			Processor: orUnknown(field("/proc/cpuinfo", "model name", ":")),
			Cores:     runtime.NumCPU(),
			Memory:    number(field("/proc/meminfo", "MemTotal", ":")),
		},
		Card: Card{
			Name: d.Device, Capability: d.Capability, Processors: d.Processors, Memory: d.Total, Free: d.Free,
			Managed: d.Managed == 1, Concurrent: d.Concurrent == 1,
			CUDA: fmt.Sprintf("%d.%d", d.Driver/1000, d.Driver%1000/10),
			MIG:  card.MIG.String(), MPS: card.MPS, Mode: card.Mode.String(), Driver: f.versions.Driver, NVML: f.witness,
		},
	}
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
	f.nvml, f.versions = driver, driver.Versions()
	f.witness = pick(f.fake(), "a fake library", orUnknown(f.versions.NVML))
}

// card is the card that the programs use: the one at their device's address. What NVML
// does not report is unknown.
func (f *fixture) card() nvml.Card {
	var cards []nvml.Card
	if f.nvml != nil {
		cards, _ = f.nvml.Cards()
	}
	for _, c := range cards {
		if len(cards) == 1 || sameBus(c.Bus, f.device.Bus) {
			return c
		}
	}
	return nvml.Card{Memory: nvml.Memory{Used: -1}}
}

// used is how much of the card is in use, -1 where that is not reported. A fake
// library follows the fake driver only where the environment has it do so.
func (f *fixture) used() int64 { return pick(f.fake(), -1, f.card().Memory.Used) }

// listed is what a process has on the card, with its context and libraries; -1 where
// that is not reported.
func (f *fixture) listed(pid int) int64 {
	for _, p := range f.card().Processes {
		if p.PID == pid {
			return p.Bytes
		}
	}
	return -1
}

// sameBus compares PCI addresses whose domain is written with four digits or with
// eight.
func sameBus(a, b string) bool {
	short := func(address string) string { return strings.TrimLeft(strings.ToLower(address), "0") }
	return a != "" && short(a) == short(b)
}
