package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/docker"
)

// toolkitVersion asks NVIDIA's container toolkit, by whichever of its programs
// is there.
func (f *Snapshot) toolkitVersion() (version, bool) {
	for _, program := range []string{"nvidia-ctk", "nvidia-container-toolkit", "nvidia-container-cli"} {
		text, err := f.run(nil, program, "--version")
		if err != nil {
			continue
		}
		if v, ok := findVersion(text); ok {
			return v, true
		}
	}
	return version{}, false
}

// commandTime is less than the limit of a check, so that a command which hangs
// is distinguished from a check that does.
const commandTime = 2 * time.Second

// run runs a command of a check within that time.
func (f *Snapshot) run(env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	return f.Command(ctx, env, name, args...)
}

func checkToolkit(f *Snapshot) []Finding {
	v, there := f.toolkitVersion()
	if !there {
		if !f.hasDriver() || !f.usesDocker() {
			return nil
		}
		return fail("NVIDIA's container toolkit is not installed: containers cannot be given a GPU",
			"install the package nvidia-container-toolkit")
	}
	holes, fixed := v.open()
	if len(holes) > 0 {
		return warn(fmt.Sprintf("version %v has known holes by which a container may get at the host: %s", v, strings.Join(holes, ", ")),
			fmt.Sprintf("update nvidia-container-toolkit to %v or later", fixed))
	}
	return ok(fmt.Sprintf("version %v, none of the known holes up to mid 2025", v))
}

