package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// driverVersion is that of the loaded kernel module, empty without one.
func (f *Snapshot) driverVersion() string {
	for line := range strings.Lines(f.read("proc/driver/nvidia/version")) {
		if !strings.HasPrefix(line, "NVRM version:") {
			continue
		}
		for _, word := range strings.Fields(line) {
			if strings.Count(word, ".") > 0 && strings.Trim(word, "0123456789.") == "" {
				return word
			}
		}
	}
	return ""
}

// hasDriver reports whether there is a driver to examine further.
func (f *Snapshot) hasDriver() bool {
	return f.driverVersion() != "" || f.exists("dev/nvidiactl") || f.gpu.err == nil
}

func checkDriver(f *Snapshot) []Finding {
	if f.hasDriver() {
		// A container may see the devices and not /proc/driver.
		text := "NVIDIA driver " + cmp.Or(f.driverVersion(), f.gpu.value.Versions.Driver, "of unknown version")
		if cuda := f.gpu.value.Versions.CUDA; cuda != "" {
			text += ", CUDA up to " + cuda
		}
		return ok(text)
	}
	hardware := f.nvidiaHardware()
	switch {
	case len(hardware) > 0 && strings.Contains(f.read("proc/modules"), "nouveau "):
		return fail("NVIDIA hardware at "+hardware[0]+" is held by the nouveau driver",
			"blacklist nouveau, install NVIDIA's driver and restart the host")
	case len(hardware) > 0:
		return fail("NVIDIA hardware at "+hardware[0]+", but NVIDIA's driver is not loaded",
			"install the driver, or run modprobe nvidia if it is installed")
	case f.Config.GPU.SimulatedDevices > 0:
		return ok(fmt.Sprintf("no NVIDIA driver; %d simulated GPU(s) are configured", f.Config.GPU.SimulatedDevices))
	}
	return warn("no NVIDIA GPU and no driver: actions with the gpu annotation are answered with an error",
		"use a host with a GPU, or set CONFIG_whisk_gpu_simulated_devices=1 to try the scheduling without one")
}

// nvidiaHardware lists the PCI addresses of NVIDIA's display and compute
// devices (class 03).
func (f *Snapshot) nvidiaHardware() []string {
	var at []string
	for _, vendor := range f.glob("sys/bus/pci/devices/*/vendor") {
		dir := path.Dir(vendor)
		if strings.TrimSpace(f.read(vendor)) == "0x10de" && strings.HasPrefix(f.read(dir+"/class"), "0x03") {
			at = append(at, path.Base(dir))
		}
	}
	return at
}

func checkNodes(f *Snapshot) []Finding {
	const fix = "run nvidia-smi or nvidia-modprobe -c 0 as root once, and start nvidia-persistenced at boot"
	if !f.exists("dev/nvidiactl") {
		return fail("/dev/nvidiactl is missing", fix)
	}
	var there, missing []string
	for _, c := range f.gpu.value.Cards {
		if c.Minor < 0 {
			continue
		}
		node := fmt.Sprintf("dev/nvidia%d", c.Minor)
		if f.exists(node) {
			there = append(there, "/"+node)
		} else {
			missing = append(missing, "/"+node)
		}
	}
	switch {
	case len(missing) > 0:
		return fail("missing: "+strings.Join(missing, ", "), fix)
	case len(there) > 0:
		return ok("/dev/nvidiactl, " + strings.Join(there, ", "))
	}
	there = slices.DeleteFunc(f.glob("dev/nvidia[0-9]*"), func(n string) bool { return strings.Contains(n, "-") })
	if len(there) == 0 {
		return fail("no /dev/nvidia0: the driver has no device", fix)
	}
	return ok(fmt.Sprintf("/dev/nvidiactl and %d device(s)", len(there)))
}

func checkUVM(f *Snapshot) []Finding {
	const fix = "run nvidia-modprobe -u -c 0 as root, and load nvidia-uvm at boot (/etc/modules-load.d)"
	switch {
	case !f.exists("dev/nvidia-uvm"):
		return fail("/dev/nvidia-uvm is missing: managed memory, and with it swapping, cannot work", fix)
	case f.exists("proc/modules") && !strings.Contains(f.read("proc/modules"), "nvidia_uvm "):
		return fail("the module nvidia_uvm is not loaded", fix)
	}
	return ok("managed memory is available")
}

func checkNVML(f *Snapshot) []Finding {
	err := f.gpu.err
	switch {
	case err == nil:
		return ok(fmt.Sprintf("%d device(s) answer through %s", len(f.gpu.value.Cards), f.gpu.value.By))
	case !f.hasDriver():
		return nil
	case errors.Is(err, nvml.ErrNotBuilt):
		return warn("this build has no NVML, and nvidia-smi does not answer either: real devices cannot be used",
			"build with CGO_ENABLED=1 and -ldflags '-extldflags=-Wl,-z,lazy'")
	case errors.Is(err, nvml.ErrMismatch):
		return fail(err.Error(), "restart the host, or unload and load the driver's modules, after its update")
	case errors.Is(err, nvml.ErrNoPermission):
		return fail(err.Error(), "run as root, or as a user who may open /dev/nvidia*")
	case errors.Is(err, nvml.ErrNoDriver):
		return fail(err.Error(), "install the package with libnvidia-ml.so.1 of the driver's version (libnvidia-compute), and mount it where this runs in a container")
	}
	return fail("NVML: "+err.Error(), "see the kernel's log (dmesg) for lines with NVRM and Xid")
}

