package devices

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// changed writes a copy of a file with one text for another of the same
// length.
func changed(t *testing.T, path, from, to string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if from != "" && (len(from) != len(to) || !bytes.Contains(data, []byte(from))) {
		t.Fatalf("%q is not to be replaced by %q", from, to)
	}
	out := filepath.Join(t.TempDir(), LibraryName)
	if err := os.WriteFile(out, bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o755); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCheckLibrary(t *testing.T) {
	dir := shimDir(t)
	good := filepath.Join(dir, LibraryName)
	// The processor is a number at byte 18 of the file.
	other := changed(t, good, "", "")
	data, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	data[18], data[19] = 8, 0 // MIPS
	if err := os.WriteFile(other, data, 0o755); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), LibraryName)
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, path, want string }{
		{"absent", filepath.Join(dir, "none.so"), "no such file"},
		{"a directory", dir, ""},
		{"a text", text, "not a shared object"},
		{"empty", os.DevNull, "not a shared object"},
		{"another processor", other, "built for EM_MIPS"},
		{"musl", changed(t, good, "libc.so.6", "libc.musl"), "built for musl"},
		{"an object file", filepath.Join(dir, "resolve.o"), "not a shared object"},
		{"another library", filepath.Join(dir, "fake12", driverName), "does not hook dlsym"},
		{"another version", changed(t, good, "\x00cuMemFree_v2\x00", "\x00cuMemFree_v9\x00"), "does not hook cuMemFree_v2"},
	} {
		err := CheckLibrary(c.path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
		if unfit := errors.Is(err, ErrUnfit); unfit == errors.As(err, new(*os.PathError)) {
			t.Errorf("%s: unfit %t: %v", c.what, unfit, err)
		}
	}
	if err := CheckLibrary(good); err != nil {
		t.Error(err)
	}
}

// An unreadable file is reported as such. The superuser reads everything.
func TestUnreadableLibrary(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("the superuser may read every file")
	}
	path := changed(t, filepath.Join(shimDir(t), LibraryName), "", "")
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := CheckLibrary(path); !errors.Is(err, os.ErrPermission) {
		t.Error(err)
	}
}

// The loader decides: what it leaves out, and what ends a program.
func TestTryLibrary(t *testing.T) {
	dir := shimDir(t)
	if err := TryLibrary(t.Context(), filepath.Join(dir, LibraryName)); err != nil {
		t.Error(err)
	}
	text := filepath.Join(t.TempDir(), LibraryName)
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	newer := changed(t, filepath.Join(dir, LibraryName), "libc.so.6", "libc.so.7") // of a system to come
	for _, path := range []string{text, newer} {
		if err := TryLibrary(t.Context(), path); !errors.Is(err, ErrUnfit) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// What is found is what a build or an installation leaves.
func TestFindLibrary(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	self := filepath.Join(root, "bin", "gpuwhisk")
	if found := FindLibrary(self); found != "" {
		t.Errorf("found %s where there is none", found)
	}
	for _, key := range []string{"build/shim", "lib/gpuwhisk", "bin"} { // the better come later
		path := filepath.Join(root, key, LibraryName)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if found := FindLibrary(self); found != path {
			t.Errorf("found %q, want %s", found, path)
		}
	}
}

func TestCheckDriver(t *testing.T) {
	dir := shimDir(t)
	if err := CheckDriver(filepath.Join(dir, "fake12")); err != nil {
		t.Error(err)
	}
	if err := CheckDriver(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no driver: %v", err)
	}
}

// A process of the guest's kind is what TryLibrary starts; without one there is
// nothing to try.
func TestTryLibraryWithoutProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := exec.LookPath("true"); err == nil {
		t.Fatal("there is a program after all")
	}
	if err := TryLibrary(t.Context(), "/none.so"); err != nil {
		t.Error(err)
	}
}

// TestNeeds: a library names the C library that it needs; what is none names nothing.
func TestNeeds(t *testing.T) {
	b := open(t, nil)
	got, err := Needs(b.options.Library)
	if err != nil || !regexp.MustCompile(`^2\.\d+$`).MatchString(got.String()) {
		t.Errorf("%q, %v, want a version of glibc", got, err)
	}
	for version, newer := range map[Glibc]bool{{2, 34}: true, {2, 18}: true, {3, 0}: true, Everywhere: false, {2, 4}: false, {}: false} {
		if Everywhere.Before(version) != newer {
			t.Errorf("%v is newer than %v: %t", version, Everywhere, !newer)
		}
	}
	if _, err := Needs(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there has needs")
	}
}
