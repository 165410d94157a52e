package wal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// copied opens a log and appends to it until entries are copied into a window.
func copied(t *testing.T, cfg Config) (l *Log, n int) {
	t.Helper()
	l, _ = open(t, cfg)
	for r := (Receipt{batch: &batch{}}); r.batch != nil; n++ {
		r = l.Append([]byte(entry(n)), nil)
		if err := r.Kept(); err != nil {
			t.Fatal(err)
		}
		if n > 1000 {
			t.Fatal("nothing is ever copied")
		}
	}
	return l, n
}

// held opens a copy of a log, as it would be found after a kill, and tells what
// is in it.
func held(t *testing.T, dir string) (got []string, damaged int64) {
	t.Helper()
	other := t.TempDir()
	if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	l, got := open(t, Config{Dir: other})
	return got, l.Damaged()
}

// TestCopiedIsWithTheSystem: entries that no writer wrote are found after a kill,
// and the room that was taken for more of them is given back at the end.
func TestCopiedIsWithTheSystem(t *testing.T) {
	for _, sync := range []Sync{Batch, None} {
		t.Run(sync.String(), func(t *testing.T) {
			dir := t.TempDir()
			l, n := copied(t, Config{Dir: dir, Sync: sync})
			for ; n < 500; n++ {
				l.Append([]byte(entry(n)), nil)
			}
			if err := l.Append([]byte(entry(n)), nil).Kept(); err != nil {
				t.Fatal(err)
			}
			n++
			if got, damaged := held(t, dir); !slices.Equal(got, entries(n)) || damaged != 0 {
				t.Errorf("%d of %d entries, %d bytes damaged", len(got), n, damaged)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			files, _ := filepath.Glob(filepath.Join(dir, "*."+format))
			info, err := os.Stat(files[0])
			if err != nil || info.Size() != l.Bytes() {
				t.Errorf("%d bytes of file, %d of log, %v", info.Size(), l.Bytes(), err)
			}
		})
	}
}

// TestRoomThatWasTakenIsNoDamage, also not in a file that was not the last.
func TestRoomThatWasTakenIsNoDamage(t *testing.T) {
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
	if got, damaged := held(t, dir); !slices.Equal(got, entries(20)) || damaged != 0 {
		t.Errorf("held %q, %d bytes damaged", got, damaged)
	}
}

// TestEntriesLargerThanAWindow keep their place among the small ones.
func TestEntriesLargerThanAWindow(t *testing.T) {
	dir := t.TempDir()
	l, n := copied(t, Config{Dir: dir})
	want := entries(n)
	for i := range 50 {
		want = append(want, entry(i), fmt.Sprintf("%0*d", windowBytes*i/20, i))
		l.Append([]byte(want[len(want)-2]), nil)
		if r := l.Append([]byte(want[len(want)-1]), nil); i%7 == 0 {
			_ = r.Kept()
		}
	}
	if err := l.Append([]byte("last"), nil).Kept(); err != nil {
		t.Fatal(err)
	}
	if got, damaged := held(t, dir); !slices.Equal(got, append(want, "last")) || damaged != 0 {
		t.Errorf("held %d of %d, %d bytes damaged", len(got), len(want)+1, damaged)
	}
}

// TestFileCutUnderAWindow: the memory is gone, the process is not, and what
// comes is written.
func TestFileCutUnderAWindow(t *testing.T) {
	dir := t.TempDir()
	l, _ := copied(t, Config{Dir: dir})
	files, _ := filepath.Glob(filepath.Join(dir, "*."+format))
	if err := os.Truncate(files[0], 0); err != nil {
		t.Fatal(err)
	}
	if err := l.Append([]byte("late"), nil).Kept(); err != nil {
		t.Fatal(err)
	}
	if got, _ := held(t, dir); !slices.Equal(got, []string{"late"}) {
		t.Errorf("held %q", got)
	}
}

// TestWindowsReachToTheEnd of a file: what fits into it, and what goes to the
// next one, is all there.
func TestWindowsReachToTheEnd(t *testing.T) {
	for _, size := range []int{leastWindow - 1, leastWindow + 5000, windowBytes - 1, windowBytes + leastWindow/2, windowBytes + leastWindow + 1} {
		dir := t.TempDir()
		l, _ := open(t, Config{Dir: dir, SegmentBytes: size})
		mapped, n := 0, 0
		for ; l.Segments() < 3; n++ {
			r := l.Append([]byte(entry(n)), nil)
			if r.batch == nil {
				mapped++
			}
			if err := r.Kept(); err != nil {
				t.Fatal(err)
			}
		}
		if small := size < leastWindow; (mapped > 0) == small {
			t.Errorf("files of %d: %d of %d entries were copied", size, mapped, n)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*."+format))
		for _, name := range files {
			if info, err := os.Stat(name); err != nil || info.Size() > int64(size) {
				t.Errorf("files of %d: %v, %v", size, info.Size(), err)
			}
		}
		if got, damaged := held(t, dir); !slices.Equal(got, entries(n)) || damaged != 0 {
			t.Errorf("files of %d: held %d of %d, %d bytes damaged", size, len(got), n, damaged)
		}
	}
}
