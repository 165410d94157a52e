package doctor

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/cdi"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
)

// safeToolkit is the first version of NVIDIA's container toolkit without the
// vulnerabilities in NVIDIA's security bulletins up to mid 2025. Through these, a
// container from an image of other people may reach its host.
var safeToolkit = version{1, 17, 8}

func checkToolkit(s *snapshot) []Finding {
	for _, program := range []string{"nvidia-ctk", "nvidia-container-toolkit", "nvidia-container-cli"} {
		text, err := s.run(nil, program, "--version")
		v, known := findVersion(text)
		if err != nil || !known {
			continue
		}
		if v.before(safeToolkit) {
			return warn(fmt.Sprintf("update nvidia-container-toolkit to %v or later", safeToolkit),
				"version %v has known vulnerabilities through which a container may reach the host, up to CVE-2025-23266", v)
		}
		return ok("version %v, without the vulnerabilities known up to mid 2025", v)
	}
	if !s.gpuInContainers() {
		return nil
	}
	return fail("install the package nvidia-container-toolkit", "NVIDIA's container toolkit is not installed: containers cannot be given a GPU")
}

// cdiSpecs returns the files that describe NVIDIA's devices to container engines.
func (s *snapshot) cdiSpecs() []string {
	dirs := s.docker.CDIDirs
	if len(dirs) == 0 {
		dirs = []string{"/etc/cdi", "/var/run/cdi"}
	}
	return slices.DeleteFunc(cdi.Files(s.Files, dirs), func(name string) bool { return !strings.Contains(s.read(name), cdi.Kind) })
}

// checkCDI: a specification names the driver's libraries by version. After an update of
// the driver it names files that no longer exist, and no container with a GPU starts.
func checkCDI(s *snapshot) []Finding {
	const fix = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, after every update of the driver"
	specs, v := s.cdiSpecs(), s.driverVersion()
	if len(specs) == 0 {
		return warn(fix, "no CDI specification of NVIDIA's devices; with Docker the older NVIDIA runtime is used if Docker has it")
	}
	all := ofEach(specs, func(name string) []Finding {
		text := "/" + name
		if info, err := fs.Stat(s.Files, name); err == nil {
			text += ", " + age(s.Now.Sub(info.ModTime())) + " old"
		}
		switch {
		case v == "":
			return ok("%s", text)
		case strings.Contains(s.read(name), ".so."+v):
			return ok("%s, made for driver %s", text, v)
		}
		return fail(fix, "%s, was not made for driver %s: containers with a GPU will not start", text, v)
	})
	if s.dockerAnswers() && len(s.docker.CDIDirs) == 0 {
		return append(all, warn("use Docker 28.3 or later, or set \"features\": {\"cdi\": true} in /etc/docker/daemon.json with Docker 25 or later",
			"Docker does not read CDI specifications")...)
	}
	return all
}

func age(d time.Duration) string {
	if days := int(d.Hours() / 24); days > 0 {
		return fmt.Sprintf("%d day(s)", days)
	}
	return max(d, 0).Round(time.Minute).String()
}

// checkReload detects a trap for running containers: on systemctl daemon-reload, systemd
// rewrites the device rules of their cgroups, and finds NVIDIA's devices only by links
// below /dev/char (NVIDIA's container toolkit, issue 48 on GitHub).
func checkReload(s *snapshot) []Finding {
	ways, names, err := s.deviceWays()
	byCDI := err == nil && !slices.ContainsFunc(names, func(name string) bool {
		by, err := ways.Assign(name)
		return err != nil || by.Way != docker.DevicesCDI
	})
	switch driver := s.docker.CgroupDriver; {
	case driver != "systemd":
		return ok("cgroup driver %s: containers keep their GPU on systemctl daemon-reload", driver)
	case byCDI:
		return ok("cgroup driver systemd, but devices by CDI: containers keep their GPU")
	case len(s.glob("dev/char/195:*")) > 0:
		return ok("cgroup driver systemd, and /dev/char has links to the devices")
	}
	return warn("use CDI (nvidia-ctk cdi generate, and whisk.gpu.docker.devices=auto), or run nvidia-ctk system create-dev-char-symlinks --create-all at boot",
		"cgroup driver systemd: systemctl daemon-reload, also as part of a package update, takes the GPU from running containers")
}

// deviceWays returns the ways in which the invoker would give devices to containers, and
// the names of the devices. If the invoker uses no device, all devices of the host are
// used instead, and if NVML does not answer, the first one.
func (s *snapshot) deviceWays() (*docker.Devices, []string, error) {
	runtime := "" // the runtime that the operator configured for all containers
	if values := s.Config.Containers.ExtraArgs["runtime"]; len(values) > 0 {
		runtime = values[len(values)-1]
	}
	ways, err := s.docker.Devices(s.Config.Docker.Devices, runtime, s.Files)
	var names []string
	found, _ := s.devices() // checkCards reports the error
	if len(found) == 0 {
		found = nvml.Devices(s.gpu.Cards)
	}
	for _, d := range found {
		names = append(names, d.UUID)
	}
	if len(names) == 0 {
		names = []string{"0"}
	}
	return ways, names, err
}

// checkGPURuntime reports how each device gets into a container.
func checkGPURuntime(s *snapshot) []Finding {
	const fix = "nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml, or nvidia-ctk runtime configure --runtime=docker and systemctl restart docker"
	ways, names, err := s.deviceWays()
	if err != nil {
		return fail("docs/configuration.md describes whisk.gpu.docker.devices", "%v", err)
	}
	all := merged(ofEach(names, func(name string) []Finding {
		by, err := ways.Assign(name)
		switch {
		case err != nil:
			return fail(fix, "%v", err)
		case by.Way == docker.DevicesRequest && s.Config.Docker.Devices == docker.DevicesAuto:
			return fail(fix, "Docker cannot give a GPU to a container, unless device requests work, which Docker does not report: %s", ways.Found())
		}
		return ok("%s by %s as %s", name, by.Way, by.Name)
	}), "; ", "", "")
	if s.docker.DefaultRuntime == "nvidia" {
		all = append(all, warn("remove default-runtime from /etc/docker/daemon.json and restart Docker",
			"nvidia is Docker's default runtime: every CUDA image requests all devices; the invoker hides them, but other containers see them")...)
	}
	return slices.Compact(all) // one finding suffices for devices with the same problem
}

// version holds the numbers of a version. A missing number is 0.
type version [3]int

var numbers = regexp.MustCompile(`\b(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?`)

// findVersion returns the first version in a text.
func findVersion(text string) (v version, found bool) {
	parts := numbers.FindStringSubmatch(text)
	if parts == nil {
		return v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(parts[i+1]) // a missing part is 0
	}
	return v, true
}

func (v version) before(other version) bool { return slices.Compare(v[:], other[:]) < 0 }

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }
