package records

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

func openSpool(t testing.TB, cfg SpoolConfig) *DiskSpool {
	t.Helper()
	s, err := OpenSpool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func spoolDocs(t testing.TB, s *DiskSpool, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := s.Append([]Document{doc(i)}); err != nil {
			t.Fatal(err)
		}
	}
}

// drain takes all documents out, some at a time.
func drain(t testing.TB, s *DiskSpool) (ids []string) {
	t.Helper()
	for {
		docs, err := s.Peek(7, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(docs) == 0 {
			return ids
		}
		for _, d := range docs {
			ids = append(ids, d.ID)
		}
		if err := s.Remove(len(docs)); err != nil {
			t.Fatal(err)
		}
	}
}

func ids(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, doc(i).ID)
	}
	return all
}

func TestSpoolKeepsOrder(t *testing.T) {
	s := openSpool(t, SpoolConfig{Dir: t.TempDir(), SegmentBytes: 500, Sync: wal.None})
	spoolDocs(t, s, 0, 50)
	docs, err := s.Peek(3, 1)
	if err != nil || len(docs) != 1 || docs[0].ID != doc(0).ID || string(docs[0].Body) != string(doc(0).Body) {
		t.Fatalf("peek: %v, %v", docs, err)
	}
	docs, err = s.Peek(3, 1<<20)
	if err != nil || len(docs) != 3 {
		t.Fatalf("peek: %v, %v", docs, err)
	}
	if err := s.Remove(2); err != nil {
		t.Fatal(err)
	}
	spoolDocs(t, s, 50, 60)
	if got := drain(t, s); !slices.Equal(got, ids(2, 60)) {
		t.Errorf("drained %v", got)
	}
	if s.Documents() != 0 || s.Bytes() != 0 {
		t.Errorf("%d documents and %d bytes in an empty spool", s.Documents(), s.Bytes())
	}
	spoolDocs(t, s, 60, 70)
	if got := drain(t, s); !slices.Equal(got, ids(60, 70)) {
		t.Errorf("drained %v", got)
	}
}

// TestSpoolSurvives the end of the process; what was sent from the file that is
// being read may come again.
func TestSpoolSurvives(t *testing.T) {
	cfg := SpoolConfig{Dir: t.TempDir(), SegmentBytes: 500}
	s := openSpool(t, cfg)
	spoolDocs(t, s, 0, 50)
	if _, err := s.Peek(20, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Remove(20), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = openSpool(t, cfg)
	spoolDocs(t, s, 50, 55)
	got := drain(t, s)
	if len(got) < 35 || len(got) > 45 || !slices.Equal(got, ids(55-len(got), 55)) {
		t.Errorf("drained %v", got)
	}
	files, _ := filepath.Glob(filepath.Join(cfg.Dir, "*.v1"))
	for _, f := range files {
		if info, _ := os.Stat(f); info.Size() > 0 {
			t.Errorf("%s is left", f)
		}
	}
}

func TestSpoolIsBounded(t *testing.T) {
	s := openSpool(t, SpoolConfig{Dir: t.TempDir(), Bytes: 2000, SegmentBytes: 500, Sync: wal.None})
	n := 0
	for ; s.Append([]Document{doc(n)}) == nil; n++ {
		if n > 100 {
			t.Fatal("takes everything")
		}
	}
	if err := s.Append([]Document{doc(n)}); !errors.Is(err, ErrSpoolFull) || s.Bytes() > 2500 || n < 10 {
		t.Errorf("%d documents, %d bytes: %v", n, s.Bytes(), err)
	}
	if got := drain(t, s); !slices.Equal(got, ids(0, n)) {
		t.Errorf("drained %v", got)
	}
	spoolDocs(t, s, 0, n)
}

// TestSpoolOnBadDisk refuses at once and takes again when the disk does.
func TestSpoolOnBadDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := openSpool(t, SpoolConfig{Dir: dir, SegmentBytes: 1})
	spoolDocs(t, s, 0, 1)
	if err := os.Rename(dir, dir+"x"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Append([]Document{doc(1)}); err == nil {
			t.Fatal("spooled to a disk that is not there")
		}
		if s.Trouble() == nil {
			t.Fatal("a disk that is not there is no trouble")
		}
	}
	if err := os.Rename(dir+"x", dir); err != nil {
		t.Fatal(err)
	}
	if err := s.log.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	spoolDocs(t, s, 2, 3)
	// The first that met the trouble was written after it.
	if got := drain(t, s); !slices.Equal(got, ids(0, 3)) {
		t.Errorf("drained %v", got)
	}
}

