package gpucheck

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
)

// hostFree is the memory of the host that this process may still use.
func hostFree() int64 {
	free := bytesOf(field("/proc/meminfo", "MemAvailable", ":"))
	if limit := bytesOf(content("/sys/fs/cgroup/memory.max")); limit > 0 {
		free = min(free, max(limit-bytesOf(content("/sys/fs/cgroup/memory.current")), 0))
	}
	return free
}

// bytesOf reads bytes, or kB as /proc/meminfo has them. It returns 0 for other texts.
func bytesOf(text string) int64 {
	kb, inKB := strings.CutSuffix(text, " kB")
	n, _ := strconv.ParseInt(kb, 10, 64)
	return n << pick(inKB, 10, 0)
}

// content is a file's text, or empty.
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

// report begins the report with the facts about card and machine.
func (f *fixture) report() *Report {
	d, card := f.device, f.card()
	onOff := func(on bool) string { return pick(on, "on", "off") }
	return &Report{
		Fake: f.fake(), Card: d.Device, Version: f.s.Version, Started: f.began.UTC(), Goals: *f.s.Goals,
		Facts: []Fact{
			{"device", fmt.Sprintf("%s, %s, compute capability %s, %d multiprocessors", d.Device, size(d.Total), d.Capability, d.Processors)},
			{"free at the start", size(d.Free)},
			{"driver", fmt.Sprintf("%s: %s, CUDA %d.%d", pick(f.fake(), "fake driver", "NVIDIA's driver"), orUnknown(f.versions.Driver), d.Driver/1000, d.Driver%1000/10)},
			{"settings", fmt.Sprintf("MIG %s, MPS %s, compute mode %s", card.MIG, onOff(card.MPS), card.Mode)},
			{"managed memory", fmt.Sprintf("%s, concurrent access %s", onOff(d.Managed == 1), onOff(d.Concurrent == 1))},
			{"NVML", f.witness},
			{"machine", fmt.Sprintf("%s, kernel %s %s, %s, %d cores, %s", orUnknown(field("/etc/os-release", "PRETTY_NAME", "=")),
				content("/proc/sys/kernel/osrelease"), runtime.GOARCH, orUnknown(field("/proc/cpuinfo", "model name", ":")),
				runtime.NumCPU(), size(bytesOf(field("/proc/meminfo", "MemTotal", ":"))))},
		},
	}
}

// openNVML never fails. Without NVML the report has the reason. The fake library is loaded
// into this process. It sees the programs' device by a file that the environment names.
func (f *fixture) openNVML() {
	library := f.s.NVML
	if f.fake() {
		library = cmp.Or(library, f.path("nvml/libnvidia-ml.so.1"))
		shared := slices.ContainsFunc(f.s.Environ, func(v string) bool { return strings.HasPrefix(v, "FAKE_CUDA_STATE=") })
		if !exists(library) || !shared {
			f.witness = "not asked: no fake management library lies beside the shim, or FAKE_CUDA_STATE is not set"
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

// card is the card at the programs' PCI address. Facts that NVML does not report are
// unknown.
func (f *fixture) card() nvml.Card {
	if f.nvml != nil {
		cards, _ := f.nvml.Cards()
		for _, c := range cards {
			if len(cards) == 1 || sameBus(c.Bus, f.device.Bus) {
				return c
			}
		}
	}
	return nvml.Card{Memory: nvml.Memory{Used: -1}}
}

// sameBus compares PCI addresses whose domains have four digits or eight.
func sameBus(a, b string) bool {
	short := func(address string) string { return strings.TrimLeft(strings.ToLower(address), "0") }
	return a != "" && short(a) == short(b)
}
