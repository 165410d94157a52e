package doctor

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/docker"
)

// oldestGlibc is that of the oldest images that the shim is loaded into. The
// loader leaves out a library that needs a newer one.
var oldestGlibc = version{2, 17}

// shimAt is where the library is, empty if it is nowhere.
func (f *Snapshot) shimAt() string {
	for _, name := range f.Shim {
		if f.exists(strings.TrimPrefix(name, "/")) {
			return name
		}
	}
	return ""
}

// library reads the shim's library.
func (f *Snapshot) library(at string) (*elf.File, error) {
	data, err := fs.ReadFile(f.Files, strings.TrimPrefix(at, "/"))
	if err != nil {
		return nil, err
	}
	return elf.NewFile(bytes.NewReader(data))
}

// wantsShim reports whether GPU actions run with it here.
func (f *Snapshot) wantsShim() bool {
	return f.hasDriver() || f.Config.GPU.SimulatedDevices > 0
}

// tryShim has a program use CUDA under the library, on the host's own driver
// or, where there is none, the fake one that is built beside the library.
func (f *Snapshot) tryShim(ctx context.Context) (Tried, error) {
	at := f.shimAt()
	if at == "" {
		return Tried{}, errNothingToTry
	}
	driver := ""
	if f.driverVersion() == "" && !f.exists("dev/nvidiactl") {
		driver = path.Join(path.Dir(at), "fake12")
		if !f.exists(strings.TrimPrefix(driver, "/") + "/libcuda.so.1") {
			return Tried{}, fmt.Errorf("%w: no CUDA driver here", errNothingToTry)
		}
	}
	return f.Hooks(ctx, at, driver)
}

func checkShim(f *Snapshot) []Finding {
	if f.Config.GPU.Shim.Library == noShim {
		return warn("done without by whisk.gpu.shim.library: memory of GPU actions is neither measured nor swapped",
			"unset it, or name the library in it")
	}
	at := f.shimAt()
	if at == "" {
		if !f.wantsShim() {
			return nil
		}
		return warn("libgpuwhisk.so is not there: memory of GPU actions is neither measured nor swapped",
			"make shim, or name it with --shim")
	}
	lib, err := f.library(at)
	switch {
	case errors.As(err, new(*fs.PathError)):
		return fail("read "+at+": "+err.Error(), "let this user read it")
	case err != nil:
		return fail(at+" is not a library: "+err.Error(), "build it again with make shim")
	}
	if bad := f.judgeLibrary(at, lib); bad != nil {
		return bad
	}
	return f.preload(at, lib)
}

// judgeLibrary finds what is wrong with the file itself, if anything.
func (f *Snapshot) judgeLibrary(at string, lib *elf.File) []Finding {
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[f.Arch]
	if lib.Machine != machine {
		return fail(fmt.Sprintf("%s is for %v, this host is %s", at, lib.Machine, f.Arch), "use the library of this processor")
	}
	missing, err := devices.MissingHooks(lib)
	if err != nil {
		return fail("read the symbols of "+at+": "+err.Error(), "build it again with make shim")
	}
	if len(missing) > 0 {
		return fail(at+" does not hook "+strings.Join(missing, ", "), "it is of another version: build it again with make shim")
	}
	return nil
}

// preload starts a program with the library before all others: the loader prints
// on the program's error output why it refuses one.
func (f *Snapshot) preload(at string, lib *elf.File) []Finding {
	output, err := f.run([]string{"LD_PRELOAD=" + at}, "true")
	const fix = "use the released library, or build it on this host with make shim"
	switch {
	case err != nil:
		return fail(at+": a program that it is loaded into ends: "+err.Error()+" "+output, fix)
	case strings.TrimSpace(output) != "":
		return fail(at+" is not loaded: "+output, fix)
	}
	text, err := f.hooked(at)
	if err != nil {
		return fail(fmt.Sprintf("%s: a program that uses CUDA under it: %v", at, err),
			"see whether the program works without it (docs/shim.md); whisk.gpu.shim.library=none does without")
	}
	if v := glibc(lib); oldestGlibc.before(v) {
		return warn(fmt.Sprintf("%s, but needs glibc %d.%d: in images with an older one functions run without it", text, v[0], v[1]),
			"use the released library, which needs 2.17")
	}
	return ok(text)
}

