package doctor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func noGPU(f *fake) {
	delete(f.files, "proc/driver/nvidia/version")
	delete(f.files, "dev/nvidiactl")
	f.GPU = func(context.Context) (GPU, error) { return GPU{}, nvml.ErrNoDriver }
}

func hardware(f *fake) {
	noGPU(f)
	f.files["sys/bus/pci/devices/0000:1a:00.0/vendor"] = text("0x10de\n")
	f.files["sys/bus/pci/devices/0000:1a:00.0/class"] = text("0x030200\n")
	f.files["sys/bus/pci/devices/0000:00:1f.0/vendor"] = text("0x8086\n")
}

func gpuFails(err error) func(*fake) {
	return func(f *fake) { f.GPU = func(context.Context) (GPU, error) { return GPU{}, err } }
}

func TestDriverChecks(t *testing.T) {
	runTrials(t, []trial{
		{"", nil, "GPU/driver", OK, "NVIDIA driver 580.95.05, CUDA up to 13.0", ""},
		{"in a container", func(f *fake) { delete(f.files, "proc/driver/nvidia/version") }, "GPU/driver", OK, "driver 580.95.05", ""},
		{"none", noGPU, "GPU/driver", Warn, "no NVIDIA GPU", "simulated"},
		{"simulated", func(f *fake) { noGPU(f); f.Config.GPU.SimulatedDevices = 2 }, "GPU/driver", OK, "2 simulated", ""},
		{"not loaded", hardware, "GPU/driver", Fail, "0000:1a:00.0", "modprobe nvidia"},
		{"nouveau", func(f *fake) { hardware(f); f.files["proc/modules"] = text("nouveau 1 0 - Live\n") }, "GPU/driver", Fail, "nouveau", "blacklist"},

		{"", nil, "GPU/device nodes", OK, "/dev/nvidiactl, /dev/nvidia0", ""},
		{"without control", func(f *fake) { delete(f.files, "dev/nvidiactl") }, "GPU/device nodes", Fail, "/dev/nvidiactl", "nvidia-modprobe"},
		{"one missing", func(f *fake) { f.cards[0].Minor = 3 }, "GPU/device nodes", Fail, "/dev/nvidia3", "nvidia-modprobe"},
		{"without NVML", gpuFails(errors.New("x")), "GPU/device nodes", OK, "1 device", ""},
		{"none at all", func(f *fake) { gpuFails(errors.New("x"))(f); delete(f.files, "dev/nvidia0") }, "GPU/device nodes", Fail, "no /dev/nvidia0", "nvidia-smi"},

		{"", nil, "GPU/UVM module", OK, "managed memory", ""},
		{"no node", func(f *fake) { delete(f.files, "dev/nvidia-uvm") }, "GPU/UVM module", Fail, "/dev/nvidia-uvm", "nvidia-modprobe -u"},
		{"not loaded", func(f *fake) { f.files["proc/modules"] = text("nvidia 1 0 - Live\n") }, "GPU/UVM module", Fail, "nvidia_uvm", "nvidia-modprobe -u"},

		{"", nil, "GPU/NVML", OK, "1 device(s) answer through NVML", ""},
		{"not built", gpuFails(nvml.ErrNotBuilt), "GPU/NVML", Warn, "no NVML", "make build-gpu"},
		{"mismatch", gpuFails(fmt.Errorf("start: %w", nvml.ErrMismatch)), "GPU/NVML", Fail, "different versions", "restart"},
		{"permission", gpuFails(nvml.ErrNoPermission), "GPU/NVML", Fail, "permission", "root"},
		{"no library", gpuFails(nvml.ErrNoDriver), "GPU/NVML", Fail, "no NVIDIA driver", "libnvidia-ml.so.1"},
		{"else", gpuFails(errors.New("odd")), "GPU/NVML", Fail, "odd", "dmesg"},
	})
}

func shareMPS(f *fake) {
	f.Config.GPU.MPS = "shared"
	f.Environ = []string{"PATH=relative:/opt/mps"}
	f.files["opt/mps/nvidia-cuda-mps-control"] = text("")
}

func card(change func(*nvml.Card)) func(*fake) { return func(f *fake) { change(&f.cards[0]) } }