// TestSpoolDeletesWhenTheDiskIsBack: files that could not be deleted go with the next
// ones, and their documents are not sent again by the next process.
func TestSpoolDeletesWhenTheDiskIsBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := openSpool(t, SpoolConfig{Dir: dir, SegmentBytes: 1})
	spoolDocs(t, s, 0, 3)
	docs, err := s.Peek(2, 1000)
	if err != nil || len(docs) != 2 {
		t.Fatalf("peeked %d documents, %v", len(docs), err)
	}
	if err := os.Rename(dir, dir+"x"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(2); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+"x", dir); err != nil {
		t.Fatal(err)
	}
	if got := drain(t, s); !slices.Equal(got, ids(2, 3)) {
		t.Errorf("drained %v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := drain(t, openSpool(t, SpoolConfig{Dir: dir})); len(got) > 0 {
		t.Errorf("the next process drained %v", got)
	}
}

// TestSpoolDrainsBesideFreshOnes loses none and shows none twice.
func TestSpoolDrainsBesideFreshOnes(t *testing.T) {
	s := openSpool(t, SpoolConfig{Dir: t.TempDir(), SegmentBytes: 300, Sync: wal.None})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() { spoolDocs(t, s, 500*w, 500*w+500) })
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	seen := map[string]int{}
	for done := false; !done; {
		select {
		case <-ended:
			done = true
		default:
		}
		for _, id := range drain(t, s) {
			seen[id]++
		}
	}
	for i := range 2000 {
		if seen[doc(i).ID] != 1 {
			t.Fatalf("document %d seen %d times", i, seen[doc(i).ID])
		}
	}
}

func TestSpoolCutAndFlippedAnywhere(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, SpoolConfig{Dir: dir, Sync: wal.None})
	spoolDocs(t, s, 0, 4)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.v1"))
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		bad := slices.Clone(whole)
		bad[at] ^= 0x10
		for _, data := range [][]byte{whole[:at], bad} {
			hurt := t.TempDir()
			if err := os.WriteFile(filepath.Join(hurt, filepath.Base(files[0])), data, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := OpenSpool(SpoolConfig{Dir: hurt, Sync: wal.None})
			if err != nil {
				t.Fatalf("at %d: %v", at, err)
			}
			got := drain(t, s)
			want := ids(0, at*4/len(whole))
			if len(data) == len(whole) {
				want = slices.Delete(ids(0, 4), at*4/len(whole), at*4/len(whole)+1)
			}
			if !slices.Equal(got, want) || s.Documents() != 0 {
				t.Fatalf("at %d: drained %v", at, got)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// BenchmarkSpoolHour spools what an absent database misses in an hour at 100
// records of 600 bytes a second, and reports the memory and the disk that it takes.
func BenchmarkSpoolHour(b *testing.B) {
	const hour = 3600 * 100
	body := []byte(`{"_id":"guest/x","logs":["` + strings.Repeat("l", 560) + `"]}`)
	for b.Loop() {
		s := openSpool(b, SpoolConfig{Dir: b.TempDir(), Bytes: 16 << 30, Sync: wal.Batch})
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for i := range hour / 16 {
					if err := s.Append([]Document{{ID: fmt.Sprintf("guest/%d-%d", w, i), Body: body}}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		took := time.Since(began)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "MiB-memory")
		b.ReportMetric(float64(s.Bytes())/(1<<20), "MiB-disk")
		b.ReportMetric(float64(took.Nanoseconds())/hour, "ns/record")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzSpooled checks that no entry makes decodeSpooled panic, and that what was
// spooled comes back.
func FuzzSpooled(f *testing.F) {
	f.Add([]byte{}, "guest/x", []byte(`{}`))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 'a'}, "", []byte{})
	f.Fuzz(func(t *testing.T, noise []byte, id string, body []byte) {
		if doc, ok := decodeSpooled(noise); ok && len(doc.ID)+len(doc.Body) >= len(noise) {
			t.Fatalf("%d bytes of %d", len(doc.ID)+len(doc.Body), len(noise))
		}
		doc, ok := decodeSpooled(append(spooledHead(id), body...))
		if !ok || doc.ID != id || string(doc.Body) != string(body) {
			t.Fatalf("read %q %q %v, want %q %q", doc.ID, doc.Body, ok, id, body)
		}
	})
}
