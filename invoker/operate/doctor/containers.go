package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/docker"
)

func checkEngine(f *Snapshot) []Finding {
	if !f.usesDocker() {
		return warn("actions run as plain processes, without any isolation", "unset CONFIG_whisk_gpu_runtime except for development")
	}
	if err := f.docker.err; err != nil {
		return fail(err.Error(), "start Docker, and let this user open its socket (group docker); DOCKER_HOST names another address")
	}
	d := f.docker.value
	text := fmt.Sprintf("Docker %s, API %s, %d CPUs, %s", d.Version, d.API, d.CPUs, amount(d.MemoryBytes))
	if api, ok := findVersion(d.API); ok && api.before(version{1, 40}) {
		return fail(text+": the API is too old", "use Docker 19.03 or later")
	}
	return ok(text)
}

func checkStorage(f *Snapshot) []Finding {
	d := f.docker.value
	if slices.Contains([]string{"vfs", "devicemapper", "aufs"}, d.Storage) {
		return warn(d.Storage+" at "+d.Root+": every cold start copies or waits for whole images",
			"use overlay2 (\"storage-driver\" in /etc/docker/daemon.json)")
	}
	return ok(d.Storage + " at " + d.Root)
}

// checkLogs: the invoker asks for json-file logs and reads their files. Over
// the API the same lines cost several times as much CPU.
func checkLogs(f *Snapshot) []Finding {
	if f.Config.Logs.OutOfBand {
		return ok("left to Docker's driver " + f.docker.value.LogDriver + "; records have no logs")
	}
	dirs := append(slices.Clone(f.Config.Docker.LogDirs), path.Join(f.docker.value.Root, "containers"))
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		if _, err := fs.ReadDir(f.Files, strings.TrimPrefix(dir, "/")); err == nil {
			return ok("json-file, read at " + dir)
		}
	}
	return warn("container logs cannot be read as files ("+strings.Join(dirs, ", ")+"), so they are read through Docker's API, which is slower",
		"run as root, or mount Docker's containers directory and name it in CONFIG_whisk_gpu_docker_logDirs")
}

func checkPort(f *Snapshot) []Finding {
	port := f.Config.Admin.Port
	switch {
	case f.port == nil:
		return ok(fmt.Sprintf("%d is free", port))
	case f.pinged == nil:
		return ok(fmt.Sprintf("an invoker answers on %d already", port))
	}
	return fail(fmt.Sprintf("%d: %v", port, f.port), "end what listens there, or set PORT to another one")
}

// checkMemory compares what action containers may hold with what there is.
func checkMemory(f *Snapshot) []Finding {
	user, total := int64(f.Config.Pool.UserMemory), f.hostMemory()
	if total == 0 {
		return nil
	}
	text := fmt.Sprintf("action containers may hold %s of %s (CONFIG_whisk_containerPool_userMemory)", amount(user), amount(total))
	const left = int64(config.GiB) // for the system, the engine and the invoker
	switch {
	case user > total:
		return fail(text, "lower it below the host's memory: the kernel would end containers and worse")
	case user > total-min(left, total/8):
		return warn(text, "leave about 1 GiB for the system, Docker and the invoker")
	}
	return ok(text)
}

func (f *Snapshot) hostMemory() int64 {
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

func checkDisk(f *Snapshot) []Finding {
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
		return warn(dir+": "+err.Error(), "Docker seems to run elsewhere: check the disk there")
	}
	text := fmt.Sprintf("%s of %s free at %s", amount(space.Free), amount(space.Total), dir)
	const fix = "docker image prune, or a larger disk"
	switch {
	case space.Free < int64(config.GiB):
		return fail(text, fix)
	case space.Free < 5*int64(config.GiB) || space.Free < space.Total/20:
		return warn(text, fix)
	}
	return ok(text)
}

// errNoManifest means that none was given.
var errNoManifest = errors.New("no runtimes manifest is given")

func readManifest(c *config.Config) answer[*activation.Manifest] {
	r := c.Runtimes
	if r.Manifest == "" {
		return answer[*activation.Manifest]{err: errNoManifest}
	}
	m, err := activation.ParseManifest([]byte(r.Manifest), activation.ManifestOptions{
		RuntimesRegistry: r.Registry, UserImagesRegistry: r.UserRegistry,
		BypassPull: r.BypassPullForLocalImages, LocalPrefix: r.LocalImagePrefix,
	})
	return answer[*activation.Manifest]{m, err}
}