func TestDeviceChecks(t *testing.T) {
	runTrials(t, []trial{
		{"", nil, "GPU/device", OK, "GPU 0: H200, 139 GiB, GPU-0", ""},
		{"lost", card(func(c *nvml.Card) { c.Lost = "fallen off the bus" }), "GPU/device", Fail, "GPU 0: fallen off", "nvidia-smi -r"},

		{"", nil, "GPU/persistence", OK, "GPU 0 on", ""},
		{"off", card(func(c *nvml.Card) { c.Persistence = nvml.Off }), "GPU/persistence", Warn, "GPU 0: off", "nvidia-persistenced"},

		{"", nil, "GPU/compute mode", OK, "Default", ""},
		{"exclusive", card(func(c *nvml.Card) { c.Mode = nvml.ModeExclusive }), "GPU/compute mode", Fail, "Exclusive_Process", "-c DEFAULT"},
		{"exclusive for MPS", card(func(c *nvml.Card) { c.Mode, c.MPS = nvml.ModeExclusive, true }), "GPU/compute mode", OK, "Exclusive_Process", ""},
		{"prohibited", card(func(c *nvml.Card) { c.Mode = nvml.ModeProhibited }), "GPU/compute mode", Fail, "Prohibited", "-c DEFAULT"},

		{"", nil, "GPU/MIG", OK, "GPU 0 off", ""},
		{"slices", card(func(c *nvml.Card) { c.MIG, c.MIGPending, c.Slices = nvml.On, nvml.On, make([]nvml.Slice, 2) }), "GPU/MIG", OK, "2 slice(s)", ""},
		{"no slices", card(func(c *nvml.Card) { c.MIG, c.MIGPending = nvml.On, nvml.On }), "GPU/MIG", Fail, "no slice", "-cgi"},
		{"pending", card(func(c *nvml.Card) { c.MIGPending = nvml.On }), "GPU/MIG", Warn, "will be on", "-r"},

		{"", nil, "GPU/free memory", OK, "139 GiB of 139 GiB free", ""},
		{"some", card(func(c *nvml.Card) { c.Memory.Free = 100 << 30; c.Processes = make([]nvml.Process, 2) }), "GPU/free memory", Warn, "100 GiB of 139 GiB free, 2 process(es)", "nvidia-smi"},
		{"none", card(func(c *nvml.Card) { c.Memory.Free = 1 << 30 }), "GPU/free memory", Fail, "less than one function", "nvidia-smi"},

		{"", nil, "GPU/MPS", OK, "no MPS daemon", ""},
		{"daemon", func(f *fake) { f.files["proc/77/comm"] = text("nvidia-cuda-mps-control\n") }, "GPU/MPS", Warn, "a fault of one client", "echo quit"},
		{"clients", card(func(c *nvml.Card) { c.MPS = true }), "GPU/MPS", Warn, "a fault of one client", "echo quit"},
		{"shared", shareMPS, "GPU/MPS", OK, "a daemon per GPU", ""},
		{"shared without the program", func(f *fake) { shareMPS(f); delete(f.files, "opt/mps/nvidia-cuda-mps-control") }, "GPU/MPS", Fail, "not in PATH", "CONFIG_whisk_gpu_mps"},
		{"shared, usual places", func(f *fake) {
			f.Config.GPU.MPS = "shared"
			f.files["usr/bin/nvidia-cuda-mps-control"] = text("")
		}, "GPU/MPS", OK, "a daemon per GPU", ""},
		{"shared beside another", func(f *fake) { shareMPS(f); f.files["tmp/nvidia-mps/control"] = text("") }, "GPU/MPS", Warn, "only one", "echo quit"},
		{"exclusive for shared MPS", func(f *fake) { shareMPS(f); f.cards[0].Mode = nvml.ModeExclusive }, "GPU/compute mode", OK, "Exclusive_Process", ""},
		{"left over", func(f *fake) { f.files["tmp/nvidia-mps/control"] = text("") }, "GPU/MPS", Warn, "is left", "remove"},
	})
}

