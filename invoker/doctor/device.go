package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// perCard judges each card that answers, and says once what holds for all.
func (f *Facts) perCard(judge func(nvml.Card) Finding) []Finding {
	var bad []Finding
	var good []string
	for _, c := range f.gpu.value.Cards {
		if c.Lost != "" {
			continue
		}
		switch x := judge(c); {
		case x.Status != OK:
			bad = append(bad, x)
		case x.Found != "":
			good = append(good, x.Found)
		}
	}
	if len(good) > 0 {
		return append([]Finding{ok(strings.Join(good, "; "))}, bad...)
	}
	return bad
}

func label(c nvml.Card) string { return fmt.Sprintf("GPU %d", c.Index) }

func checkCards(f *Facts) []Finding {
	var all []Finding
	for _, c := range f.gpu.value.Cards {
		if c.Lost != "" {
			all = append(all, fail(label(c)+": "+c.Lost, "see dmesg for Xid lines, reset it with nvidia-smi -r or restart the host"))
			continue
		}
		all = append(all, ok(fmt.Sprintf("%s: %s, %s, %s", label(c), c.Name, amount(c.Memory.Total), c.UUID)))
	}
	return all
}

func checkPersistence(f *Facts) []Finding {
	return f.perCard(func(c nvml.Card) Finding {
		switch c.Persistence {
		case nvml.On:
			return ok(label(c) + " on")
		case nvml.Off:
			return warn(label(c)+": off, so the first use after a rest waits a second or more for the driver",
				"start nvidia-persistenced, or run nvidia-smi -pm 1")
		}
		return Finding{}
	})
}

func checkComputeMode(f *Facts) []Finding {
	return f.perCard(func(c nvml.Card) Finding {
		switch {
		case c.Mode == nvml.ModeProhibited:
			return fail(label(c)+": Prohibited, no process may use it", fmt.Sprintf("nvidia-smi -i %d -c DEFAULT", c.Index))
		case c.Mode == nvml.ModeExclusive && !c.MPS && !f.sharesMPS():
			return fail(label(c)+": Exclusive_Process, so a second container on it gets no context",
				fmt.Sprintf("nvidia-smi -i %d -c DEFAULT, or run an MPS daemon on it", c.Index))
		case c.Mode == nvml.ModeUnknown:
			return Finding{}
		}
		return ok(label(c) + " " + c.Mode.String())
	})
}

func checkMIG(f *Facts) []Finding {
	return f.perCard(func(c nvml.Card) Finding {
		switch {
		case c.MIGPending != c.MIG && c.MIG != nvml.Unknown && c.MIGPending != nvml.Unknown:
			return warn(fmt.Sprintf("%s: MIG is %v and will be %v after the next reset", label(c), c.MIG, c.MIGPending),
				fmt.Sprintf("nvidia-smi -i %d -r when nothing runs on it", c.Index))
		case c.MIG == nvml.On && len(c.Slices) == 0:
			return fail(label(c)+": MIG is on but there is no slice, so nothing can run on it",
				fmt.Sprintf("nvidia-smi mig -i %d -cgi PROFILE -C, or nvidia-smi -i %d -mig 0", c.Index, c.Index))
		case c.MIG == nvml.On:
			return ok(fmt.Sprintf("%s: %d slice(s), one run at a time on each", label(c), len(c.Slices)))
		case c.MIG == nvml.Off:
			return ok(label(c) + " off")
		}
		return Finding{}
	})
}

// checkFreeMemory: what other processes hold is not the invoker's to give out.
func checkFreeMemory(f *Facts) []Finding {
	least := int64(f.Config.GPU.DefaultMemory + f.Config.GPU.ContextMemory)
	return f.perCard(func(c nvml.Card) Finding {
		m := c.Memory
		if m.Total <= 0 || m.Free < 0 || c.MIG == nvml.On {
			return Finding{}
		}
		text := fmt.Sprintf("%s: %s of %s free", label(c), amount(m.Free), amount(m.Total))
		if n := len(c.Processes); n > 0 {
			text += fmt.Sprintf(", %d process(es) hold contexts", n)
		}
		const fix = "see nvidia-smi for who holds it; only this invoker should use the device"
		switch {
		case m.Free < least:
			return fail(fmt.Sprintf("%s, less than one function and its context take (%s)", text, amount(least)), fix)
		case m.Free < m.Total/10*9:
			return warn(text, fix)
		}
		return ok(text)
	})
}

// amount writes a number of bytes for people.
func amount(n int64) string {
	for _, u := range []struct {
		size config.Size
		name string
	}{{config.GiB, "GiB"}, {config.MiB, "MiB"}, {config.KiB, "KiB"}} {
		if n >= int64(u.size) {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(u.size)), ".0") + " " + u.name
		}
	}
	return fmt.Sprintf("%d B", n)
}

func checkMPS(f *Facts) []Finding {
	if !f.hasDriver() {
		return nil
	}
	if f.sharesMPS() {
		return one(f.judgeMPS())
	}
	daemon := f.process("nvidia-cuda-mps")
	clients := false
	for _, c := range f.gpu.value.Cards {
		clients = clients || c.MPS
	}
	switch {
	case daemon || clients:
		return one(warn("an MPS daemon runs: a fault of one client ends all of them, and functions of different namespaces would share it",
			"stop it (echo quit | nvidia-cuda-mps-control) unless all functions on this host trust each other"))
	case f.exists("tmp/nvidia-mps/control"):
		return one(warn("/tmp/nvidia-mps is left of an MPS daemon that is gone: clients that see it wait for it",
			"remove /tmp/nvidia-mps"))
	}
	return one(ok("no MPS daemon; containers take turns"))
}

func (f *Facts) sharesMPS() bool { return f.Config.GPU.MPS == "shared" }

// judgeMPS looks at what the invoker needs to keep daemons of its own.
func (f *Facts) judgeMPS() Finding {
	const program = "nvidia-cuda-mps-control"
	path := f.variable("PATH")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	there := slices.ContainsFunc(strings.Split(path, ":"), func(dir string) bool {
		return strings.HasPrefix(dir, "/") && f.exists(strings.TrimPrefix(dir+"/"+program, "/"))
	})
	switch {
	case !there:
		return fail("whisk.gpu.mps is shared, but "+program+" is not in PATH", "install the driver's package with it (nvidia-compute-utils), or set CONFIG_whisk_gpu_mps=off")
	case f.exists("tmp/nvidia-mps/control"):
		return warn("another MPS daemon than the invoker's has /tmp/nvidia-mps: a device can have one only", "echo quit | "+program)
	}
	return ok("whisk.gpu.mps is shared: the invoker keeps a daemon per GPU; a fault of one function ends the work of all on it")
}

// process tells whether a program runs whose name begins so.
func (f *Facts) process(name string) bool {
	for _, comm := range f.glob("proc/[0-9]*/comm") {
		if strings.HasPrefix(f.read(comm), name) {
			return true
		}
	}
	return false
}
