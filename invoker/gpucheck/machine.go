package gpucheck

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// report begins the report with what is known before the first step.
func (b *bed) report() *Report {
	r := &Report{
		Fake: b.fake, Driver: "NVIDIA's driver", Version: b.s.Version, Started: b.began.UTC(),
		Machine: thisMachine(), Card: b.card(), Goals: *b.s.Goals, Programs: b.progs.how,
	}
	if b.fake {
		r.Driver = "fake driver"
	}
	return r
}

func (b *bed) card() Card {
	a := b.about
	c := Card{
		Name: a.Device, Capability: a.Capability, Processors: a.Processors, Memory: a.Total, Free: a.Free,
		Managed: a.Managed == 1, Concurrent: a.Concurrent == 1,
		CUDA: fmt.Sprintf("%d.%d", a.Driver/1000, a.Driver%1000/10),
		MIG:  "unknown", Mode: "unknown", NVML: b.mon.says(),
	}
	if b.mon.driver != nil {
		c.Driver = b.mon.driver.Versions().Driver
	}
	if n, err := b.mon.card(); err == nil {
		c.MIG, c.MPS, c.Mode = n.MIG.String(), n.MPS, n.Mode.String()
	}
	return c
}

func thisMachine() Machine {
	m := Machine{OS: osName(), Processor: processor(), Cores: runtime.NumCPU()}
	m.Memory, _ = memInfo("MemTotal")
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = text(u.Release[:]) + " " + text(u.Machine[:])
	}
	return m
}

func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// field is the value of the first line of a file that begins with a name.
func field(path, name, separator string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(content), "\n") {
		key, value, ok := strings.Cut(line, separator)
		if ok && strings.TrimSpace(key) == name {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

func osName() string { return orUnknown(field("/etc/os-release", "PRETTY_NAME", "=")) }

func processor() string { return orUnknown(field("/proc/cpuinfo", "model name", ":")) }