// hooked reports what came of the program that used CUDA under the library.
func (f *Snapshot) hooked(at string) (string, error) {
	t, err := f.hooks.value, f.hooks.err
	switch {
	case errors.Is(err, errNothingToTry) || err == nil && t.Seen == 0:
		text := at + " is loaded and has the hooks, which were not tried"
		if err != nil {
			text += strings.TrimPrefix(err.Error(), errNothingToTry.Error())
		}
		return text, nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("%s is loaded and hooks the driver: %s of a program were seen, %s moved off the device and %s back",
		at, amount(t.Seen), amount(t.Out), amount(t.Back)), nil
}

// glibc is the newest version of the C library that a library needs.
func glibc(lib *elf.File) version {
	v, _ := devices.Glibc(lib) // none: it needs nothing
	return version{v[0], v[1]}
}

// longestSocket is what a unix socket's path may have (unix(7), less the
// closing zero).
const longestSocket = 107

// checkSockets examines the directory of the shims' sockets and of the library's
// copy for containers. They are given it by its path on the host: where the
// invoker runs in a container itself, it must come from there.
func checkSockets(f *Snapshot) []Finding {
	g := f.Config.GPU
	if !f.hasDriver() || !f.usesDocker() || g.Shim.Library == noShim || f.shimAt() == "" {
		return nil
	}
	dir := g.Shim.Dir
	if dir == "" {
		dir = "/var/run/gpuwhisk"
	}
	id, number := f.Config.Identity, 0
	if id.ID != nil {
		number = *id.ID
	}
	name := fmt.Sprintf("wsk%s%d_", id.UniqueName, number)
	socket := path.Join(dir, name, "0123456789abcdef", "shim.sock")
	if len(socket) > longestSocket {
		return fail(fmt.Sprintf("a socket below %s has a path of %d bytes, the kernel takes %d", dir, len(socket), longestSocket),
			"name a shorter directory in CONFIG_whisk_gpu_shim_dir")
	}
	if f.contained() && !f.mounted(dir) {
		return fail(dir+" is this container's own: GPU containers are given the host's, which is another or none",
			fmt.Sprintf("mount it from the host under the same path (--volume %s:%s)", dir, dir))
	}
	return ok(fmt.Sprintf("below %s, with paths of %d of %d bytes", dir, len(socket), longestSocket))
}

// contained reports whether this process runs in a container.
func (f *Snapshot) contained() bool {
	return f.exists(".dockerenv") || f.exists("run/.containerenv")
}

// mounted reports whether a path lies on a mount other than the root. /var/run
// is a link to /run on most systems, and a mount is listed by the latter.
func (f *Snapshot) mounted(at string) bool {
	for line := range strings.Lines(f.read("proc/self/mountinfo")) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[4] == "/" {
			continue
		}
		for _, name := range []string{at, strings.TrimPrefix(at, "/var")} {
			if name == fields[4] || strings.HasPrefix(name, fields[4]+"/") {
				return true
			}
		}
	}
	return false
}

// maxFallbacks is how many actions a finding names.
const maxFallbacks = 5

// checkFallbacks lists the actions whose GPU memory the invokers of this host
// only count, because their libraries do not bear that it is moved.
func checkFallbacks(f *Snapshot) []Finding {
	dir := f.Config.State.Dir
	if dir == "" || dir == config.None || f.Files == nil {
		return nil
	}
	files, _ := fs.Glob(f.Files, path.Join(strings.TrimPrefix(dir, "/"), "*", path.Base(f.Config.State.FallbackFile("x"))))
	var all []Finding
	for _, name := range files {
		at := "/" + name
		data, err := fs.ReadFile(f.Files, name)
		var list []devices.Fallback
		if err == nil {
			list, err = devices.ReadFallbacks(data)
		}
		if err != nil {
			all = append(all, warn(at+": "+err.Error(), "let this user read it; an invoker that cannot read it begins anew")...)
			continue
		}
		if len(list) > 0 {
			all = append(all, warn(describeFallbacks(list),
				"give the action libraries that bear managed memory, or set it in its annotation (gpu: {\"shim\": \"count\"}); gpuwhisk fallbacks --clear ACTION has it tried again")...)
		}
	}
	return all
}

func describeFallbacks(list []devices.Fallback) string {
	var named []string
	for _, one := range list[:min(len(list), maxFallbacks)] {
		named = append(named, fmt.Sprintf("%s (%s)", one.Action, one.Reason))
	}
	text := fmt.Sprintf("memory of %d actions is counted and not moved: %s", len(list), strings.Join(named, "; "))
	if len(list) > maxFallbacks {
		text += "; and others (gpuwhisk fallbacks)"
	}
	return text
}

// checkImageLibc compares the C library that the shim needs with those of the
// images that were asked about.
func checkImageLibc(f *Snapshot) []Finding {
	if len(f.LibcImages) == 0 {
		return nil
	}
	if !f.usesDocker() {
		return skip("actions run as processes of this host, without images", "see the finding on the shim")
	}
	lib, err := f.library(f.shimAt())
	if err != nil {
		return warn("there is no libgpuwhisk.so to compare with images", "make shim, or name it with --shim")
	}
	parts, _ := lib.ImportedLibraries() // none: it needs nothing
	var all []Finding
	for _, ref := range slices.Sorted(maps.Keys(f.libcs)) {
		a := f.libcs[ref]
		if a.err != nil {
			all = append(all, fail(ref+": "+a.err.Error(), "docker pull "+ref)...)
			continue
		}
		all = append(all, judgeLibc(ref, a.value, glibc(lib), parts)...)
	}
	return all
}

// judgeLibc compares an image's C library with the version of glibc that the shim
// needs and the libraries that it asks for by name.
func judgeLibc(ref string, l docker.Libc, needs version, parts []string) []Finding {
	const without = "its functions run without the shim: their memory counts as reserved and is not moved"
	has := version{l.Major, l.Minor}
	lacks := slices.DeleteFunc(strings.Fields(l.Lacks), func(name string) bool { return !slices.Contains(parts, name) })
	switch {
	case l.Name == "glibc" && len(lacks) > 0:
		return fail(fmt.Sprintf("%s lacks %s, which the shim asks for: every program of it ends at its start", ref, strings.Join(lacks, " and ")),
			`copy them into the image from its distribution's package of glibc (Debian: libc6), or set {"gpu": {"shim": "off"}} in the action's annotations`)
	case l.Name == "musl":
		return warn(ref+" has musl, on which NVIDIA's driver does not work, nor the shim", "build the action's image on one with glibc, such as debian or ubuntu")
	case l.Name == "":
		return warn(ref+" has no C library in its usual places: static programs do not load the shim, and "+without, "use programs that are linked with glibc")
	case has.before(needs):
		return warn(fmt.Sprintf("%s has glibc %d.%d and the shim needs %d.%d: %s", ref, has[0], has[1], needs[0], needs[1], without),
			"use the released library, which needs 2.17: make shim with zig cc (pip install ziglang)")
	}
	return ok(fmt.Sprintf("%s has glibc %d.%d, the shim needs %d.%d", ref, has[0], has[1], needs[0], needs[1]))
}
