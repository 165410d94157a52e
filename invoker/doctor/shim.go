package doctor

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// needed are the functions that the shim takes the place of in any case: the
// ways to find functions, and the ones that change what a program gets. A
// program that reaches the driver past one of them is not seen.
func needed() []string {
	return []string{
		"dlsym", "dlvsym", "cuGetProcAddress", "cuGetProcAddress_v2", "cuInit",
		"cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocManaged", "cuMemFree_v2", "cuMemGetInfo_v2",
	}
}

// oldestGlibc is that of the oldest images that the shim is loaded into. The
// loader leaves out a library that needs a newer one.
var oldestGlibc = version{2, 17}

func checkShim(f *Facts) []Finding {
	at := ""
	for _, name := range f.Shim {
		if f.exists(strings.TrimPrefix(name, "/")) {
			at = name
			break
		}
	}
	if at == "" {
		if !f.hasDriver() && f.Config.GPU.SimulatedDevices == 0 {
			return nil
		}
		return one(warn("libgpuwhisk.so is not there: memory of GPU actions is neither measured nor swapped",
			"make shim, or name it with --shim"))
	}
	data, err := fs.ReadFile(f.Files, strings.TrimPrefix(at, "/"))
	if err != nil {
		return one(fail("read "+at+": "+err.Error(), "let this user read it"))
	}
	lib, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return one(fail(at+" is not a library: "+err.Error(), "build it again with make shim"))
	}
	if x := f.judgeLibrary(at, lib); x.Status != OK {
		return one(x)
	}
	return one(f.preload(at, lib))
}

// judgeLibrary looks at what the file says of itself.
func (f *Facts) judgeLibrary(at string, lib *elf.File) Finding {
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[f.Arch]
	if lib.Machine != machine {
		return fail(fmt.Sprintf("%s is for %v, this host is %s", at, lib.Machine, f.Arch), "use the library of this processor")
	}
	symbols, err := lib.DynamicSymbols()
	if err != nil {
		return fail("read the symbols of "+at+": "+err.Error(), "build it again with make shim")
	}
	exported := map[string]bool{}
	for _, s := range symbols {
		exported[s.Name] = s.Section != elf.SHN_UNDEF
	}
	var missing []string
	for _, name := range needed() {
		if !exported[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fail(at+" does not hook "+strings.Join(missing, ", "), "it is of another version: build it again with make shim")
	}
	return ok("")
}

// preload starts a program with the library before all others: the loader says
// on the program's error output what it does not like.
func (f *Facts) preload(at string, lib *elf.File) Finding {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	said, err := f.Command(ctx, []string{"LD_PRELOAD=" + at}, "true")
	const mend = "use the released library, or build it on this host with make shim"
	switch {
	case err != nil:
		return fail(at+": a program that it is loaded into ends: "+err.Error()+" "+said, mend)
	case strings.TrimSpace(said) != "":
		return fail(at+" is not loaded: "+said, mend)
	}
	text := fmt.Sprintf("%s is loaded and hooks the driver", at)
	if v := glibc(lib); oldestGlibc.before(v) {
		return warn(fmt.Sprintf("%s, but needs glibc %d.%d: in images with an older one functions run without it", text, v[0], v[1]),
			"use the released library, which needs 2.17")
	}
	return ok(text)
}

// glibc is the newest version of the C library that a library needs.
func glibc(lib *elf.File) version {
	symbols, _ := lib.ImportedSymbols() // none: it needs nothing
	var newest version
	for _, s := range symbols {
		if number, ok := strings.CutPrefix(s.Version, "GLIBC_"); ok {
			if v, ok := findVersion(number); ok && slices.Compare(newest[:], v[:]) < 0 {
				newest = v
			}
		}
	}
	return newest
}
