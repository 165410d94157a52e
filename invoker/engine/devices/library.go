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
	"strings"
	"time"
)

// LibraryName is the file name of the shim.
const LibraryName = "libgpuwhisk.so"

// driverName is the file of the driver that programs load.
const driverName = "libcuda.so.1"

// ErrUnfit means that a file cannot be preloaded as the shim.
var ErrUnfit = errors.New("not a shim for this machine")

// FindLibrary finds the shim where an installation or a build puts it:
// beside the program, below its lib directory, and in the build's directory.
// It returns "" when there is none.
func FindLibrary(self string) string {
	dir := filepath.Dir(self)
	for _, path := range []string{
		filepath.Join(dir, LibraryName),
		filepath.Join(dir, "..", "lib", "gpuwhisk", LibraryName),
		filepath.Join("build", "shim", LibraryName),
	} {
		if path, err := filepath.Abs(path); err == nil && exists(path) {
			return path
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
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
	if err := judge(file); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrUnfit, err)
	}
	return nil
}

// machine is this processor's name in a file.
func machine() elf.Machine {
	return map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
}

func judge(file *elf.File) error {
	if file.Type != elf.ET_DYN {
		return fmt.Errorf("a file of type %v, not a shared object", file.Type)
	}
	if file.Machine != machine() {
		return fmt.Errorf("built for %v, this machine is %s", file.Machine, runtime.GOARCH)
	}
	libraries, err := file.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("read what it needs: %w", err)
	}
	for _, name := range libraries {
		if strings.HasPrefix(name, "libc.musl") {
			return errors.New("built for musl; programs of the GNU C library cannot load it")
		}
	}
	return hooks(file)
}

// hooked are functions that every version of the shim has replaced.
// A library without them is another one.
func hooked() []string {
	return []string{"dlsym", "dlvsym", "cuInit", "cuGetProcAddress_v2", "cuMemAlloc_v2", "cuMemFree_v2"}
}

// Needs is the newest version of the GNU C library that a shim asks for, such
// as "2.17"; an image with an older one runs without it, and its loader reports that
// in the action's log. Empty where the file asks for none.
func Needs(path string) (string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("open shim: %w", err)
	}
	defer file.Close()
	needs, err := file.DynamicVersionNeeds()
	if err != nil {
		return "", fmt.Errorf("read what %s needs: %w", path, err)
	}
	newest, text := 0, ""
	for _, lib := range needs {
		for _, dep := range lib.Needs {
			var major, minor int
			if n, _ := fmt.Sscanf(dep.Dep, "GLIBC_%d.%d", &major, &minor); n == 2 && major*1000+minor > newest {
				newest, text = major*1000+minor, fmt.Sprintf("%d.%d", major, minor)
			}
		}
	}
	return text, nil
}

// Everywhere is the version that images of the last ten years have.
const Everywhere = "2.17"

// Newer reports whether a version of the C library is newer than that.
func Newer(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && (major > 2 || major == 2 && minor > 17)
}

func hooks(file *elf.File) error {
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("read its symbols: %w", err)
	}
	has := map[string]bool{}
	for _, s := range symbols {
		has[s.Name] = has[s.Name] || s.Section != elf.SHN_UNDEF
	}
	for _, name := range hooked() {
		if !has[name] {
			return fmt.Errorf("it does not hook %s: another library, or another version", name)
		}
	}
	return nil
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
	if file.Machine != machine() {
		return fmt.Errorf("%s in %s is for %v, this machine is %s", driverName, dir, file.Machine, runtime.GOARCH)
	}
	return nil
}
