package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/mps"
)

var driverLine = regexp.MustCompile(`(?m)^NVRM version:.*?\s([0-9]+\.[0-9.]*)(?:\s|$)`)

// driverVersion returns the version of the loaded kernel module, "" without a module.
func (s *snapshot) driverVersion() string {
	found := driverLine.FindStringSubmatch(s.read("proc/driver/nvidia/version"))
	if found == nil {
		return ""
	}
	return found[1]
}

func checkDriver(s *snapshot) []Finding {
	if s.hasDriver() {
		// A container may have the devices but no /proc/driver.
		text := "NVIDIA driver " + cmp.Or(s.driverVersion(), s.gpu.Versions.Driver, "of unknown version")
		if cuda := s.gpu.Versions.CUDA; cuda != "" {
			text += ", CUDA up to " + cuda
		}
		return ok("%s", text)
	}
	hardware := s.nvidiaHardware()
	switch {
	case hardware != "" && strings.Contains(s.read("proc/modules"), "nouveau "):
		return fail("blacklist nouveau, install NVIDIA's driver and restart the host",
			"NVIDIA hardware at %s is held by the nouveau driver", hardware)
	case hardware != "":
		return fail("install the driver, or run modprobe nvidia if it is installed",
			"NVIDIA hardware at %s, but NVIDIA's driver is not loaded", hardware)
	case s.Config.GPU.SimulatedDevices > 0:
		return ok("no NVIDIA driver; %d simulated GPU(s) are configured", s.Config.GPU.SimulatedDevices)
	}
	return warn("use a host with a GPU, or set CONFIG_whisk_gpu_simulated_devices=1 to try the scheduling without one",
		"no NVIDIA GPU and no driver: actions with the gpu annotation are answered with an error")
}

// nvidiaHardware returns the PCI address of the first NVIDIA display or compute device
// (class 03).
func (s *snapshot) nvidiaHardware() string {
	for _, vendor := range s.glob("sys/bus/pci/devices/*/vendor") {
		dir := path.Dir(vendor)
		if strings.TrimSpace(s.read(vendor)) == "0x10de" && strings.HasPrefix(s.read(dir+"/class"), "0x03") {
			return path.Base(dir)
		}
	}
	return ""
}

func checkNodes(s *snapshot) []Finding {
	const fix = "run nvidia-smi or nvidia-modprobe -c 0 as root once, and start nvidia-persistenced at boot"
	if !s.exists("/dev/nvidiactl") {
		return fail(fix, "/dev/nvidiactl is missing")
	}
	var nodes []string // from NVML
	for _, c := range s.gpu.Cards {
		if c.Minor >= 0 {
			nodes = append(nodes, fmt.Sprintf("/dev/nvidia%d", c.Minor))
		}
	}
	there := s.glob("dev/nvidia[0-9]*")
	switch missing := slices.DeleteFunc(slices.Clone(nodes), s.exists); {
	case len(missing) > 0:
		return fail(fix, "missing: %s", strings.Join(missing, ", "))
	case len(nodes) > 0:
		return ok("/dev/nvidiactl, %s", strings.Join(nodes, ", "))
	case len(there) == 0:
		return fail(fix, "no /dev/nvidia0: the driver has no device")
	}
	return ok("/dev/nvidiactl and %d device(s)", len(there))
}

func checkUVM(s *snapshot) []Finding {
	const fix = "run nvidia-modprobe -u -c 0 as root, and load nvidia-uvm at boot (/etc/modules-load.d)"
	switch modules := s.read("proc/modules"); {
	case !s.exists("dev/nvidia-uvm"):
		return fail(fix, "/dev/nvidia-uvm is missing: managed memory, and with it swapping, cannot work")
	case s.exists("proc/modules") && !strings.Contains(modules, "nvidia_uvm "):
		return fail(fix, "the module nvidia_uvm is not loaded")
	}
	return ok("managed memory is available")
}

// nvmlFixes lists the fixes for NVML's errors.
var nvmlFixes = []struct {
	err error
	fix string
}{
	{nvml.ErrMismatch, "restart the host, or unload and load the driver's modules, after its update"},
	{nvml.ErrNoPermission, "run as root, or as a user who may open /dev/nvidia*"},
	{nvml.ErrNoDriver, "install the package with libnvidia-ml.so.1 of the driver's version (libnvidia-compute), and mount it where this runs in a container"},
}

func checkNVML(s *snapshot) []Finding {
	err := s.gpuErr
	if err == nil {
		return ok("%d device(s) answer through NVML", len(s.gpu.Cards))
	}
	if errors.Is(err, nvml.ErrNotBuilt) {
		return warn("use a released program, or build one with make build-gpu",
			"this build has no NVML: it can neither use nor examine real devices")
	}
	for _, known := range nvmlFixes {
		if errors.Is(err, known.err) {
			return fail(known.fix, "%v", err)
		}
	}
	return fail("see the kernel's log (dmesg) for lines with NVRM and Xid", "NVML: %v", err)
}

// perCard judges each card that answers, and merges the good findings.
func (s *snapshot) perCard(judge func(c nvml.Card, label string) []Finding) []Finding {
	return merged(ofEach(s.gpu.Cards, func(c nvml.Card) []Finding {
		if c.Lost != "" {
			return nil
		}
		return judge(c, label(c))
	}), "; ", "", "")
}

func label(c nvml.Card) string { return fmt.Sprintf("GPU %d", c.Index) }

