package wal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// open opens a log and returns its entries.
func open(t testing.TB, cfg Config) (*Log, []string) {
	t.Helper()
	var got []string
	l, err := Open(cfg, func(_ Position, payload []byte) { got = append(got, string(payload)) })
	check.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, got
}

func entry(i int) string { return fmt.Sprintf("entry %04d", i) }

func entries(n int) []string {
	var all []string
	for i := range n {
		all = append(all, entry(i))
	}
	return all
}

// fill writes entries to a log in a new directory and closes it.
func fill(t testing.TB, n, segmentBytes int) (dir string, files []string) {
	t.Helper()
	dir = t.TempDir()
	l, _ := open(t, Config{Dir: dir, SegmentBytes: segmentBytes, Sync: SyncNone})
	for i := range n {
		l.Append([]byte("entry "), fmt.Appendf(nil, "%04d", i))
	}
	check.NoError(t, l.Close())
	files, _ = filepath.Glob(filepath.Join(dir, "*."+format))
	slices.Sort(files)
	return dir, files
}

func TestWrittenIsRead(t *testing.T) {
	for s := range Syncs() {
		t.Run(Sync(s).String(), func(t *testing.T) {
			cfg := Config{Dir: t.TempDir(), SegmentBytes: 200, Sync: Sync(s), SyncEvery: time.Millisecond}
			l, got := open(t, cfg)
			var positions []Position
			for i := range 50 {
				r := l.Append([]byte(entry(i)), nil)
				check.NoError(t, r.Wait())
				positions = append(positions, r.Position)
			}
			for i, p := range positions {
				got, err := l.Read(p)
				check.NoError(t, err, "entry %d: %q", i, got)
				check.Equal(t, string(got), entry(i), "entry %d", i)
			}
			check.Equal(t, len(got), 0, "new log holds")
			check.AtLeast(t, l.Segments(), 5, "new log holds")
			check.NoError(t, l.Close())
			check.ErrorIs(t, l.Append([]byte("late"), nil).Wait(), errClosed, "append to a closed log")
			l, got = open(t, cfg)
			check.EqualSlices(t, got, entries(50))
			text, err := l.Read(positions[7])
			check.NoError(t, err)
			check.Equal(t, string(text), entry(7))
		})
	}
}

// TestReadWaitsForTheWriter: an entry can be read as soon as it is appended.
func TestReadWaitsForTheWriter(t *testing.T) {
	for s := range Syncs() {
		l, _ := open(t, Config{Dir: t.TempDir(), SegmentBytes: 200, Sync: Sync(s)})
		for i := range 50 {
			p := l.Append([]byte(entry(i)), nil).Position
			got, err := l.Read(p)
			check.NoError(t, err, "%s, entry %d: %q", Sync(s), i, got)
			check.Equal(check.Must(t), string(got), entry(i), "%s, entry %d", Sync(s), i)
		}
	}
}

// TestWrittenSurvivesKill: after Wait has returned, the entry is in the file even if the
// log is never closed, as after a kill.
func TestWrittenSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, Config{Dir: dir})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if err := l.Append([]byte(entry(i)), nil).Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, damaged := reopened(t, dir)
	slices.Sort(got)
	check.EqualSlices(t, got, entries(64))
	check.Equal(t, damaged, 0)
}

// reopened opens a copy of a log, as the next process would after a kill.
func reopened(t *testing.T, dir string) (got []string, damaged int64) {
	t.Helper()
	other := t.TempDir()
	check.NoError(t, os.CopyFS(other, os.DirFS(dir)))
	l, got := open(t, Config{Dir: other})
	return got, l.Damaged()
}

// TestLargeEntriesAmongSmallOnes: all entries of different sizes exist after a kill, in
// order.
func TestLargeEntriesAmongSmallOnes(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, Config{Dir: dir, SegmentBytes: 1 << 20})
	var want []string
	for i := range 50 {
		want = append(want, entry(i), fmt.Sprintf("%0*d", i<<14+1, i))
		l.Append([]byte(want[len(want)-2]), nil)
		if r := l.Append([]byte(want[len(want)-1]), nil); i%7 == 0 {
			_ = r.Wait()
		}
	}
	check.NoError(t, l.Append([]byte("last"), nil).Wait())
	got, damaged := reopened(t, dir)
	check.EqualSlices(t, got, append(want, "last"), "read %d entries of %d", len(got), len(want)+1)
	check.Equal(t, damaged, 0)
}

// TestZerosAtTheEndAreNoDamage: zeros at the end of any file do not count as damage,
// because earlier versions allocated files before writing.
func TestZerosAtTheEndAreNoDamage(t *testing.T) {
	dir, files := fill(t, 20, 200)
	for _, name := range files {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		check.NoError(t, err)
		_, err = f.Write(make([]byte, 3000))
		check.NoError(t, err)
		_ = f.Close()
	}
	got, damaged := reopened(t, dir)
	check.EqualSlices(t, got, entries(20))
	check.Equal(t, damaged, 0)
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, Config{Dir: dir})
	_, err := Open(Config{Dir: dir}, nil)
	check.ErrorIs(t, err, ErrInUse, "second open")
	check.NoError(t, l.Close())
	open(t, Config{Dir: dir})
}

