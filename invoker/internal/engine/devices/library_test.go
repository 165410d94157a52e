package devices

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// changed writes a copy of a file with one text for another of the same
// length.
func changed(t *testing.T, path, from, to string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	check.NoError(t, err)
	if from != "" {
		check.Equal(check.Must(t), len(from), len(to), "%q for %q", to, from)
		check.That(check.Must(t), bytes.Contains(data, []byte(from)), "%q", from)
	}
	out := filepath.Join(t.TempDir(), LibraryName)
	check.NoError(t, os.WriteFile(out, bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o755))
	return out
}

func TestCheckLibrary(t *testing.T) {
	dir := shimDir(t)
	good := filepath.Join(dir, LibraryName)
	// The processor is a number at byte 18 of the file.
	other := changed(t, good, "", "")
	data, err := os.ReadFile(other)
	check.NoError(t, err)
	data[18], data[19] = 8, 0 // MIPS
	check.NoError(t, os.WriteFile(other, data, 0o755))
	text := filepath.Join(t.TempDir(), LibraryName)
	check.NoError(t, os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755))
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
		check.ErrorContains(check.Must(t), err, c.want, "%s", c.what)
		check.ErrorContains(t, err, c.path, "%s", c.what)
		unfit := errors.Is(err, ErrUnfit)
		check.That(t, unfit != errors.As(err, new(*os.PathError)), "%s: unfit %t: %v", c.what, unfit, err)
	}
	check.NoError(t, CheckLibrary(good))
}

// An unreadable file is reported as such. The superuser reads everything.
func TestUnreadableLibrary(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("the superuser may read every file")
	}
	path := changed(t, filepath.Join(shimDir(t), LibraryName), "", "")
	check.NoError(t, os.Chmod(path, 0))
	check.ErrorIs(t, CheckLibrary(path), os.ErrPermission)
}

// The loader decides which library it leaves out, and which one ends a program.
func TestTryLibrary(t *testing.T) {
	dir := shimDir(t)
	check.NoError(t, TryLibrary(t.Context(), filepath.Join(dir, LibraryName)))
	text := filepath.Join(t.TempDir(), LibraryName)
	check.NoError(t, os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755))
	newer := changed(t, filepath.Join(dir, LibraryName), "libc.so.6", "libc.so.7") // of a system to come
	for _, path := range []string{text, newer} {
		check.ErrorIs(t, TryLibrary(t.Context(), path), ErrUnfit, "%s", path)
	}
}

// The library is found where a build or an installation leaves it.
func TestFindLibrary(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	self := filepath.Join(root, "bin", "gpuwhisk")
	check.Equal(t, FindLibrary(self), "")
	for _, key := range []string{"build/shim", "lib/gpuwhisk", "bin"} { // the better come later
		path := filepath.Join(root, key, LibraryName)
		check.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check.NoError(t, os.WriteFile(path, nil, 0o644))
		check.Equal(t, FindLibrary(self), path)
	}
}

func TestCheckDriver(t *testing.T) {
	dir := shimDir(t)
	check.NoError(t, CheckDriver(filepath.Join(dir, "fake12")))
	check.ErrorIs(t, CheckDriver(dir), os.ErrNotExist, "no driver")
}

// TryLibrary starts a process of the guest's kind; without one there is
// nothing to try.
func TestTryLibraryWithoutProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := exec.LookPath("true")
	check.That(check.Must(t), err != nil, "there is a program after all")
	check.NoError(t, TryLibrary(t.Context(), "/none.so"))
}

// TestNeeds: a library names the C library that it needs; another file names none.
func TestNeeds(t *testing.T) {
	b := open(t, nil)
	got, err := Needs(b.options.Library)
	check.NoError(t, err)
	check.That(t, regexp.MustCompile(`^2\.\d+$`).MatchString(got.String()), "%q as a version of glibc", got)
	for version, newer := range map[Glibc]bool{{2, 34}: true, {2, 18}: true, {3, 0}: true, MinGlibc: false, {2, 4}: false, {}: false} {
		check.Equal(t, MinGlibc.Before(version), newer, "%v is newer than %v", version, MinGlibc)
	}
	if _, err := Needs(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there has needs")
	}
	_, err = Needs(filepath.Join(t.TempDir(), "none"))
	check.That(t, err != nil, "a file that is not there has needs")
}