// perCard judges each card that answers, and reports once what holds for all.
func (f *Snapshot) perCard(judge func(nvml.Card) []Finding) []Finding {
	var bad []Finding
	var good []string
	for _, c := range f.gpu.value.Cards {
		if c.Lost != "" {
			continue
		}
		for _, x := range judge(c) {
			if x.Status == OK {
				good = append(good, x.Found)
			} else {
				bad = append(bad, x)
			}
		}
	}
	if len(good) > 0 {
		return append(ok(strings.Join(good, "; ")), bad...)
	}
	return bad
}

func label(c nvml.Card) string { return fmt.Sprintf("GPU %d", c.Index) }

func checkCards(f *Snapshot) []Finding {
	var all []Finding
	for _, c := range f.gpu.value.Cards {
		if c.Lost != "" {
			all = append(all, fail(label(c)+": "+c.Lost, "see dmesg for Xid lines, reset it with nvidia-smi -r or restart the host")...)
			continue
		}
		all = append(all, ok(fmt.Sprintf("%s: %s, %s, %s", label(c), c.Name, amount(c.Memory.Total), c.UUID))...)
	}
	return all
}

func checkPersistence(f *Snapshot) []Finding {
	return f.perCard(func(c nvml.Card) []Finding {
		switch c.Persistence {
		case nvml.On:
			return ok(label(c) + " on")
		case nvml.Off:
			return warn(label(c)+": off, so the first use after a rest waits a second or more for the driver",
				"start nvidia-persistenced, or run nvidia-smi -pm 1")
		}
		return nil
	})
}

func checkComputeMode(f *Snapshot) []Finding {
	return f.perCard(func(c nvml.Card) []Finding {
		switch {
		case c.Mode == nvml.ModeProhibited:
			return fail(label(c)+": Prohibited, no process may use it", fmt.Sprintf("nvidia-smi -i %d -c DEFAULT", c.Index))
		case c.Mode == nvml.ModeExclusive && !c.MPS && !f.sharesMPS():
			return fail(label(c)+": Exclusive_Process, so a second container on it gets no context",
				fmt.Sprintf("nvidia-smi -i %d -c DEFAULT, or run an MPS daemon on it", c.Index))
		case c.Mode == nvml.ModeUnknown:
			return nil
		}
		return ok(label(c) + " " + c.Mode.String())
	})
}

func checkMIG(f *Snapshot) []Finding {
	return f.perCard(func(c nvml.Card) []Finding {
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
		return nil
	})
}

// checkFreeMemory: what other processes hold is not the invoker's to give out.
func checkFreeMemory(f *Snapshot) []Finding {
	least := int64(f.Config.GPU.DefaultMemory + f.Config.GPU.ContextMemory)
	return f.perCard(func(c nvml.Card) []Finding {
		m := c.Memory
		if m.Total <= 0 || m.Free < 0 || c.MIG == nvml.On {
			return nil
		}
		text := fmt.Sprintf("%s: %s of %s free", label(c), amount(m.Free), amount(m.Total))
		if n := len(c.Processes); n > 0 {
			text += fmt.Sprintf(", %d process(es) hold contexts", n)
		}
		const fix = "see nvidia-smi for the processes that hold it; only this invoker should use the device"
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

func checkMPS(f *Snapshot) []Finding {
	if f.sharesMPS() {
		return f.judgeMPS()
	}
	daemon := f.process("nvidia-cuda-mps")
	clients := false
	for _, c := range f.gpu.value.Cards {
		clients = clients || c.MPS
	}
	switch {
	case daemon || clients:
		return warn("an MPS daemon runs: a fault of one client ends all of them, and functions of different namespaces would share it",
			"stop it (echo quit | nvidia-cuda-mps-control) unless all functions on this host trust each other")
	case f.exists("tmp/nvidia-mps/control"):
		return warn("/tmp/nvidia-mps is left of an MPS daemon that is gone: clients that see it wait for it",
			"remove /tmp/nvidia-mps")
	}
	return ok("no MPS daemon; containers take turns")
}

func (f *Snapshot) sharesMPS() bool { return f.Config.GPU.MPS == "shared" }

// judgeMPS checks what the invoker needs to keep daemons of its own.
func (f *Snapshot) judgeMPS() []Finding {
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

// process reports whether a program runs whose name begins so.
func (f *Snapshot) process(name string) bool {
	for _, comm := range f.glob("proc/[0-9]*/comm") {
		if strings.HasPrefix(f.read(comm), name) {
			return true
		}
	}
	return false
}
