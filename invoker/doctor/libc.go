package doctor

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/docker"
)

// checkImageLibc holds the C library that the shim needs against those of the
// images that were asked about.
func checkImageLibc(f *Facts) []Finding {
	if len(f.LibcImages) == 0 {
		return nil
	}
	if !f.usesDocker() {
		return one(skip("actions run as processes of this host, without images", "see the finding on the shim"))
	}
	needs, at := f.shimNeeds()
	if at == "" {
		return one(warn("there is no libgpuwhisk.so to hold against images", "make shim, or name it with --shim"))
	}
	var all []Finding
	for _, ref := range slices.Sorted(maps.Keys(f.libcs)) {
		a := f.libcs[ref]
		if a.err != nil {
			all = append(all, fail(ref+": "+a.err.Error(), "docker pull "+ref))
			continue
		}
		all = append(all, judgeLibc(ref, a.value, needs, f.shimParts(at)))
	}
	return all
}

// shimNeeds is the version of glibc that the library needs, and where it is.
func (f *Facts) shimNeeds() (version, string) {
	at := f.shimAt()
	if at == "" {
		return version{}, ""
	}
	lib := f.shimFile(at)
	if lib == nil {
		return version{}, ""
	}
	return glibc(lib), at
}

// shimParts are the libraries that the shim asks for by name.
func (f *Facts) shimParts(at string) []string {
	parts, _ := f.shimFile(at).ImportedLibraries() // none: it needs nothing
	return parts
}

// shimFile is the library, nil if it cannot be read.
func (f *Facts) shimFile(at string) *elf.File {
	data, err := fs.ReadFile(f.Files, strings.TrimPrefix(at, "/"))
	if err != nil {
		return nil
	}
	lib, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	return lib
}

// judgeLibc holds an image's C library against the version of glibc that the shim
// needs and the libraries that it asks for by name.
func judgeLibc(ref string, l docker.Libc, needs version, parts []string) Finding {
	const without = "its functions run without the shim: their memory counts as reserved and is not moved"
	has := version{l.Major, l.Minor}
	lacks := slices.DeleteFunc(strings.Fields(l.Lacks), func(name string) bool { return !slices.Contains(parts, name) })
	switch {
	case l.Name == "glibc" && len(lacks) > 0:
		return fail(fmt.Sprintf("%s lacks %s, which the shim asks for: every program of it ends at its start", ref, strings.Join(lacks, " and ")),
			`copy them into the image from its distribution's package of glibc (Debian: libc6), or say {"gpu": {"shim": "off"}} in the action's annotations`)
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
