package doctor

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
)

// libraryOf builds a shared library that exports some functions.
func libraryOf(t *testing.T, exports ...string) []byte {
	t.Helper()
	cc := peertest.Tool(t, "cc")
	dir := t.TempDir()
	var code strings.Builder
	for _, name := range exports {
		code.WriteString("int " + name + "(void) { return 0; }\n")
	}
	source, out := filepath.Join(dir, "l.c"), filepath.Join(dir, "l.so")
	check.NoError(t, os.WriteFile(source, []byte(code.String()), 0o600))
	if text, err := exec.Command(cc, "-shared", "-fPIC", "-fno-builtin", "-nostdlib", "-o", out, source).CombinedOutput(); err != nil {
		t.Fatalf("build library: %v\n%s", err, text)
	}
	data, err := os.ReadFile(out)
	check.NoError(t, err)
	return data
}

func TestShimChecks(t *testing.T) {
	all := libraryOf(t, devices.Hooks()...)
	part := libraryOf(t, devices.Hooks()[1:]...)
	object := slices.Clone(all)
	object[16] = byte(elf.ET_REL) // the file's type
	with := func(data []byte) func(*fake) {
		return func(f *fake) {
			f.Arch = runtime.GOARCH
			f.files["lib/libgpuwhisk.so"] = text(string(data))
		}
	}
	output := func(s string, err error) func(*fake) {
		return func(f *fake) {
			with(all)(f)
			f.Command = func(_ context.Context, env []string, name string, _ ...string) (string, error) {
				if name == "true" && !slices.Equal(env, []string{"LD_PRELOAD=/lib/libgpuwhisk.so"}) {
					t.Errorf("%s is started with %v", name, env)
				}
				return s, err
			}
		}
	}
	tried := func(t Tried, err error) func(*fake) {
		return func(f *fake) { with(all)(f); f.tried, f.triedErr = t, err }
	}
	runTrials(t, []trial{
		{"", with(all), "GPU/shim", OK, "/lib/libgpuwhisk.so is loaded and hooks the driver: 4 MiB of a program were counted, 4 MiB moved off the device and 4 MiB back", ""},
		{"not tried", tried(Tried{}, fmt.Errorf("%w: no python3 here", errNothingToTry)), "GPU/shim", OK, "they were not tried: no python3 here", ""},
		{"not seen", tried(Tried{}, errors.New("the shim does not report its memory")), "GPU/shim", Fail, "uses CUDA under it: the shim does not report", "docs/shim.md"},
		{"done without", func(f *fake) { f.Config.GPU.Shim.Library = "none" }, "GPU/shim", Warn, "switched off", "unset it"},
		{"absent", nil, "GPU/shim", Warn, "does not exist", "--shim"},
		{"no library", with([]byte("#!/bin/sh\n")), "GPU/shim", Fail, "is not a library", "make shim"},
		{"cut off", with(all[:len(all)/3]), "GPU/shim", Fail, "/lib/libgpuwhisk.so", "make shim"},
		{"another processor", func(f *fake) { with(all)(f); f.Arch = "riscv64" }, "GPU/shim", Fail, "this host is riscv64", "processor"},
		{"not shared", with(object), "GPU/shim", Fail, "not a shared object", "make shim"},
		{"another version", with(part), "GPU/shim", Fail, "does not hook dlsym", "another version"},
		{"not loaded", output("ERROR: ld.so: object cannot be preloaded", nil), "GPU/shim", Fail, "cannot be preloaded", "released library"},
		{"deadly", output("", errors.New("signal: segmentation fault")), "GPU/shim", Fail, "segmentation fault", "released library"},
	})
}

// TestHooksAreTheShimsOwn: the list equals the functions in the shim's table that change
// a program's results.
func TestHooksAreTheShimsOwn(t *testing.T) {
	table, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shim", "abi.def"))
	check.NoError(t, err)
	hooks := map[string]bool{"dlsym": true, "dlvsym": true}
	for _, m := range regexp.MustCompile(`(?m)^(?:HOOK|AFTER|TAKES|GIVES|NODE)\(\w+, *(\w+),`).FindAllStringSubmatch(string(table), -1) {
		hooks[m[1]] = true
	}
	for _, name := range devices.Hooks() {
		if !hooks[name] {
			t.Errorf("%s is needed, but the shim has no hook for it", name)
		}
	}
}

