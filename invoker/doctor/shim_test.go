package doctor

import (
	"context"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// library builds a shared library that exports some functions.
func library(t *testing.T, exports []string) []byte {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		if os.Getenv("GPUWHISK_REQUIRE_PEERS") == "1" {
			t.Fatal("no C compiler: cc is not in PATH")
		}
		t.Skip("no C compiler: cc is not in PATH")
	}
	dir := t.TempDir()
	var code strings.Builder
	for _, name := range exports {
		code.WriteString("int " + name + "(void) { return 0; }\n")
	}
	source, out := filepath.Join(dir, "l.c"), filepath.Join(dir, "l.so")
	if err := os.WriteFile(source, []byte(code.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(cc, "-shared", "-fPIC", "-fno-builtin", "-nostdlib", "-o", out, source).CombinedOutput(); err != nil {
		t.Fatalf("build library: %v\n%s", err, text)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestShimChecks(t *testing.T) {
	whole := library(t, needed())
	part := library(t, needed()[1:])
	with := func(data []byte) func(*fake) {
		return func(f *fake) {
			f.Arch = runtime.GOARCH
			f.files["lib/libgpuwhisk.so"] = text(string(data))
		}
	}
	said := func(s string, err error) func(*fake) {
		return func(f *fake) {
			with(whole)(f)
			f.Command = func(_ context.Context, env []string, name string, _ ...string) (string, error) {
				if name == "true" && !slices.Equal(env, []string{"LD_PRELOAD=/lib/libgpuwhisk.so"}) {
					t.Errorf("%s is started with %v", name, env)
				}
				return s, err
			}
		}
	}
	runTrials(t, []trial{
		{"", with(whole), "GPU/shim", OK, "/lib/libgpuwhisk.so is loaded and hooks the driver", ""},
		{"absent", nil, "GPU/shim", Warn, "is not there", "--shim"},
		{"no library", with([]byte("#!/bin/sh\n")), "GPU/shim", Fail, "is not a library", "make shim"},
		{"cut off", with(whole[:len(whole)/3]), "GPU/shim", Fail, "/lib/libgpuwhisk.so", "make shim"},
		{"another processor", func(f *fake) { with(whole)(f); f.Arch = "riscv64" }, "GPU/shim", Fail, "this host is riscv64", "processor"},
		{"another version", with(part), "GPU/shim", Fail, "does not hook dlsym", "another version"},
		{"not loaded", said("ERROR: ld.so: object cannot be preloaded", nil), "GPU/shim", Fail, "cannot be preloaded", "released library"},
		{"deadly", said("", errors.New("signal: segmentation fault")), "GPU/shim", Fail, "segmentation fault", "released library"},
	})
}

// TestNeededAreTheShimsOwn: the list follows the shim's table of functions that
// change what a program gets.
func TestNeededAreTheShimsOwn(t *testing.T) {
	table, err := os.ReadFile(filepath.Join("..", "..", "shim", "abi.def"))
	if err != nil {
		t.Fatal(err)
	}
	hooks := map[string]bool{"dlsym": true, "dlvsym": true}
	for _, m := range regexp.MustCompile(`(?m)^HOOK\(\w+, *(\w+),`).FindAllStringSubmatch(string(table), -1) {
		hooks[m[1]] = true
	}
	for _, name := range needed() {
		if !hooks[name] {
			t.Errorf("%s is needed, but the shim has no hook for it", name)
		}
	}
}

// TestRealShim: the library that this repository builds passes.
func TestRealShim(t *testing.T) {
	built := filepath.Join("..", "..", "build", "shim", "libgpuwhisk.so")
	data, err := os.ReadFile(built)
	if err != nil {
		t.Skip("the shim is not built: make -C shim")
	}
	at, err := filepath.Abs(built)
	if err != nil {
		t.Fatal(err)
	}
	f := healthy()
	f.Arch, f.Shim, f.Command = runtime.GOARCH, []string{at}, command
	f.files[strings.TrimPrefix(at, "/")] = text(string(data))
	r := Examine(t.Context(), f.Machine, time.Minute).of("GPU", "shim")
	if len(r) != 1 || r[0].Status == Fail {
		t.Errorf("%+v", r)
	}
}

func FuzzShim(f *testing.F) {
	f.Add([]byte("\x7fELF"))
	f.Add([]byte(elf.ELFMAG + "\x02\x01\x01" + strings.Repeat("\x00", 60)))
	f.Fuzz(func(t *testing.T, data []byte) {
		h := healthy()
		h.files["lib/libgpuwhisk.so"] = text(string(data))
		facts := &Facts{Machine: h.Machine}
		if found := checkShim(facts); len(found) != 1 {
			t.Errorf("%d findings", len(found))
		}
	})
}
