package doctor

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
)

// shimAt returns the path of the shim library, "" if there is none.
func (s *snapshot) shimAt() string {
	if i := slices.IndexFunc(s.Shim, s.exists); i >= 0 {
		return s.Shim[i]
	}
	return ""
}

// library opens the shim library.
func (s *snapshot) library(at string) (*elf.File, error) {
	data, err := fs.ReadFile(s.Files, inRoot(at))
	if err != nil {
		return nil, err
	}
	return elf.NewFile(bytes.NewReader(data))
}

func checkShim(s *snapshot) []Finding {
	at := s.shimAt()
	switch {
	case s.Config.GPU.Shim.Library == config.None:
		return warn("unset it, or set it to the path of the library", "switched off by whisk.gpu.shim.library: memory of GPU actions is neither measured nor swapped")
	case at == "" && !s.hasDriver() && s.Config.GPU.SimulatedDevices == 0:
		return nil
	case at == "":
		return warn("make shim, or give its path with --shim", "libgpuwhisk.so does not exist: memory of GPU actions is neither measured nor swapped")
	}
	lib, err := s.library(at)
	switch {
	case errors.As(err, new(*fs.PathError)):
		return fail("give this user permission to read it", "read %s: %v", at, err)
	case err != nil:
		return fail("build it again with make shim", "%s is not a library: %v", at, err)
	}
	if bad := s.judgeLibrary(at, lib); bad != nil {
		return bad
	}
	text, bad := s.tryShim(at)
	if bad != nil {
		return bad
	}
	if needs, _ := devices.NeededGlibc(lib); devices.MinGlibc.Before(needs) { // on an error, no glibc is needed
		return warn(fmt.Sprintf("use the released library, which needs %v", devices.MinGlibc),
			"%s. It needs glibc %v: in images with an older glibc functions run without the shim", text, needs)
	}
	return ok("%s", text)
}

// judgeLibrary checks the file and tries to preload it. If the loader refuses the
// library, it prints the reason on the program's standard error.
func (s *snapshot) judgeLibrary(at string, lib *elf.File) []Finding {
	switch err := devices.CheckELF(lib, s.Arch); {
	case errors.Is(err, devices.ErrProcessor):
		return fail("use the library for this processor", "%s: %v", at, err)
	case err != nil:
		return fail("it has another version, is not a shim, or is truncated: build it again with make shim", "%s: %v", at, err)
	}
	const fix = "use the released library, or build it on this host with make shim"
	output, err := s.run([]string{"LD_PRELOAD=" + at}, "true")
	switch {
	case err != nil:
		return fail(fix, "%s: a program with this library ends: %v %s", at, err, output)
	case strings.TrimSpace(output) != "":
		return fail(fix, "%s is not loaded: %s", at, output)
	}
	return nil
}

// tryShim runs a program that uses CUDA under the library: on the host's driver, or
// without one on the fake driver that is built beside the library.
func (s *snapshot) tryShim(at string) (text string, bad []Finding) {
	driver := ""
	if s.driverVersion() == "" && !s.exists("dev/nvidiactl") {
		driver = path.Join(path.Dir(at), "fake12")
	}
	t, err := Tried{}, fmt.Errorf("%w: no CUDA driver here", errNothingToTry)
	if driver == "" || s.exists(driver+"/libcuda.so.1") {
		t, err = s.Hooks(s.ctx, at, driver)
	}
	switch {
	case errors.Is(err, errNothingToTry):
		return at + " can be loaded and has its hooks; they were " + err.Error(), nil
	case err != nil:
		return "", fail("check whether the program works without it (docs/shim.md); whisk.gpu.shim.library=none switches the shim off",
			"%s: a program that uses CUDA under it: %v", at, err)
	}
	return fmt.Sprintf("%s is loaded and hooks the driver: %s of a program were counted, %s moved off the device and %s back",
		at, amount(t.Seen), amount(t.Out), amount(t.Back)), nil
}

// checkSockets examines the directory with the shims' sockets and the copy of the
// library for containers. Containers mount it by its path on the host, so if the invoker
// itself runs in a container, the directory must be a mount from the host.
func checkSockets(s *snapshot) []Finding {
	if s.Config.GPU.Shim.Library == config.None || s.shimAt() == "" {
		return nil
	}
	dirs := s.Config.SocketDirs(s.instance().ContainerPrefix(), cmp.Or(s.variable("TMPDIR"), "/tmp"))
	used := slices.IndexFunc(dirs, func(dir string) bool { return devices.SocketLength(dir) <= devices.LongestSocket })
	if used < 0 {
		return fail("set CONFIG_whisk_gpu_shim_dir to a shorter path",
			"a socket below %s has a path of %d bytes, the kernel takes %d", dirs[0], devices.SocketLength(dirs[0]), devices.LongestSocket)
	}
	dir, why := path.Dir(dirs[0]), "" // shared by all invokers of the host
	if used > 0 {
		dir, why = dirs[used], ", since paths below "+dirs[0]+" are longer"
	}
	inside := s.exists(".dockerenv") || s.exists("run/.containerenv")
	if inside && !s.mounted(dir) {
		return fail(fmt.Sprintf("mount it from the host under the same path (--volume %s:%[1]s), or set CONFIG_whisk_gpu_shim_dir to a mounted directory", dir),
			"%s is inside this container: GPU containers mount the host's directory, which is a different one or does not exist", dir)
	}
	return ok("below %s, with paths of %d of %d bytes%s", dir, devices.SocketLength(dirs[used]), devices.LongestSocket, why)
}