func built(t *testing.T) (library, driver string) {
	t.Helper()
	dir := shimtest.Build(t)
	return filepath.Join(dir, "libgpuwhisk.so"), filepath.Join(dir, "fake12")
}

// TestRealShim: the library that this repository builds passes, and the trial runs on
// the fake driver beside it.
func TestRealShim(t *testing.T) {
	at, driver := built(t)
	data, err := os.ReadFile(at)
	check.NoError(t, err)
	f := healthy()
	noGPU(f)
	f.Arch, f.Shim, f.Command, f.Hooks = runtime.GOARCH, []string{at}, command, patientHooks
	f.files[strings.TrimPrefix(at, "/")] = text(string(data))
	f.files[strings.TrimPrefix(driver, "/")+"/libcuda.so.1"] = text("")
	x := Examine(t.Context(), f.Machine, time.Minute).only(t, "GPU", "shim")
	check.That(t, x.Status != Fail, "%+v", x)
	check.Contains(t, x.Found, "4 MiB moved off the device and 4 MiB back")
}

func patientHooks(ctx context.Context, library, driver string) (Tried, error) {
	return tryHooks(ctx, time.Minute, library, driver)
}

// TestTryHooks: the error names the reason why the trial is impossible.
func TestTryHooks(t *testing.T) {
	library, driver := built(t)
	empty := t.TempDir()
	t.Run("a library that hooks nothing", func(t *testing.T) {
		other := filepath.Join(empty, "other.so")
		check.NoError(t, os.WriteFile(other, libraryOf(t, "nothing"), 0o700))
		_, err := tryHooks(t.Context(), 300*time.Millisecond, other, driver)
		check.ErrorContains(t, err, "does not report")
	})
	t.Run("a driver that refuses", func(t *testing.T) {
		t.Setenv("FAKE_CUDA_FAIL", "cuMemAllocManaged:0:2,cuMemAlloc_v2:0:2")
		_, err := patientHooks(t.Context(), library, driver)
		check.ErrorContains(t, err, "cuMemAlloc_v2 answers 2")
	})
	t.Run("an eviction that fails", func(t *testing.T) {
		t.Setenv("FAKE_CUDA_FAIL", "cuMemPrefetchAsync_v2:0:1,cuMemPrefetchAsync:0:1")
		_, err := patientHooks(t.Context(), library, driver)
		check.ErrorContains(t, err, "move memory off the device")
	})
	t.Run("no driver", func(t *testing.T) {
		if _, err := exec.Command("python3", "-c", `import ctypes; ctypes.CDLL("libcuda.so.1")`).CombinedOutput(); err == nil {
			t.Skip("this machine has a CUDA driver")
		}
		if _, err := patientHooks(t.Context(), library, ""); !errors.Is(err, errNothingToTry) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no Python", func(t *testing.T) {
		t.Setenv("PATH", empty)
		if _, err := patientHooks(t.Context(), library, driver); !errors.Is(err, errNothingToTry) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("given up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := patientHooks(ctx, library, driver); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestSocketChecks(t *testing.T) {
	with := func(change func(*fake)) func(*fake) {
		return func(f *fake) {
			f.files["lib/libgpuwhisk.so"] = text("")
			change(f)
		}
	}
	inside := func(mounts string) func(*fake) {
		return with(func(f *fake) {
			f.files[".dockerenv"] = text("")
			f.files["proc/self/mountinfo"] = text("1 0 0:1 / / rw - overlay overlay rw\n" + mounts)
		})
	}
	runTrials(t, []trial{
		{"", with(func(*fake) {}), "GPU/shim sockets", OK, "below /var/run/gpuwhisk, with paths of 50 of 107 bytes", ""},
		{"too long", with(func(f *fake) { f.Config.GPU.Shim.Dir = "/" + strings.Repeat("x", 80) }), "GPU/shim sockets", Fail, "the kernel takes 107", "CONFIG_whisk_gpu_shim_dir"},
		{"a long name", with(func(f *fake) { f.Config.Identity.UniqueName = strings.Repeat("x", 80) }), "GPU/shim sockets", OK, "below /tmp/gpuwhisk-", ""},
		{"signs that names of containers lack", with(func(f *fake) { f.Config.Identity.UniqueName = strings.Repeat("/", 80) }), "GPU/shim sockets", OK, "below /var/run/gpuwhisk, with paths of 50 of 107 bytes", ""},
		{"a long name in a container", func(f *fake) {
			inside("3 1 0:3 /y /run/gpuwhisk rw - tmpfs tmpfs rw\n")(f)
			f.Config.Identity.UniqueName = strings.Repeat("x", 80)
		}, "GPU/shim sockets", Fail, "/tmp/gpuwhisk-", "--volume /tmp/gpuwhisk-"},
		{"in a container", inside(""), "GPU/shim sockets", Fail, "/var/run/gpuwhisk is inside this container", "--volume"},
		{"in a container, mounted", inside("3 1 0:3 /y /run/gpuwhisk rw - tmpfs tmpfs rw\n"), "GPU/shim sockets", OK, "below /var/run/gpuwhisk", ""},
	})
}

func TestJudgeLibc(t *testing.T) {
	needs := devices.Glibc{2, 34}
	for _, c := range []struct {
		has  docker.Libc
		want Status
		text string
	}{
		{docker.Libc{Name: "glibc", Major: 2, Minor: 36}, OK, "glibc 2.36, the shim needs 2.34"},
		{docker.Libc{Name: "glibc", Major: 2, Minor: 34}, OK, "2.34"},
		{docker.Libc{Name: "glibc", Major: 2, Minor: 28}, Warn, "has glibc 2.28 and the shim needs 2.34"},
		{docker.Libc{Name: "musl"}, Warn, "has musl"},
		{docker.Libc{}, Warn, "static programs"},
		{docker.Libc{Name: "glibc", Major: 2, Minor: 36, Lacks: "libpthread.so.0 libdl.so.2"}, Fail, "lacks libpthread.so.0, which"},
		{docker.Libc{Name: "glibc", Major: 2, Minor: 36, Lacks: "libdl.so.2"}, OK, "2.36"},
	} {
		x := judgeLibc("i:1", c.has, needs, []string{"libpthread.so.0", "libc.so.6"})[0]
		check.Equal(t, x.Status, c.want, "%+v", c.has)
		check.Contains(t, x.Found, c.text, "%+v", c.has)
	}
}

func TestFallbacks(t *testing.T) {
	remember := func(output string) func(*fake) {
		return func(f *fake) {
			f.Config.State.Dir = "/var/lib/gpuwhisk"
			f.files["var/lib/gpuwhisk/invoker0/gpu-fallbacks.json"] = text(output)
		}
	}
	six := "[" + strings.TrimSuffix(strings.Repeat(`{"action":"guest/f","reason":"why"},`, 6), ",") + "]"
	runTrials(t, []trial{
		{"one", remember(`[{"action":"guest/f","reason":"a kernel failed"}]`), "GPU/fallbacks", Warn, "1 actions is counted but not moved: guest/f (a kernel failed)", "DELETE /fallbacks"},
		{"many", remember(six), "GPU/fallbacks", Warn, "6 actions", "DELETE /fallbacks"},
		{"broken", remember(`{`), "GPU/fallbacks", Warn, "gpu-fallbacks.json", "read it"},
	})
}

func FuzzShim(f *testing.F) {
	f.Add([]byte("\x7fELF"))
	f.Add([]byte(elf.ELFMAG + "\x02\x01\x01" + strings.Repeat("\x00", 60)))
	f.Fuzz(func(t *testing.T, data []byte) {
		h := healthy()
		h.files["lib/libgpuwhisk.so"] = text(string(data))
		if found := checkShim(&snapshot{Machine: h.Machine, ctx: t.Context()}); len(found) != 1 {
			t.Errorf("%d findings", len(found))
		}
	})
}
