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
)

// open opens a log and returns what it got.
func open(t testing.TB, cfg Config) (*Log, []string) {
	t.Helper()
	var got []string
	l, err := Open(cfg, func(_ Position, payload []byte) { got = append(got, string(payload)) })
	if err != nil {
		t.Fatal(err)
	}
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
	l, _ := open(t, Config{Dir: dir, SegmentBytes: segmentBytes, Sync: None})
	for i := range n {
		l.Append([]byte("entry "), fmt.Appendf(nil, "%04d", i))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
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
				if err := r.Wait(); err != nil {
					t.Fatal(err)
				}
				positions = append(positions, r.Position)
			}
			for i, p := range positions {
				if got, err := l.Read(p); err != nil || string(got) != entry(i) {
					t.Errorf("entry %d: %q, %v", i, got, err)
				}
			}
			if len(got) != 0 || l.Segments() < 5 {
				t.Errorf("new log holds %d entries; %d segments", len(got), l.Segments())
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if err := l.Append([]byte("late"), nil).Wait(); !errors.Is(err, ErrClosed) {
				t.Errorf("append to a closed log: %v", err)
			}
			l, got = open(t, cfg)
			if !slices.Equal(got, entries(50)) {
				t.Errorf("got %q", got)
			}
			if got, err := l.Read(positions[7]); err != nil || string(got) != entry(7) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestReadWaitsForTheWriter: an entry can be read as soon as it is appended.
func TestReadWaitsForTheWriter(t *testing.T) {
	for s := range Syncs() {
		l, _ := open(t, Config{Dir: t.TempDir(), SegmentBytes: 200, Sync: Sync(s)})
		for i := range 50 {
			p := l.Append([]byte(entry(i)), nil).Position
			if got, err := l.Read(p); err != nil || string(got) != entry(i) {
				t.Fatalf("%s, entry %d: %q, %v", Sync(s), i, got, err)
			}
		}
	}
}

// TestWrittenSurvivesKill: an entry whose Wait returned is in the file although
// the log was never closed, as after a kill.
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
	if !slices.Equal(got, entries(64)) {
		t.Errorf("read %q", got)
	}
	if damaged != 0 {
		t.Errorf("%d bytes damaged", damaged)
	}
}

// reopened reads a copy of a log, as the next process finds it after a kill.
func reopened(t *testing.T, dir string) (got []string, damaged int64) {
	t.Helper()
	other := t.TempDir()
	if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	l, got := open(t, Config{Dir: other})
	return got, l.Damaged()
}

// TestLargeEntriesAmongSmallOnes are all there after a kill, in order.
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
	if err := l.Append([]byte("last"), nil).Wait(); err != nil {
		t.Fatal(err)
	}
	got, damaged := reopened(t, dir)
	if !slices.Equal(got, append(want, "last")) {
		t.Errorf("read %d entries of %d", len(got), len(want)+1)
	}
	if damaged != 0 {
		t.Errorf("%d bytes damaged", damaged)
	}
}