// TestCutAnywhere: if the last file is truncated anywhere, its whole entries are read,
// and so are entries that are appended later.
func TestCutAnywhere(t *testing.T) {
	dir, files := fill(t, 8, 1<<20)
	whole, err := os.ReadFile(files[0])
	check.NoError(t, err)
	frame := len(whole) / 8
	for size := range whole {
		check.NoError(t, os.WriteFile(files[0], whole[:size], 0o600))
		l, got := open(t, Config{Dir: dir, Sync: SyncNone})
		check.EqualSlices(check.Must(t), got, entries(size/frame), "cut at %d", size)
		check.Equal(check.Must(t), l.Damaged(), 0, "cut at %d", size)
		check.NoError(t, errors.Join(l.Append([]byte("more"), nil).Wait(), l.Close()))
		l, got = open(t, Config{Dir: dir, Sync: SyncNone})
		check.EqualSlices(check.Must(t), got, append(entries(size/frame), "more"), "cut at %d, then appended", size)
		_ = l.Close()
		for _, f := range files[1:] {
			_ = os.Remove(f)
		}
		extra, _ := filepath.Glob(filepath.Join(dir, "*."+format))
		for _, f := range extra {
			if f != files[0] {
				_ = os.Remove(f)
			}
		}
	}
}

// TestDamagedEndIsLoggedOnce: if a file before the last has a torn end, as after a full
// disk, the damage is logged and cut off. The next start logs nothing.
func TestDamagedEndIsLoggedOnce(t *testing.T) {
	const torn = 68
	dir, files := fill(t, 8, 100)
	check.AtLeast(check.Must(t), len(files), 2)
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	check.NoError(t, err)
	_, err = f.WriteString(strings.Repeat("x", torn))
	check.NoError(t, errors.Join(err, f.Close()))
	for _, want := range []int64{torn, 0, 0} {
		l, got := open(t, Config{Dir: dir, Sync: SyncNone})
		check.EqualSlices(t, got, entries(8))
		check.Equal(t, l.Damaged(), want)
		check.NoError(t, l.Close())
	}
}

// TestFlipAnywhere: a changed byte destroys only the entry that contains it, and the
// damage is logged.
func TestFlipAnywhere(t *testing.T) {
	dir, files := fill(t, 8, 1<<20)
	whole, err := os.ReadFile(files[0])
	check.NoError(t, err)
	frame := len(whole) / 8
	for at := range whole {
		bad := slices.Clone(whole)
		bad[at] ^= 0x55
		check.NoError(t, os.WriteFile(files[0], bad, 0o600))
		l, got := open(t, Config{Dir: dir, Sync: SyncNone})
		want := slices.Delete(entries(8), at/frame, at/frame+1)
		check.EqualSlices(check.Must(t), got, want, "flipped at %d", at)
		if at/frame < 7 && l.Damaged() != int64(frame) {
			t.Fatalf("flipped at %d: %d bytes reported as damaged", at, l.Damaged())
		}
		_ = l.Close()
	}
}

// TestPayloadForgesNoEntry: if a frame is damaged, the image of a frame inside its
// payload is not read as an entry.
func TestPayloadForgesNoEntry(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, Config{Dir: dir, Sync: SyncNone})
	inner := appendFrame(nil, 0, []byte("forged"), nil)
	l.Append([]byte("x"), inner)
	l.Append([]byte("after"), nil)
	check.NoError(t, l.Close())
	files, _ := filepath.Glob(filepath.Join(dir, "*."+format))
	data, _ := os.ReadFile(files[0])
	data[1] ^= 1 // in the length of the first frame
	check.NoError(t, os.WriteFile(files[0], data, 0o600))
	_, got := open(t, Config{Dir: dir})
	check.EqualSlices(t, got, []string{"after"})
}

func TestNewerFormatIsRefused(t *testing.T) {
	dir, files := fill(t, 1, 1<<20)
	check.NoError(t, os.Rename(files[0], strings.TrimSuffix(files[0], format)+"v2"))
	_, err := Open(Config{Dir: dir}, nil)
	check.ErrorContains(t, err, "v2")
}