// TestChosenDevices: a configured device that does not exist prevents the invoker's
// start. Devices that are not configured do not have to work in containers.
func TestChosenDevices(t *testing.T) {
	named := func(devices string) func(*fake) { return func(f *fake) { f.Config.GPU.Devices = devices } }
	runTrials(t, []trial{
		{"named", named("0"), "GPU/device", OK, "GPU 0: H200", ""},
		{"not there", named("0,7"), "GPU/device", Fail, `device "7" is wanted`, "CONFIG_whisk_gpu_devices"},
		{"without a driver", func(f *fake) { noGPU(f); named("0")(f) }, "GPU/device", Fail, `device "0" is wanted`, "CONFIG_whisk_gpu_devices"},
	})
	f := healthy()
	other := f.cards[0]
	other.Index, other.UUID = 1, "GPU-1" // CDI does not list it
	f.cards = append(f.cards, other)
	f.Config.Docker.Devices = "cdi"
	for devices, want := range map[string]Status{"auto": Fail, "0": OK} {
		f.Config.GPU.Devices = devices
		got := Examine(t.Context(), f.Machine, time.Minute).of("GPU", "Docker runtime")
		check.Greater(t, len(got), 0, "%s", devices)
		check.Equal(t, got.worst(), want, "%s: %+v", devices, got)
	}
}

// TestUnknownIsSilent: values that a driver does not report are neither good nor bad.
func TestUnknownIsSilent(t *testing.T) {
	f := healthy()
	f.cards = []nvml.Card{{UUID: "GPU-0", Memory: nvml.Memory{Total: -1, Free: -1, Used: -1}}}
	r := Examine(t.Context(), f.Machine, time.Minute)
	for _, name := range []string{"persistence", "compute mode", "MIG", "free memory"} {
		check.Equal(t, len(r.of("GPU", name)), 0, "%s in %+v", name, r)
	}
}

func toolkit(output string) func(*fake) {
	return func(f *fake) { f.output["nvidia-ctk"] = output }
}