func checkCards(s *snapshot) []Finding {
	all := ofEach(s.gpu.Cards, func(c nvml.Card) []Finding {
		if c.Lost != "" {
			return fail("see dmesg for Xid lines, reset it with nvidia-smi -r or restart the host", "%s: %s", label(c), c.Lost)
		}
		return ok("%s: %s, %s, %s", label(c), c.Name, amount(c.Memory.Total), c.UUID)
	})
	if _, err := s.devices(); err != nil {
		all = append(all, fail("correct CONFIG_whisk_gpu_devices: auto, none, or indexes and UUIDs as nvidia-smi -L shows them", "the invoker will not start: %v", err)...)
	}
	return all
}

// devices returns the driver's devices that the invoker uses.
func (s *snapshot) devices() ([]gpu.Device, error) {
	if s.Config.GPU.SimulatedDevices > 0 {
		return nil, nil
	}
	return devices.Choose(s.Config.GPU.Devices, s.gpu.Cards)
}

func checkPersistence(s *snapshot) []Finding {
	return s.perCard(func(c nvml.Card, name string) []Finding {
		switch c.Persistence {
		case nvml.On:
			return ok("%s on", name)
		case nvml.Off:
			return warn("start nvidia-persistenced, or run nvidia-smi -pm 1",
				"%s: off, so the first use after an idle time waits a second or more for the driver", name)
		}
		return nil
	})
}

func checkComputeMode(s *snapshot) []Finding {
	return s.perCard(func(c nvml.Card, name string) []Finding {
		fix := fmt.Sprintf("nvidia-smi -i %d -c DEFAULT", c.Index)
		switch {
		case c.Mode == nvml.ModeProhibited:
			return fail(fix, "%s: Prohibited, no process may use it", name)
		case c.Mode == nvml.ModeExclusive && !c.MPS && !s.sharesMPS():
			return fail(fix+", or run an MPS daemon on it", "%s: Exclusive_Process, so a second container on it gets no context", name)
		case c.Mode == nvml.ModeUnknown:
			return nil
		}
		return ok("%s %v", name, c.Mode)
	})
}

func checkMIG(s *snapshot) []Finding {
	return s.perCard(func(c nvml.Card, name string) []Finding {
		switch {
		case c.MIGPending != c.MIG && c.MIG != nvml.Unknown && c.MIGPending != nvml.Unknown:
			return warn(fmt.Sprintf("nvidia-smi -i %d -r when nothing runs on it", c.Index),
				"%s: MIG is %v and will be %v after the next reset", name, c.MIG, c.MIGPending)
		case c.MIG == nvml.On && len(c.Slices) == 0:
			return fail(fmt.Sprintf("nvidia-smi mig -i %d -cgi PROFILE -C, or nvidia-smi -i %[1]d -mig 0", c.Index),
				"%s: MIG is on but there is no slice, so nothing can run on it", name)
		case c.MIG == nvml.On:
			return ok("%s: %d slice(s), one run at a time on each", name, len(c.Slices))
		case c.MIG == nvml.Off:
			return ok("%s off", name)
		}
		return nil
	})
}

// checkFreeMemory: the invoker cannot use memory that other processes hold.
func checkFreeMemory(s *snapshot) []Finding {
	least := int64(s.Config.GPU.DefaultMemory + s.Config.GPU.ContextMemory)
	return s.perCard(func(c nvml.Card, name string) []Finding {
		m := c.Memory
		if m.Total <= 0 || m.Free < 0 || c.MIG == nvml.On {
			return nil
		}
		text := fmt.Sprintf("%s: %s of %s free", name, amount(m.Free), amount(m.Total))
		if n := len(c.Processes); n > 0 {
			text += fmt.Sprintf(", %d process(es) hold contexts", n)
		}
		const fix = "see nvidia-smi for the processes that hold it; only this invoker should use the device"
		switch {
		case m.Free < least:
			return fail(fix, "%s, less than one function with its context needs (%s)", text, amount(least))
		case m.Free < m.Total/10*9:
			return warn(fix, "%s", text)
		}
		return ok("%s", text)
	})
}

func (s *snapshot) sharesMPS() bool { return s.Config.GPU.MPS == "shared" }

func checkMPS(s *snapshot) []Finding {
	const program, control = mps.Program, "/tmp/nvidia-mps/control"
	runs := mps.Runs(s.Files) || slices.ContainsFunc(s.gpu.Cards, func(c nvml.Card) bool { return c.MPS })
	switch {
	case s.sharesMPS() && !s.inPath(program):
		return fail("install the driver's package with it (nvidia-compute-utils), or set CONFIG_whisk_gpu_mps=off",
			"whisk.gpu.mps is shared, but %s is not in PATH", program)
	case s.sharesMPS() && s.exists(control):
		return warn("echo quit | "+program, "an MPS daemon other than the invoker's uses /tmp/nvidia-mps: a device can have only one")
	case s.sharesMPS():
		return ok("whisk.gpu.mps is shared: the invoker keeps a daemon per GPU; a fault of one function ends the work of all on it")
	case runs:
		return warn("stop it (echo quit | "+program+") unless all functions on this host trust each other",
			"an MPS daemon runs: a fault of one client ends all clients, and functions of different namespaces would share it")
	case s.exists(control):
		return warn("remove /tmp/nvidia-mps", "/tmp/nvidia-mps is left over from an MPS daemon that has ended: clients that find it wait for the daemon")
	}
	return ok("no MPS daemon; containers take turns")
}

// inPath reports whether the invoker would find a program.
func (s *snapshot) inPath(program string) bool {
	dirs := cmp.Or(s.variable("PATH"), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	return slices.ContainsFunc(strings.Split(dirs, ":"), func(dir string) bool {
		return strings.HasPrefix(dir, "/") && s.exists(path.Join(dir, program))
	})
}