func TestDropAndEach(t *testing.T) {
	dir, _ := fill(t, 30, 200)
	l, _ := open(t, Config{Dir: dir, Sync: SyncNone})
	before, total := l.Segments(), l.Bytes()
	var got []string
	next, end, err := l.Each(1, 0, func(_ Position, p []byte) bool {
		if len(got) == 3 {
			return false
		}
		got = append(got, string(p))
		return true
	})
	check.NoError(t, err)
	check.That(check.Must(t), !end, "each: %q, %v, %v", got, end, err)
	check.EqualSlices(check.Must(t), got, entries(3))
	_, end, err = l.Each(1, next, func(_ Position, p []byte) bool { got = append(got, string(p)); return true })
	check.NoError(t, err, "each, second time")
	check.That(check.Must(t), end, "each, second time: %q, %v, %v", got, end, err)
	check.EqualSlices(check.Must(t), got, entries(len(got)), "each, second time")
	check.NoError(t, l.Drop(1))
	check.Equal(t, l.Segments(), before-1, "%d segments of %d, %d bytes of %d", l.Segments(), before, l.Bytes(), total)
	check.Less(t, l.Bytes(), total, "%d segments of %d, %d bytes of %d", l.Segments(), before, l.Bytes(), total)
	_ = l.Close()
	_, left := open(t, Config{Dir: dir})
	check.EqualSlices(t, left, entries(30)[len(got):])
}

// TestDiskThatRefuses: entries that are appended while the disk fails are written later,
// in order, and no caller waits for them meanwhile.
func TestDiskThatRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l, _ := open(t, Config{Dir: dir, SegmentBytes: 1, Retry: time.Millisecond})
	check.NoError(t, l.Append([]byte(entry(0)), nil).Wait())
	check.NoError(t, os.Rename(dir, dir+"x"))
	for i := 1; i < 20; i++ {
		check.That(check.Must(t), l.Append([]byte(entry(i)), nil).Wait() != nil, "written to a missing disk")
	}
	since, err := l.Err()
	check.That(check.Must(t), err != nil, "trouble %v since %v", err, since)
	check.That(t, !since.IsZero(), "trouble %v since %v", err, since)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	check.ErrorIs(t, l.Ready(ended), context.Canceled)
	check.NoError(t, os.Rename(dir+"x", dir))
	check.NoError(t, l.Ready(t.Context()))
	check.NoError(t, l.Append([]byte(entry(20)), nil).Wait())
	check.NoError(t, l.Close())
	_, got := open(t, Config{Dir: dir})
	check.EqualSlices(t, got, entries(21))
}

// TestFullDisk fills a small file system, if the test may mount one.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no file system of a bounded size: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	ballast := filepath.Join(dir, "ballast")
	check.NoError(t, os.WriteFile(ballast, make([]byte, 40<<10), 0o600))
	l, _ := open(t, Config{Dir: filepath.Join(dir, "log"), Retry: time.Millisecond})
	n := 0
	for ; l.Append([]byte(entry(n)), make([]byte, 1000)).Wait() == nil; n++ {
		check.AtMost(check.Must(t), n, 100, "a full disk accepted everything")
	}
	_, err := l.Err()
	check.ErrorIs(check.Must(t), err, syscall.ENOSPC)
	check.NoError(t, os.Remove(ballast))
	check.NoError(t, l.Ready(t.Context()))
	check.NoError(t, errors.Join(l.Append([]byte(entry(n+1)), nil).Wait(), l.Close()))
	l, got := open(t, Config{Dir: filepath.Join(dir, "log")})
	check.Equal(t, len(got), n+2)
	check.Equal(t, l.Damaged(), 0)
	_ = l.Close()
}

// TestSlowDiskIsTrouble: a slow operation is trouble until it ends.
func TestSlowDiskIsTrouble(t *testing.T) {
	l, _ := open(t, Config{Dir: t.TempDir(), Timeout: time.Millisecond})
	_ = l.timed(syncing, func() error {
		for {
			l.mu.Lock()
			_, trouble := l.trouble()
			changed := l.changed
			l.mu.Unlock()
			if trouble != nil {
				return nil
			}
			<-changed
		}
	})
	_, err := l.Err()
	check.NoError(t, err, "trouble after the end")
}

func FuzzScan(f *testing.F) {
	f.Add([]byte("garbage"), []byte("payload"), uint32(7))
	f.Add(appendFrame(nil, 7, []byte("a"), []byte("b")), []byte{}, uint32(7))
	f.Fuzz(func(t *testing.T, noise, payload []byte, salt uint32) {
		covered := 0
		gaps := scan(noise, salt, func(_ int, p []byte) { covered += headerBytes + len(p) })
		for _, g := range gaps {
			covered += g.to - g.from
		}
		check.Equal(check.Must(t), covered, len(noise))
		// A whole frame is found on either side of noise that contains no frame.
		if len(gaps) > 1 || len(gaps) == 1 && gaps[0] != (gap{0, len(noise)}) {
			return
		}
		data := appendFrame(nil, salt, payload, []byte("front"))
		data = append(data, noise...)
		data = appendFrame(data, salt, payload, []byte("back"))
		var got []string
		scan(data, salt, func(_ int, p []byte) { got = append(got, string(p)) })
		check.AtLeast(check.Must(t), len(got), 2)
		check.Equal(check.Must(t), got[0], string(payload)+"front")
		check.Equal(check.Must(t), got[len(got)-1], string(payload)+"back")
	})
}
