package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
)

func gpuChecks() []check {
	return []check{
		{name: "driver", find: checkDriver},
		{name: "device nodes", find: checkNodes},
		{name: "UVM module", find: checkUVM},
		{name: "NVML", find: checkNVML},
		{name: "device", find: checkCards},
		{name: "persistence", find: checkPersistence},
		{name: "compute mode", find: checkComputeMode},
		{name: "MIG", find: checkMIG},
		{name: "free memory", find: checkFreeMemory},
		{name: "MPS", find: checkMPS},
		{name: "toolkit", find: checkToolkit},
		{name: "CDI", find: checkCDI},
		{name: "Docker runtime", find: checkGPURuntime},
		{name: "daemon-reload", find: checkReload},
		{name: "shim", find: checkShim},
		{name: "shim sockets", find: checkSockets},
		{name: "shim in image", find: checkImageLibc},
		{name: "fallbacks", find: checkFallbacks},
	}
}

// driverVersion is that of the loaded kernel module, empty without one.
func (f *Facts) driverVersion() string {
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

// hasDriver tells whether there is a driver to look at any further.
func (f *Facts) hasDriver() bool {
	return f.driverVersion() != "" || f.exists("dev/nvidiactl") || f.gpu.err == nil
}

func checkDriver(f *Facts) []Finding {
	if f.hasDriver() {
		// A container may see the devices and not /proc/driver.
		text := "NVIDIA driver " + cmp.Or(f.driverVersion(), f.gpu.value.Versions.Driver, "of unknown version")
		if cuda := f.gpu.value.Versions.CUDA; cuda != "" {
			text += ", CUDA up to " + cuda
		}
		return one(ok(text))
	}
	hardware := f.nvidiaHardware()
	switch {
	case len(hardware) > 0 && strings.Contains(f.read("proc/modules"), "nouveau "):
		return one(fail("NVIDIA hardware at "+hardware[0]+" is held by the nouveau driver",
			"blacklist nouveau, install NVIDIA's driver and restart the host"))
	case len(hardware) > 0:
		return one(fail("NVIDIA hardware at "+hardware[0]+", but NVIDIA's driver is not loaded",
			"install the driver, or run modprobe nvidia if it is installed"))
	case f.Config.GPU.SimulatedDevices > 0:
		return one(ok(fmt.Sprintf("no NVIDIA driver; %d simulated GPU(s) are configured", f.Config.GPU.SimulatedDevices)))
	}
	return one(warn("no NVIDIA GPU and no driver: actions with the gpu annotation are answered with an error",
		"use a host with a GPU, or set CONFIG_whisk_gpu_simulated_devices=1 to try the scheduling without one"))
}

// nvidiaHardware lists the PCI addresses of NVIDIA's display and compute
// devices (class 03).
func (f *Facts) nvidiaHardware() []string {
	var at []string
	for _, vendor := range f.glob("sys/bus/pci/devices/*/vendor") {
		dir := path.Dir(vendor)
		if strings.TrimSpace(f.read(vendor)) == "0x10de" && strings.HasPrefix(f.read(dir+"/class"), "0x03") {
			at = append(at, path.Base(dir))
		}
	}
	return at
}

func checkNodes(f *Facts) []Finding {
	if !f.hasDriver() {
		return nil
	}
	const fix = "run nvidia-smi or nvidia-modprobe -c 0 as root once, and start nvidia-persistenced at boot"
	if !f.exists("dev/nvidiactl") {
		return one(fail("/dev/nvidiactl is missing", fix))
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
		return one(fail("missing: "+strings.Join(missing, ", "), fix))
	case len(there) > 0:
		return one(ok("/dev/nvidiactl, " + strings.Join(there, ", ")))
	}
	there = slices.DeleteFunc(f.glob("dev/nvidia[0-9]*"), func(n string) bool { return strings.Contains(n, "-") })
	if len(there) == 0 {
		return one(fail("no /dev/nvidia0: the driver has no device", fix))
	}
	return one(ok(fmt.Sprintf("/dev/nvidiactl and %d device(s)", len(there))))
}

func checkUVM(f *Facts) []Finding {
	if !f.hasDriver() {
		return nil
	}
	const fix = "run nvidia-modprobe -u -c 0 as root, and load nvidia-uvm at boot (/etc/modules-load.d)"
	switch {
	case !f.exists("dev/nvidia-uvm"):
		return one(fail("/dev/nvidia-uvm is missing: managed memory, and with it swapping, cannot work", fix))
	case f.exists("proc/modules") && !strings.Contains(f.read("proc/modules"), "nvidia_uvm "):
		return one(fail("the module nvidia_uvm is not loaded", fix))
	}
	return one(ok("managed memory is available"))
}

func checkNVML(f *Facts) []Finding {
	err := f.gpu.err
	switch {
	case err == nil:
		return one(ok(fmt.Sprintf("%d device(s) answer through %s", len(f.gpu.value.Cards), f.gpu.value.By)))
	case !f.hasDriver():
		return nil
	case errors.Is(err, nvml.ErrNotBuilt):
		return one(warn("this build has no NVML, and nvidia-smi does not answer either: real devices cannot be used",
			"build with CGO_ENABLED=1 and -ldflags '-extldflags=-Wl,-z,lazy'"))
	case errors.Is(err, nvml.ErrMismatch):
		return one(fail(err.Error(), "restart the host, or unload and load the driver's modules, after its update"))
	case errors.Is(err, nvml.ErrNoPermission):
		return one(fail(err.Error(), "run as root, or as a user who may open /dev/nvidia*"))
	case errors.Is(err, nvml.ErrNoDriver):
		return one(fail(err.Error(), "install the package with libnvidia-ml.so.1 of the driver's version (libnvidia-compute), and mount it where this runs in a container"))
	}
	return one(fail("NVML: "+err.Error(), "see the kernel's log (dmesg) for lines with NVRM and Xid"))
}
