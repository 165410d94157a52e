package doctor

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"path"
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

// shimAt is where the library is, empty if it is nowhere.
func (f *Facts) shimAt() string {
	for _, name := range f.Shim {
		if f.exists(strings.TrimPrefix(name, "/")) {
			return name
		}
	}
	return ""
}

// wantsShim tells whether GPU actions run with it here.
func (f *Facts) wantsShim() bool {
	return f.hasDriver() || f.Config.GPU.SimulatedDevices > 0
}

// tryShim has a program use CUDA under the library, on the host's own driver
// or, where there is none, the fake one that is built beside the library.
func (f *Facts) tryShim(ctx context.Context) (Tried, error) {
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

func checkShim(f *Facts) []Finding {
	if f.Config.GPU.Shim.Library == noShim {
		return one(warn("done without by whisk.gpu.shim.library: memory of GPU actions is neither measured nor swapped",
			"unset it, or name the library in it"))
	}
	at := f.shimAt()
	if at == "" {
		if !f.wantsShim() {
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
	const fix = "use the released library, or build it on this host with make shim"
	switch {
	case err != nil:
		return fail(at+": a program that it is loaded into ends: "+err.Error()+" "+said, fix)
	case strings.TrimSpace(said) != "":
		return fail(at+" is not loaded: "+said, fix)
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

// hooked says what came of the program that used CUDA under the library.
func (f *Facts) hooked(at string) (string, error) {
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