// cdiSpecs are the files that describe NVIDIA's devices to container engines.
func (f *Snapshot) cdiSpecs() []string {
	dirs := []string{"/etc/cdi", "/var/run/cdi"}
	if configured := f.docker.value.CDIDirs; len(configured) > 0 {
		dirs = configured
	}
	var specs []string
	for _, dir := range dirs {
		for _, kind := range []string{"yaml", "json"} {
			for _, name := range f.glob(strings.TrimPrefix(path.Clean(dir), "/") + "/*." + kind) {
				if strings.Contains(f.read(name), "nvidia.com/gpu") {
					specs = append(specs, name)
				}
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(specs)))
}

func checkCDI(f *Snapshot) []Finding {
	const fix = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, after every update of the driver"
	specs := f.cdiSpecs()
	if len(specs) == 0 {
		return warn("no CDI specification of NVIDIA's devices; the older NVIDIA runtime is used where Docker has it", fix)
	}
	var all []Finding
	for _, name := range specs {
		all = append(all, f.judgeSpec(name, fix)...)
	}
	if f.docker.err == nil && len(f.docker.value.CDIDirs) == 0 {
		all = append(all, warn("Docker does not read CDI specifications",
			"use Docker 28.3 or later, or set \"features\": {\"cdi\": true} in /etc/docker/daemon.json with Docker 25 or later")...)
	}
	return all
}

// judgeSpec: a specification names the driver's libraries by their version.
// After an update of the driver it names files that are gone, and no container
// with a GPU starts any more.
func (f *Snapshot) judgeSpec(name, fix string) []Finding {
	text := "/" + name
	if info, err := fs.Stat(f.Files, name); err == nil {
		text += ", " + age(f.Now.Sub(info.ModTime())) + " old"
	}
	v := f.driverVersion()
	switch {
	case v == "":
		return ok(text)
	case strings.Contains(f.read(name), ".so."+v):
		return ok(text + ", made for driver " + v)
	}
	return fail(fmt.Sprintf("%s, was not made for driver %s: containers with a GPU will not start", text, v), fix)
}

func age(d time.Duration) string {
	if days := int(d.Hours() / 24); days > 0 {
		return fmt.Sprintf("%d day(s)", days)
	}
	return max(d, 0).Round(time.Minute).String()
}

// checkReload detects the trap that systemctl daemon-reload is for running
// containers: systemd writes the device rules of their cgroups anew and finds
// NVIDIA's devices only by links below /dev/char (NVIDIA's container toolkit,
// issue 48 on GitHub).
func checkReload(f *Snapshot) []Finding {
	d := f.docker.value
	linked := len(f.glob("dev/char/195:*")) > 0
	switch {
	case d.CgroupDriver != "systemd":
		return ok("cgroup driver " + d.CgroupDriver + ": systemctl daemon-reload leaves containers their GPU")
	case f.allByCDI():
		return ok("cgroup driver systemd, but devices by CDI: containers keep their GPU")
	case linked:
		return ok("cgroup driver systemd, and /dev/char has links to the devices")
	}
	return warn("cgroup driver systemd: systemctl daemon-reload, or a package update that does it, takes the GPU from running containers",
		"use CDI (nvidia-ctk cdi generate, and whisk.gpu.docker.devices=auto), or run nvidia-ctk system create-dev-char-symlinks --create-all at boot")
}

// allByCDI reports whether containers get every device by CDI, as the invoker would
// choose it.
func (f *Snapshot) allByCDI() bool {
	ways, err := f.docker.value.Devices(f.Config.Docker.Devices, f.extraRuntime(), f.Files)
	return err == nil && !slices.ContainsFunc(f.deviceNames(), func(name string) bool {
		grant, err := ways.Assign(name)
		return err != nil || grant.Way != docker.DevicesCDI
	})
}

// checkGPURuntime reports in which way each device gets into a container, as the
// invoker would choose it.
func checkGPURuntime(f *Snapshot) []Finding {
	const fix = "nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml, or nvidia-ctk runtime configure --runtime=docker and systemctl restart docker"
	ways, err := f.docker.value.Devices(f.Config.Docker.Devices, f.extraRuntime(), f.Files)
	if err != nil {
		return fail(err.Error(), "docs/configuration.md describes whisk.gpu.docker.devices")
	}
	var all []Finding
	var good []string
	for _, name := range f.deviceNames() {
		grant, err := ways.Assign(name)
		switch {
		case err != nil:
			all = append(all, fail(err.Error(), fix)...)
		case grant.Way == docker.DevicesRequest && f.Config.Docker.Devices == docker.DevicesAuto:
			all = append(all, fail("Docker can give no GPU to a container, unless its device requests work, which it does not report: "+ways.Found(), fix)...)
		default:
			good = append(good, fmt.Sprintf("%s by %s as %s", name, grant.Way, grant.Name))
		}
	}
	if len(good) > 0 {
		all = append(all, ok(strings.Join(good, "; "))...)
	}
	if f.docker.value.DefaultRuntime == "nvidia" {
		all = append(all, warn("nvidia is Docker's default runtime: every CUDA image asks for all devices; the invoker hides them, other containers see them",
			"remove default-runtime from /etc/docker/daemon.json and restart Docker")...)
	}
	// Of several devices one finding is enough where all have the same.
	return slices.CompactFunc(all, func(a, b Finding) bool { return a == b })
}

// extraRuntime is the runtime that the operator has all containers started by.
func (f *Snapshot) extraRuntime() string {
	values := f.Config.Containers.ExtraArgs["runtime"]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// deviceNames are the devices by the names that the engine is given. Where
// NVML does not answer, the first one stands for all.
func (f *Snapshot) deviceNames() []string {
	var names []string
	for _, d := range nvml.Devices(f.gpu.value.Cards) {
		names = append(names, d.UUID)
	}
	if len(names) == 0 {
		return []string{"0"}
	}
	return names
}

// version is the numbers of a version; a missing one counts as 0.
type version [3]int

// findVersion reads the first version in a text.
func findVersion(text string) (version, bool) {
	found := regexp.MustCompile(`\b(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?`).FindStringSubmatch(text)
	if found == nil {
		return version{}, false
	}
	var v version
	for i := range v {
		v[i], _ = strconv.Atoi(found[i+1]) // an absent part is 0
	}
	return v, true
}

func (v version) before(other version) bool { return slices.Compare(v[:], other[:]) < 0 }

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// holes are the known vulnerabilities of NVIDIA's security bulletins by which a
// container may get at its host, by the version of the container toolkit that has
// them no more. All concern what the toolkit does when a container is made from
// an image that other people built, which is what actions are.
func holes() map[version][]string {
	return map[version][]string{
		{1, 16, 2}: {"CVE-2024-0132", "CVE-2024-0133"},
		{1, 17, 0}: {"CVE-2024-0134"},
		{1, 17, 1}: {"CVE-2024-0135", "CVE-2024-0136", "CVE-2024-0137"},
		{1, 17, 4}: {"CVE-2025-23359"},
		{1, 17, 8}: {"CVE-2025-23266", "CVE-2025-23267"},
	}
}

// open lists the holes of a version, and the version that has none of them.
func (v version) open() (names []string, fixed version) {
	for in, some := range holes() {
		if v.before(in) {
			names = append(names, some...)
			if fixed.before(in) {
				fixed = in
			}
		}
	}
	slices.Sort(names)
	return names, fixed
}