// references are the images of the manifest by the names that the engine has.
func (f *Snapshot) references() []string {
	if f.manifest.err != nil {
		return nil
	}
	var all []string
	for _, r := range f.manifest.value.Runtimes() {
		all = append(all, f.manifest.value.ManagedReference(r.Image))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func checkManifest(f *Snapshot) []Finding {
	err := f.manifest.err
	switch {
	case errors.Is(err, errNoManifest):
		return skip("not configured", "set RUNTIMES_MANIFEST to the deployment's runtimes manifest")
	case err != nil:
		return fail(err.Error(), "fix RUNTIMES_MANIFEST; it must be what the controllers have")
	}
	kinds := 0
	gpu := []string{}
	for _, r := range f.manifest.value.Runtimes() {
		kinds++
		if strings.Contains(r.Kind, "gpu") {
			gpu = append(gpu, r.Kind)
		}
	}
	text := fmt.Sprintf("%d kinds", kinds)
	if len(gpu) > 0 {
		text += ", for GPUs " + strings.Join(gpu, ", ")
	} else if f.hasDriver() {
		return warn(text+", none of them for GPUs: only actions with an image of their own can use CUDA",
			"add a kind such as python:3-gpu whose image has Python and the CUDA libraries")
	}
	return ok(text)
}

func checkImages(f *Snapshot) []Finding {
	var all []Finding
	var good []string
	for _, ref := range f.references() {
		bad := judgeImage(ref, f.images[ref])
		if bad == nil {
			good = append(good, ref)
		}
		all = append(all, bad...)
	}
	if len(good) > 0 {
		all = append(all, ok("there and made for actions: "+strings.Join(good, ", "))...)
	}
	return all
}

// judgeImage finds what is wrong with an image, if anything.
func judgeImage(ref string, a answer[Image]) []Finding {
	switch {
	case a.err != nil:
		return warn(a.err.Error(), "docker image inspect "+ref)
	case !a.value.There:
		return warn(ref+" is not on this host: the first action of its kind waits for the pull, or fails where no registry has it",
			"docker pull "+ref)
	}
	switch certain, why := lacksProxy(a.value.Image); {
	case certain:
		return fail(fmt.Sprintf("%s has no /init and /run: %s", ref, why),
			"build on an image that has an action proxy, or add one (docker build --build-arg BASE="+ref+" docker/runtimes/python3)")
	case why != "":
		return warn(fmt.Sprintf("%s may have no /init and /run: %s", ref, why), "gpuwhisk doctor --probe "+ref)
	}
	return nil
}

// lacksProxy guesses from what an image starts whether it lacks an action proxy, which
// serves /init and /run; why is empty where it has one. The stock CUDA images start a
// shell, and a shell without a terminal ends at once: the action then fails with a
// time-out or a refused connection that does not name the reason.
func lacksProxy(i docker.Image) (certain bool, why string) {
	argv := append(slices.Clone(i.Entrypoint), i.Cmd...)
	line := strings.Join(argv, " ")
	for _, sign := range []string{"/proxy/", "/bin/proxy", "actionProxy", "actionproxy", "app.js", "actionloop", "bin/exec", "proxy.jar", "javaAction", "prelauncher"} {
		if strings.Contains(line, sign) {
			return false, ""
		}
	}
	for _, kv := range i.Env {
		if strings.HasPrefix(kv, "OW_EXECUTION_ENV=") || strings.HasPrefix(kv, "OW_COMPILER=") || strings.HasPrefix(kv, "FLASK_PROXY_PORT=") {
			return false, ""
		}
	}
	starts := `it starts "` + line + `"`
	switch {
	case stock(i) && shellOrInterpreter(i.Cmd):
		return true, "it is a stock CUDA image that" + strings.TrimPrefix(starts, "it")
	case len(argv) == 0:
		return true, "it starts nothing"
	case shellOrInterpreter(argv):
		return true, starts + ", which listens on no port"
	}
	return false, starts + ", which is not known to be an action proxy"
}

// stock recognises NVIDIA's own images by what all of them carry.
func stock(i docker.Image) bool {
	return strings.Contains(i.Labels["maintainer"], "NVIDIA") ||
		slices.ContainsFunc(i.Entrypoint, func(s string) bool { return strings.Contains(s, "nvidia_entrypoint") })
}

// shellOrInterpreter reports a program that waits for input and gets none.
func shellOrInterpreter(argv []string) bool {
	return len(argv) == 0 || len(argv) == 1 && slices.Contains(
		[]string{"sh", "bash", "dash", "ash", "zsh", "python", "python3", "node", "irb", "jshell", "php"}, path.Base(argv[0]))
}

func checkProbes(f *Snapshot) []Finding {
	var all []Finding
	for _, ref := range slices.Sorted(maps.Keys(f.probes)) {
		a := f.probes[ref]
		if a.err != nil {
			all = append(all, fail(ref+" does not speak the protocol of actions: "+a.err.Error(),
				"see docker run --rm "+ref+" for what it does; an action image listens on port 8080 and answers /init and /run")...)
			continue
		}
		all = append(all, ok(ref+": "+a.value)...)
	}
	return all
}

// diskAt asks for the file system of a directory, within a command's time.
func (f *Snapshot) diskAt(dir string) (Space, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	return f.Disk(ctx, dir)
}