// TestZerosAtTheEndAreNoDamage, in any file: former versions allocated files
// before they wrote them.
func TestZerosAtTheEndAreNoDamage(t *testing.T) {
	dir, files := fill(t, 20, 200)
	for _, name := range files {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(make([]byte, 3000)); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	got, damaged := reopened(t, dir)
	if !slices.Equal(got, entries(20)) {
		t.Errorf("read %q", got)
	}
	if damaged != 0 {
		t.Errorf("%d bytes damaged", damaged)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, Config{Dir: dir})
	if _, err := Open(Config{Dir: dir}, nil); !errors.Is(err, ErrInUse) {
		t.Errorf("second open: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Config{Dir: dir})
}

// TestCutAnywhere: whatever is left of the last file, the entries that are
// whole in it are read, and what is appended afterwards is read, too.
func TestCutAnywhere(t *testing.T) {
	dir, files := fill(t, 8, 1<<20)
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	frame := len(whole) / 8
	for size := range whole {
		if err := os.WriteFile(files[0], whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		l, got := open(t, Config{Dir: dir, Sync: None})
		if !slices.Equal(got, entries(size/frame)) {
			t.Fatalf("cut at %d: got %q", size, got)
		}
		if l.Damaged() != 0 {
			t.Fatalf("cut at %d: %d bytes called damaged", size, l.Damaged())
		}
		if err := errors.Join(l.Append([]byte("more"), nil).Wait(), l.Close()); err != nil {
			t.Fatal(err)
		}
		l, got = open(t, Config{Dir: dir, Sync: None})
		if !slices.Equal(got, append(entries(size/frame), "more")) {
			t.Fatalf("cut at %d, then appended: got %q", size, got)
		}
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

// TestDamagedEndIsLoggedOnce: what is torn at the end of a file that a later one
// follows, as a full disk leaves it, is named and cut off. The next start
// logs nothing.
func TestDamagedEndIsLoggedOnce(t *testing.T) {
	const torn = 68
	dir, files := fill(t, 8, 100)
	if len(files) < 2 {
		t.Fatalf("files %q", files)
	}
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(strings.Repeat("x", torn))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{torn, 0, 0} {
		l, got := open(t, Config{Dir: dir, Sync: None})
		if !slices.Equal(got, entries(8)) || l.Damaged() != want {
			t.Errorf("%d bytes called damaged, want %d; got %q", l.Damaged(), want, got)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFlipAnywhere: a byte that changed costs the entry that it is in and no
// other, and is named.
func TestFlipAnywhere(t *testing.T) {
	dir, files := fill(t, 8, 1<<20)
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	frame := len(whole) / 8
	for at := range whole {
		bad := slices.Clone(whole)
		bad[at] ^= 0x55
		if err := os.WriteFile(files[0], bad, 0o600); err != nil {
			t.Fatal(err)
		}
		l, got := open(t, Config{Dir: dir, Sync: None})
		want := slices.Delete(entries(8), at/frame, at/frame+1)
		if !slices.Equal(got, want) {
			t.Fatalf("flipped at %d: got %q", at, got)
		}
		if at/frame < 7 && l.Damaged() != int64(frame) {
			t.Fatalf("flipped at %d: %d bytes called damaged", at, l.Damaged())
		}
		_ = l.Close()
	}
}

// TestPayloadForgesNoEntry: what looks like an entry inside of a payload is not
// taken for one when the payload's own frame is damaged.
func TestPayloadForgesNoEntry(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, Config{Dir: dir, Sync: None})
	inner := appendFrame(nil, 0, []byte("forged"), nil)
	l.Append([]byte("x"), inner)
	l.Append([]byte("after"), nil)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*."+format))
	data, _ := os.ReadFile(files[0])
	data[1] ^= 1 // in the length of the first
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, got := open(t, Config{Dir: dir}); !slices.Equal(got, []string{"after"}) {
		t.Errorf("got %q", got)
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	dir, files := fill(t, 1, 1<<20)
	if err := os.Rename(files[0], strings.TrimSuffix(files[0], format)+"v2"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir}, nil); err == nil || !strings.Contains(err.Error(), "v2") {
		t.Errorf("error %v", err)
	}
}

func TestDropAndEach(t *testing.T) {
	dir, _ := fill(t, 30, 200)
	l, _ := open(t, Config{Dir: dir, Sync: None})
	before, total := l.Segments(), l.Bytes()
	var got []string
	next, end, err := l.Each(1, 0, func(_ Position, p []byte) bool {
		if len(got) == 3 {
			return false
		}
		got = append(got, string(p))
		return true
	})
	if err != nil || end || !slices.Equal(got, entries(3)) {
		t.Fatalf("each: %q, %v, %v", got, end, err)
	}
	_, end, err = l.Each(1, next, func(_ Position, p []byte) bool { got = append(got, string(p)); return true })
	if err != nil || !end || !slices.Equal(got, entries(len(got))) {
		t.Fatalf("each, second time: %q, %v, %v", got, end, err)
	}
	if err := l.Drop(1); err != nil {
		t.Fatal(err)
	}
	if l.Segments() != before-1 || l.Bytes() >= total {
		t.Errorf("%d segments of %d, %d bytes of %d", l.Segments(), before, l.Bytes(), total)
	}
	_ = l.Close()
	if _, left := open(t, Config{Dir: dir}); !slices.Equal(left, entries(30)[len(got):]) {
		t.Errorf("got %q", left)
	}
}

// TestDiskThatRefuses: the entries of that time are written when it takes them
// again, in order, and no caller waits for them meanwhile.
func TestDiskThatRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l, _ := open(t, Config{Dir: dir, SegmentBytes: 1, Retry: time.Millisecond})
	if err := l.Append([]byte(entry(0)), nil).Wait(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"x"); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 20; i++ {
		if err := l.Append([]byte(entry(i)), nil).Wait(); err == nil {
			t.Fatal("written to a disk that is not there")
		}
	}
	if since, err := l.Trouble(); err == nil || since.IsZero() {
		t.Errorf("trouble %v since %v", err, since)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Ready(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("well: %v", err)
	}
	if err := os.Rename(dir+"x", dir); err != nil {
		t.Fatal(err)
	}
	if err := l.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Append([]byte(entry(20)), nil).Wait(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, got := open(t, Config{Dir: dir}); !slices.Equal(got, entries(21)) {
		t.Errorf("got %q", got)
	}
}

// TestFullDisk fills a small file system, where this machine lets us make one.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no file system of a bounded size: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 40<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	l, _ := open(t, Config{Dir: filepath.Join(dir, "log"), Retry: time.Millisecond})
	n := 0
	for ; l.Append([]byte(entry(n)), make([]byte, 1000)).Wait() == nil; n++ {
		if n > 100 {
			t.Fatal("a full disk took everything")
		}
	}
	if _, err := l.Trouble(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("trouble %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := l.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Append([]byte(entry(n+1)), nil).Wait(), l.Close()); err != nil {
		t.Fatal(err)
	}
	l, got := open(t, Config{Dir: filepath.Join(dir, "log")})
	if len(got) != n+2 || l.Damaged() != 0 {
		t.Errorf("got %d entries of %d, %d bytes damaged", len(got), n+2, l.Damaged())
	}
	_ = l.Close()
}

// TestSlowDiskIsTrouble until the slow operation ends.
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
	if _, err := l.Trouble(); err != nil {
		t.Errorf("trouble after the end: %v", err)
	}
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
		if covered != len(noise) {
			t.Fatalf("%d of %d bytes accounted for", covered, len(noise))
		}
		// A whole entry is found on either side of noise that holds no frame.
		if len(gaps) > 1 || len(gaps) == 1 && gaps[0] != (gap{0, len(noise)}) {
			return
		}
		data := appendFrame(nil, salt, payload, []byte("front"))
		data = append(data, noise...)
		data = appendFrame(data, salt, payload, []byte("back"))
		var got []string
		scan(data, salt, func(_ int, p []byte) { got = append(got, string(p)) })
		if len(got) < 2 || got[0] != string(payload)+"front" || got[len(got)-1] != string(payload)+"back" {
			t.Fatalf("found %q", got)
		}
	})
}
