package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// toolkitVersion asks NVIDIA's container toolkit, by whichever of its programs
// is there.
func (f *Facts) toolkitVersion() (version, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	for _, program := range []string{"nvidia-ctk", "nvidia-container-toolkit", "nvidia-container-cli"} {
		text, err := f.Command(ctx, nil, program, "--version")
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
// is told from a check that does.
const commandTime = 2 * time.Second

func checkToolkit(f *Facts) []Finding {
	v, there := f.toolkitVersion()
	if !there {
		if !f.hasDriver() || !f.usesDocker() {
			return nil
		}
		return one(fail("NVIDIA's container toolkit is not installed: containers cannot be given a GPU",
			"install the package nvidia-container-toolkit"))
	}
	holes, fixed := v.open()
	if len(holes) > 0 {
		return one(warn(fmt.Sprintf("version %v has known holes by which a container may get at the host: %s", v, strings.Join(holes, ", ")),
			fmt.Sprintf("update nvidia-container-toolkit to %v or later", fixed)))
	}
	return one(ok(fmt.Sprintf("version %v, none of the known holes up to mid 2025", v)))
}

// cdiSpecs are the files that describe NVIDIA's devices to container engines.
func (f *Facts) cdiSpecs() []string {
	dirs := []string{"/etc/cdi", "/var/run/cdi"}
	if told := f.docker.value.CDIDirs; len(told) > 0 {
		dirs = told
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

func checkCDI(f *Facts) []Finding {
	if !f.hasDriver() || !f.usesDocker() {
		return nil
	}
	const fix = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, after every update of the driver"
	specs := f.cdiSpecs()
	if len(specs) == 0 {
		return one(warn("no CDI specification of NVIDIA's devices; the older NVIDIA runtime is used where Docker has it", fix))
	}
	var all []Finding
	for _, name := range specs {
		all = append(all, f.judgeSpec(name, fix))
	}
	if f.docker.err == nil && len(f.docker.value.CDIDirs) == 0 {
		all = append(all, warn("Docker does not read CDI specifications",
			"use Docker 28.3 or later, or set \"features\": {\"cdi\": true} in /etc/docker/daemon.json with Docker 25 or later"))
	}
	return all
}

// judgeSpec: a specification names the driver's libraries by their version.
// After an update of the driver it names files that are gone, and no container
// with a GPU starts any more.
func (f *Facts) judgeSpec(name, fix string) Finding {
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

// checkReload looks for the trap that systemctl daemon-reload is for running
// containers: systemd writes the device rules of their cgroups anew and knows
// NVIDIA's devices only by links below /dev/char (NVIDIA's container toolkit,
// issue 48 on GitHub).
func checkReload(f *Facts) []Finding {
	if !f.hasDriver() || !f.usesDocker() || f.docker.err != nil {
		return nil
	}
	d := f.docker.value
	linked := len(f.glob("dev/char/195:*")) > 0
	switch {
	case d.CgroupDriver != "systemd":
		return one(ok("cgroup driver " + d.CgroupDriver + ": systemctl daemon-reload leaves containers their GPU"))
	case len(d.CDIDirs) > 0 && len(f.cdiSpecs()) > 0:
		return one(ok("cgroup driver systemd, but devices by CDI: containers keep their GPU"))
	case linked:
		return one(ok("cgroup driver systemd, and /dev/char has links to the devices"))
	}
	return one(warn("cgroup driver systemd: systemctl daemon-reload, or a package update that does it, takes the GPU from running containers",
		"use CDI (nvidia-ctk cdi generate), or run nvidia-ctk system create-dev-char-symlinks --create-all at boot"))
}
