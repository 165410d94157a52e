package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

func dockerChecks() []check {
	return []check{
		{name: "engine", find: checkEngine},
		{name: "storage", find: checkStorage},
		{name: "logs", find: checkLogs},
		{name: "runtimes", find: checkManifest},
		{name: "images", find: checkImages},
		{name: "probe", find: checkProbes},
	}
}

func checkEngine(f *Facts) []Finding {
	if !f.usesDocker() {
		return one(warn("actions run as plain processes, without any isolation", "unset CONFIG_whisk_gpu_runtime except for development"))
	}
	if err := f.docker.err; err != nil {
		return one(fail(err.Error(), "start Docker, and let this user open its socket (group docker); DOCKER_HOST names another address"))
	}
	d := f.docker.value
	text := fmt.Sprintf("Docker %s, API %s, %d CPUs, %s", d.Version, d.API, d.CPUs, amount(d.MemoryBytes))
	if api, ok := findVersion(d.API); ok && api.before(version{1, 40}) {
		return one(fail(text+": the API is too old", "use Docker 19.03 or later"))
	}
	return one(ok(text))
}

func checkStorage(f *Facts) []Finding {
	if !f.usesDocker() || f.docker.err != nil {
		return nil
	}
	d := f.docker.value
	if slices.Contains([]string{"vfs", "devicemapper", "aufs"}, d.Storage) {
		return one(warn(d.Storage+" at "+d.Root+": every cold start copies or waits for whole images",
			"use overlay2 (\"storage-driver\" in /etc/docker/daemon.json)"))
	}
	return one(ok(d.Storage + " at " + d.Root))
}

// checkLogs: the invoker asks for json-file logs and reads their files. Over
// the API the same lines cost several times as much.
func checkLogs(f *Facts) []Finding {
	if !f.usesDocker() || f.docker.err != nil {
		return nil
	}
	if f.Config.Logs.OutOfBand {
		return one(ok("left to Docker's driver " + f.docker.value.LogDriver + "; records have no logs"))
	}
	dirs := append(slices.Clone(f.Config.Docker.LogDirs), path.Join(f.docker.value.Root, "containers"))
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		if _, err := fs.ReadDir(f.Files, strings.TrimPrefix(dir, "/")); err == nil {
			return one(ok("json-file, read at " + dir))
		}
	}
	return one(warn("container logs cannot be read as files ("+strings.Join(dirs, ", ")+"), so they are read through Docker's API, which is slower",
		"run as root, or mount Docker's containers directory and name it in CONFIG_whisk_gpu_docker_logDirs"))
}

func hostChecks() []check {
	return []check{
		{name: "port", find: checkPort},
		{name: "memory", find: checkMemory},
		{name: "disk", find: checkDisk},
		{name: "state", find: checkState},
	}
}

func checkPort(f *Facts) []Finding {
	port := f.Config.Admin.Port
	switch {
	case f.port.err == nil:
		return one(ok(fmt.Sprintf("%d is free", port)))
	case f.pinged == nil:
		return one(ok(fmt.Sprintf("an invoker answers on %d already", port)))
	}
	return one(fail(fmt.Sprintf("%d: %v", port, f.port.err), "end what listens there, or set PORT to another one"))
}

// checkMemory compares what action containers may hold with what there is.
func checkMemory(f *Facts) []Finding {
	user, total := int64(f.Config.Pool.UserMemory), f.hostMemory()
	if total == 0 {
		return nil
	}
	text := fmt.Sprintf("action containers may hold %s of %s (CONFIG_whisk_containerPool_userMemory)", amount(user), amount(total))
	const left = int64(config.GiB) // for the system, the engine and the invoker
	switch {
	case user > total:
		return one(fail(text, "lower it below the host's memory: the kernel would end containers and worse"))
	case user > total-min(left, total/8):
		return one(warn(text, "leave about 1 GiB for the system, Docker and the invoker"))
	}
	return one(ok(text))
}

func (f *Facts) hostMemory() int64 {
	if n := f.docker.value.MemoryBytes; n > 0 {
		return n
	}
	var kib int64
	for line := range strings.Lines(f.read("proc/meminfo")) {
		if _, err := fmt.Sscanf(line, "MemTotal: %d kB", &kib); err == nil {
			break
		}
	}
	return kib * int64(config.KiB)
}

func checkDisk(f *Facts) []Finding {
	dir := "/tmp"
	if f.usesDocker() {
		if f.docker.err != nil || f.docker.value.Root == "" {
			return nil
		}
		dir = f.docker.value.Root
	} else if d := f.Config.Process.Dir; d != "" {
		dir = d
	}
	space, err := f.diskAt(dir)
	if err != nil {
		return one(warn(dir+": "+err.Error(), "Docker seems to run elsewhere: look at the disk there"))
	}
	text := fmt.Sprintf("%s of %s free at %s", amount(space.Free), amount(space.Total), dir)
	const fix = "docker image prune, or a larger disk"
	switch {
	case space.Free < int64(config.GiB):
		return one(fail(text, fix))
	case space.Free < 5*int64(config.GiB) || space.Free < space.Total/20:
		return one(warn(text, fix))
	}
	return one(ok(text))
}