// mounted reports whether a path is on a mount other than the root. On most systems
// /var/run is a link to /run, and the list of mounts uses /run.
func (s *snapshot) mounted(at string) bool {
	for line := range strings.Lines(s.read("proc/self/mountinfo")) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[4] == "/" {
			continue
		}
		for _, name := range []string{at, strings.TrimPrefix(at, "/var")} {
			if strings.HasPrefix(name+"/", fields[4]+"/") {
				return true
			}
		}
	}
	return false
}

// checkFallbacks lists the actions whose GPU memory the invokers of this host count but
// do not move, because their libraries fail otherwise.
func checkFallbacks(s *snapshot) []Finding {
	return ofEach(s.glob(s.Config.State.FallbackFile("*")), func(name string) []Finding {
		data, err := fs.ReadFile(s.Files, name)
		var list []devices.Fallback
		if err == nil {
			list, err = devices.ReadFallbacks(data)
		}
		switch {
		case err != nil:
			return warn("give this user permission to read it; an invoker that cannot read it starts with an empty list", "/%s: %v", name, err)
		case len(list) == 0:
			return nil
		}
		const most = 5 // most actions that a finding names
		var named []string
		for _, one := range list[:min(len(list), most)] {
			named = append(named, fmt.Sprintf("%s (%s)", one.Action, one.Reason))
		}
		if len(list) > most {
			named = append(named, "and others (GET /fallbacks)")
		}
		return warn("give the action libraries that work with managed memory, or set the annotation gpu: {\"shim\": \"count\"}; DELETE /fallbacks?action=ACTION at the admin port moves its memory again",
			"memory of %d actions is counted but not moved: %s", len(list), strings.Join(named, "; "))
	})
}

// checkShimImages examines the requested images: whether the shim fits their C library,
// and whether the shim reaches their actions.
func checkShimImages(s *snapshot) []Finding {
	switch {
	case len(s.ShimImages) == 0, s.dockerErr != nil:
		return nil
	case s.usesContainerd():
		return skip("examine them on a host with Docker", "images are not examined with containerd")
	case !s.usesContainers():
		return skip("see the finding on the shim", "actions run as processes of this host, without images")
	}
	at := s.shimAt()
	lib, err := s.library(at)
	if err != nil {
		return warn("make shim, or give its path with --shim", "there is no libgpuwhisk.so to test in images")
	}
	needs, _ := devices.NeededGlibc(lib)
	parts, _ := lib.ImportedLibraries() // on an error there are none: nothing is needed
	return ofEach(s.ShimImages, func(ref string) []Finding {
		has, err := s.Libc(s.ctx, ref)
		if err != nil {
			return fail("docker pull "+ref, "%s: %v", ref, err)
		}
		found := judgeLibc(ref, has, needs, parts)
		if found[0].Status != OK {
			return found
		}
		inside, err := s.Look(s.ctx, ref, at)
		return judgeInside(found[0].Found, ref, inside, err)
	})
}

// judgeLibc compares the C library of an image with the version of glibc and the
// libraries that the shim needs.
func judgeLibc(ref string, l docker.Libc, needs devices.Glibc, parts []string) []Finding {
	const without = "its functions run without the shim: their memory counts as reserved and is not moved"
	has := devices.Glibc{l.Major, l.Minor}
	lacks := slices.DeleteFunc(strings.Fields(l.Lacks), func(name string) bool { return !slices.Contains(parts, name) })
	switch {
	case l.Name == "glibc" && len(lacks) > 0:
		return fail(`copy them into the image from its distribution's package of glibc (Debian: libc6), or set {"gpu": {"shim": "off"}} in the action's annotations`,
			"%s lacks %s, which the shim needs: every program of the image ends when it starts", ref, strings.Join(lacks, " and "))
	case l.Name == "musl":
		return warn("base the action's image on an image with glibc, such as debian or ubuntu", "%s has musl, with which neither NVIDIA's driver nor the shim works", ref)
	case l.Name == "":
		return warn("use programs that are linked with glibc", "%s has no C library in its usual places: static programs do not load the shim, and %s", ref, without)
	case has.Before(needs):
		return warn(fmt.Sprintf("use the released library, which needs %v: make shim with zig cc (pip install ziglang)", devices.MinGlibc),
			"%s has glibc %v and the shim needs %v: %s", ref, has, needs, without)
	}
	return ok("%s has glibc %v, the shim needs %v", ref, has, needs)
}
