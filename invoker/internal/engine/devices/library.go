package devices

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// LibraryName is the file name of the shim.
const LibraryName = "libgpuwhisk.so"

// driverName is the file of the driver that programs load.
const driverName = "libcuda.so.1"

// ErrUnfit means that a file cannot be preloaded as the shim.
var ErrUnfit = errors.New("not a shim for this machine")

// LibraryPaths are where an installation or a build puts the shim: beside the
// program, below its lib directory, and in the build's directory.
func LibraryPaths(self string) []string {
	dir := filepath.Dir(self)
	paths := []string{
		filepath.Join(dir, LibraryName),
		filepath.Join(dir, "..", "lib", "gpuwhisk", LibraryName),
		filepath.Join("build", "shim", LibraryName),
	}
	for i, p := range paths {
		if absolute, err := filepath.Abs(p); err == nil {
			paths[i] = absolute
		}
	}
	return paths
}

// FindLibrary returns the first of LibraryPaths that exists, or "".
func FindLibrary(self string) string {
	for _, path := range LibraryPaths(self) {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// CheckLibrary reports whether a file can be loaded into programs here: a shared
// object for this processor and the GNU C library that replaces the
// functions that the shim must.
func CheckLibrary(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		if errors.As(err, new(*os.PathError)) {
			return fmt.Errorf("open shim: %w", err)
		}
		return fmt.Errorf("%s: %w: not a shared object: %w", path, ErrUnfit, err)
	}
	defer file.Close()
	if err := CheckELF(file, runtime.GOARCH); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrUnfit, err)
	}
	return nil
}

// ErrProcessor means that a file is for another processor.
var ErrProcessor = errors.New("another processor")

// ofProcessor compares the processor of a file with this one, as Go names it.
func ofProcessor(file *elf.File, arch string) error {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	if file.Machine != machines[arch] {
		return fmt.Errorf("%w: built for %v, this host is %s", ErrProcessor, file.Machine, arch)
	}
	return nil
}

// CheckELF reports the faults of a library that shall be the shim on a processor.
func CheckELF(file *elf.File, arch string) error {
	if file.Type != elf.ET_DYN {
		return fmt.Errorf("a file of type %v, not a shared object", file.Type)
	}
	if err := ofProcessor(file, arch); err != nil {
		return err
	}
	libraries, err := file.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("read its requirements: %w", err)
	}
	for _, name := range libraries {
		if strings.HasPrefix(name, "libc.musl") {
			return errors.New("built for musl; programs of the GNU C library cannot load it")
		}
	}
	switch missing, err := missingHooks(file); {
	case err != nil:
		return fmt.Errorf("read its symbols: %w", err)
	case len(missing) > 0:
		return fmt.Errorf("it does not hook %s: another library, or another version", strings.Join(missing, ", "))
	}
	return nil
}

// Hooks are the functions that the shim replaces in any case: the ways to find
// functions, and the ones that change what a program gets. A program that calls the
// driver past one of them is not counted.
func Hooks() []string {
	return []string{
		"dlsym", "dlvsym", "cuGetProcAddress", "cuGetProcAddress_v2", "cuInit",
		"cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocManaged", "cuMemFree_v2", "cuMemGetInfo_v2",
	}
}

// missingHooks lists the functions that a library does not replace.
func missingHooks(file *elf.File) ([]string, error) {
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	missing := Hooks()
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == s.Name })
		}
	}
	return missing, nil
}

// Glibc is a version of the GNU C library; 0.0 is none.
type Glibc [2]int

// MinGlibc is the version that images of the last ten years have.
var MinGlibc = Glibc{2, 17}

// Before reports whether a version is older than another.
func (g Glibc) Before(other Glibc) bool { return slices.Compare(g[:], other[:]) < 0 }

// String is the version as in 2.17.
func (g Glibc) String() string { return fmt.Sprintf("%d.%d", g[0], g[1]) }

// NeededGlibc is the newest version that a library asks for: an image with an older
// one runs without it, and its loader reports that in the action's log.
func NeededGlibc(file *elf.File) (newest Glibc, err error) {
	needs, err := file.DynamicVersionNeeds()
	for _, lib := range needs {
		for _, dep := range lib.Needs {
			var g Glibc
			if n, _ := fmt.Sscanf(dep.Dep, "GLIBC_%d.%d", &g[0], &g[1]); n == 2 && newest.Before(g) {
				newest = g
			}
		}
	}
	return newest, err
}

// Needs is that of the library in a file.
func Needs(path string) (Glibc, error) {
	file, err := elf.Open(path)
	if err != nil {
		return Glibc{}, fmt.Errorf("open shim: %w", err)
	}
	defer file.Close()
	newest, err := NeededGlibc(file)
	if err != nil {
		return Glibc{}, fmt.Errorf("read the requirements of %s: %w", path, err)
	}
	return newest, nil
}

// tryTime bounds the program that is started for a try.
const tryTime = 10 * time.Second

// TryLibrary starts a small program with the shim, as action processes of this
// machine will be: the loader of another C library, or of an older one, ends
// them or leaves the shim out, and prints that. Where there is no such program
// nothing is tried.
func TryLibrary(ctx context.Context, path string) error {
	program, err := exec.LookPath("true")
	if err != nil {
		return nil //nolint:nilerr // nothing to try it with
	}
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = []string{"LD_PRELOAD=" + path}
	out, err := cmd.CombinedOutput()
	output := string(bytes.TrimSpace(out))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w: a program that loads it ends: %w: %s", path, ErrUnfit, err, output)
	case output != "":
		return fmt.Errorf("%s: %w: %s", path, ErrUnfit, output)
	}
	return nil
}

// CheckDriver reports whether a directory holds a driver that programs of this
// machine can load instead of the real one.
func CheckDriver(dir string) error {
	file, err := elf.Open(filepath.Join(dir, driverName))
	if err != nil {
		return fmt.Errorf("open driver: %w", err)
	}
	defer file.Close()
	if err := ofProcessor(file, runtime.GOARCH); err != nil {
		return fmt.Errorf("%s in %s: %w", driverName, dir, err)
	}
	return nil
}