func TestToolkitChecks(t *testing.T) {
	noSpec := func(f *fake) { delete(f.files, "etc/cdi/nvidia.yaml") }
	noCDI := func(f *fake) { f.docker.CDIDirs = nil }
	runTrials(t, []trial{
		{"", nil, "GPU/toolkit", OK, "version 1.17.8", ""},
		{"vulnerable", toolkit("NVIDIA Container Toolkit CLI version 1.17.7"), "GPU/toolkit", Warn, "CVE-2025-23266", "1.17.8"},
		{"old", toolkit("version 1.13.5"), "GPU/toolkit", Warn, "version 1.13.5 has known vulnerabilities", "1.17.8"},
		{"newer", toolkit("version 2.0.0"), "GPU/toolkit", OK, "version 2.0.0", ""},
		{"by another program", func(f *fake) { f.output = map[string]string{"nvidia-container-cli": "cli-version: 1.18.0"} }, "GPU/toolkit", OK, "1.18.0", ""},
		{"none", func(f *fake) { f.output = nil }, "GPU/toolkit", Fail, "not installed", "nvidia-container-toolkit"},

		{"", nil, "GPU/CDI", OK, "/etc/cdi/nvidia.yaml, 2 day(s) old, made for driver 580.95.05", ""},
		{"none", noSpec, "GPU/CDI", Warn, "no CDI specification", "nvidia-ctk cdi generate"},
		{"another driver", func(f *fake) { f.files["etc/cdi/nvidia.yaml"] = text("nvidia.com/gpu libcuda.so.570.1") }, "GPU/CDI", Fail, "not made for driver 580.95.05", "nvidia-ctk cdi generate"},
		{"Docker without it", noCDI, "GPU/CDI", Warn, "Docker does not read", "daemon.json"},
		{"driver unknown", func(f *fake) { delete(f.files, "proc/driver/nvidia/version") }, "GPU/CDI", OK, "2 day(s) old", ""},

		{"", nil, "GPU/Docker runtime", OK, "GPU-0 by cdi as nvidia.com/gpu=GPU-0", ""},
		{"CDI alone", func(f *fake) { f.docker.Runtimes = []string{"runc"} }, "GPU/Docker runtime", OK, "GPU-0 by cdi", ""},
		{"runtime alone", noSpec, "GPU/Docker runtime", OK, "GPU-0 by nvidia as GPU-0", ""},
		{"runtime chosen", func(f *fake) { f.Config.Docker.Devices = "nvidia" }, "GPU/Docker runtime", OK, "GPU-0 by nvidia", ""},
		{"requests chosen", func(f *fake) { f.Config.Docker.Devices = "gpus" }, "GPU/Docker runtime", OK, "GPU-0 by gpus", ""},
		{"CDI chosen, not there", func(f *fake) { noSpec(f); f.Config.Docker.Devices = "cdi" }, "GPU/Docker runtime", Fail, "none for nvidia.com/gpu", "nvidia-ctk cdi"},
		{"runtime chosen against another", func(f *fake) {
			f.Config.Docker.Devices = "nvidia"
			f.Config.Containers.ExtraArgs = map[string][]string{"runtime": {"runsc"}}
		}, "GPU/Docker runtime", Fail, "the runtime runsc", "nvidia-ctk"},
		{"a slice that is not named", func(f *fake) {
			f.Config.Docker.Devices = "cdi"
			f.cards[0].MIG, f.cards[0].Slices = nvml.On, []nvml.Slice{{UUID: "MIG-1", Memory: nvml.Memory{Total: 1 << 30}}}
		}, "GPU/Docker runtime", Fail, "give GPU MIG-1", "--device-name-strategy=uuid"},
		{"no such way", func(f *fake) { f.Config.Docker.Devices = "magic" }, "GPU/Docker runtime", Fail, "magic", "configuration.md"},
		{"neither", func(f *fake) { noSpec(f); f.docker.Runtimes = []string{"runc"} }, "GPU/Docker runtime", Fail, "cannot give a GPU", "nvidia-ctk"},
		{"default", func(f *fake) { f.docker.DefaultRuntime = "nvidia" }, "GPU/Docker runtime", Warn, "default runtime", "daemon.json"},

		{"", nil, "GPU/daemon-reload", OK, "devices by CDI", ""},
		{"cgroupfs", func(f *fake) { f.docker.CgroupDriver = "cgroupfs" }, "GPU/daemon-reload", OK, "cgroupfs", ""},
		{"trap", noSpec, "GPU/daemon-reload", Warn, "systemctl daemon-reload", "create-dev-char-symlinks"},
		{"requests chosen beside CDI", func(f *fake) { f.Config.Docker.Devices = "gpus" }, "GPU/daemon-reload", Warn, "systemctl daemon-reload", "whisk.gpu.docker.devices=auto"},
		{"a slice beside CDI", func(f *fake) {
			f.cards[0].MIG, f.cards[0].Slices = nvml.On, []nvml.Slice{{UUID: "MIG-1", Memory: nvml.Memory{Total: 1 << 30}}}
		}, "GPU/daemon-reload", Warn, "systemctl daemon-reload", "nvidia-ctk cdi generate"},
		{"links", func(f *fake) { noSpec(f); f.files["dev/char/195:0"] = node() }, "GPU/daemon-reload", OK, "links", ""},
	})
}

// TestNothingOfGPUsWithoutOne: a host without a GPU gets a single finding about GPUs.
func TestNothingOfGPUsWithoutOne(t *testing.T) {
	f := healthy()
	noGPU(f)
	f.output = nil
	f.Shim = nil
	r := Examine(t.Context(), f.Machine, time.Minute)
	for _, x := range r {
		if x.Group == "GPU" && x.Check != "driver" {
			t.Errorf("%+v", x)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, tt := range []struct {
		text string
		want version
		ok   bool
	}{
		{"NVIDIA Container Toolkit CLI version 1.17.8", version{1, 17, 8}, true},
		{"cli-version: 1.14.0\nlib-version: 1.13", version{1, 14, 0}, true},
		{"1.18.0-rc.1", version{1, 18, 0}, true},
		{"1.41", version{1, 41, 0}, true},
		{"none", version{}, false},
	} {
		v, ok := findVersion(tt.text)
		check.Equal(t, ok, tt.ok, "%q", tt.text)
		check.Equal(t, v, tt.want, "%q", tt.text)
	}
}

func TestAmounts(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1536: "1.5 KiB", 1 << 20: "1 MiB", 139 << 30: "139 GiB"} {
		check.Equal(t, amount(n), want, "%d", n)
	}
}
