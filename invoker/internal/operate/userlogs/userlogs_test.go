package userlogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func config(dir string) Config {
	return Config{Dir: dir, FileSize: 100, Buffer: 1000, Log: slog.New(slog.DiscardHandler)}
}

// read returns the contents of the files, sorted by the names of the files.
func read(t *testing.T, dir string) (texts []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "userlogs-*.log"))
	check.NoError(t, err)
	slices.Sort(names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		check.NoError(t, err)
		texts = append(texts, string(text))
	}
	return texts
}

// entry is as many bytes as that.
func entry(letter string, size int) []byte { return []byte(strings.Repeat(letter, size-1) + "\n") }

// A file ends before the entry that would make it too large, and all users may
// read and cut it. An entry is in one file, however large it is.
func TestRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	f, err := New(config(dir))
	check.NoError(t, err)
	if got := read(t, dir); got != nil {
		t.Errorf("before anything is written there is %q", got)
	}
	var want []string
	for _, e := range []struct {
		letter string
		size   int
		fresh  bool
	}{{"a", 40, true}, {"b", 60, false}, {"c", 1, true}, {"d", 150, true}, {"e", 10, true}} {
		if e.fresh {
			want = append(want, "")
		}
		want[len(want)-1] += string(entry(e.letter, e.size))
		f.Write(entry(e.letter, e.size))
	}
	check.NoError(t, f.Close(t.Context()))
	check.EqualSlices(t, read(t, dir), want)
	names, _ := os.ReadDir(dir)
	for _, name := range names {
		info, err := name.Info()
		check.NoError(t, err)
		check.Equal(t, info.Mode(), 0o666, "%s", name.Name())
	}
	f.Write(entry("f", 5)) // too late, and harmless
	check.Equal(t, f.Dropped(), 1)
}

// A disk that fails blocks no caller. The entries in the buffer are written once and in
// order when the disk works again; dropped entries are counted.
func TestDiskAway(t *testing.T) {
	dir := t.TempDir()
	var away atomic.Bool
	away.Store(true)
	tried := make(chan struct{}, 100)
	f := start(config(dir), func(path string) (*os.File, error) {
		if away.Load() {
			select {
			case tried <- struct{}{}:
			default:
			}
			return nil, errors.New("no disk")
		}
		return create(path)
	})
	var want strings.Builder
	for i := range 15 {
		e := entry(fmt.Sprint(i%10), 90)
		if f.Write(e); i < 11 {
			want.Write(e)
		}
	}
	<-tried
	<-tried // it has failed once, and tries again
	check.Contains(t, f.Trouble(), "no disk")
	check.Equal(t, f.Dropped(), 4)
	away.Store(false)
	check.NoError(t, f.Close(t.Context()))
	check.Equal(t, strings.Join(read(t, dir), ""), want.String())
	check.Equal(t, f.Trouble(), "")
}

// Close does not wait for a disk that still fails, and reports the unwritten entries.
func TestEndWithoutDisk(t *testing.T) {
	f := start(config(t.TempDir()), func(string) (*os.File, error) { return nil, errors.New("no disk") })
	f.Write(entry("a", 10))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	check.ErrorContains(t, f.Close(ctx), "1 activations")
}

// A file never holds a part of an entry, on a disk that is full in the middle of
// one.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small disk takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(dir, "filler")
	check.NoError(t, os.WriteFile(filler, make([]byte, 40<<10), 0o600))
	cfg := config(dir)
	cfg.FileSize, cfg.Buffer = 1<<20, 1<<20
	full := make(chan struct{}, 100)
	cfg.Log = slog.New(slog.NewTextHandler(writer(func(line []byte) {
		if bytes.Contains(line, []byte("interrupted")) {
			full <- struct{}{}
		}
	}), nil))
	f, err := New(cfg)
	check.NoError(t, err)
	first, second := entry("a", 10<<10), entry("b", 30<<10)
	f.Write(first)
	f.Write(second)
	<-full
	got := read(t, dir)
	check.AtLeast(check.Must(t), len(got), 1, "files on a full disk")
	check.That(t, got[0] == string(first), "the first file on a full disk has %d bytes", len(got[0]))
	check.NoError(t, os.Remove(filler))
	check.NoError(t, f.Close(t.Context()))
	got = read(t, dir)
	check.Equal(check.Must(t), len(got), 2)
	check.That(t, got[0] == string(first), "the first file has %d bytes", len(got[0]))
	check.That(t, got[1] == string(second), "the second file has %d bytes", len(got[1]))
}

type writer func(line []byte)

func (w writer) Write(line []byte) (int, error) { w(line); return len(line), nil }

// A directory that cannot be made is an error at the start.
func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	check.NoError(t, os.WriteFile(file, nil, 0o600))
	if _, err := New(config(filepath.Join(file, "below"))); err == nil {
		t.Error("it starts")
	}
}
