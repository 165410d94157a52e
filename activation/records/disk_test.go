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

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

func openSpool(t testing.TB, cfg SpoolConfig) *DiskSpool {
	t.Helper()
	s, err := OpenSpool(cfg)
	check.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func spoolDocs(t testing.TB, s *DiskSpool, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		check.NoError(t, s.Append([]Document{doc(i)}))
	}
}

// drain removes all documents, some at a time.
func drain(t testing.TB, s *DiskSpool) (ids []string) {
	t.Helper()
	for {
		docs, err := s.Peek(7, 1000)
		check.NoError(t, err)
		if len(docs) == 0 {
			return ids
		}
		for _, d := range docs {
			ids = append(ids, d.ID)
		}
		check.NoError(t, s.Remove(len(docs)))
	}
}

func ids(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, doc(i).ID)
	}
	return all
}

func TestSpoolKeepsOrder(t *testing.T) {
	s := openSpool(t, SpoolConfig{Dir: t.TempDir(), SegmentBytes: 500, Sync: wal.SyncNone})
	spoolDocs(t, s, 0, 50)
	docs, err := s.Peek(3, 1)
	check.NoError(t, err)
	check.Equal(check.Must(t), len(docs), 1)
	check.Equal(check.Must(t), docs[0].ID, doc(0).ID)
	check.Equal(check.Must(t), string(docs[0].Body), string(doc(0).Body))
	docs, err = s.Peek(3, 1<<20)
	check.NoError(t, err)
	check.Equal(check.Must(t), len(docs), 3)
	check.NoError(t, s.Remove(2))
	spoolDocs(t, s, 50, 60)
	check.EqualSlices(t, drain(t, s), ids(2, 60))
	check.Equal(t, s.Documents(), 0)
	check.Equal(t, s.Bytes(), 0)
	spoolDocs(t, s, 60, 70)
	check.EqualSlices(t, drain(t, s), ids(60, 70))
}

// TestSpoolSurvives: documents survive the end of the process. Documents that were sent
// from the file being read may come again.
func TestSpoolSurvives(t *testing.T) {
	cfg := SpoolConfig{Dir: t.TempDir(), SegmentBytes: 500}
	s := openSpool(t, cfg)
	spoolDocs(t, s, 0, 50)
	_, err := s.Peek(20, 1<<20)
	check.NoError(t, err)
	check.NoError(t, errors.Join(s.Remove(20), s.Close()))
	s = openSpool(t, cfg)
	spoolDocs(t, s, 50, 55)
	got := drain(t, s)
	check.AtLeast(t, len(got), 35)
	check.AtMost(t, len(got), 45)
	check.EqualSlices(t, got, ids(55-len(got), 55))
	files, _ := filepath.Glob(filepath.Join(cfg.Dir, "*.v1"))
	for _, f := range files {
		info, _ := os.Stat(f)
		check.AtMost(t, info.Size(), 0, "%s is left", f)
	}
}

func TestSpoolIsBounded(t *testing.T) {
	s := openSpool(t, SpoolConfig{Dir: t.TempDir(), Bytes: 2000, SegmentBytes: 500, Sync: wal.SyncNone})
	n := 0
	for ; s.Append([]Document{doc(n)}) == nil; n++ {
		check.AtMost(check.Must(t), n, 100, "takes everything")
	}
	check.ErrorIs(t, s.Append([]Document{doc(n)}), errSpoolFull)
	check.AtMost(t, s.Bytes(), 2500)
	check.AtLeast(t, n, 10)
	check.EqualSlices(t, drain(t, s), ids(0, n))
	spoolDocs(t, s, 0, n)
}

// TestSpoolOnBadDisk: the spool fails at once on a bad disk, and works again when the
// disk does.
func TestSpoolOnBadDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := openSpool(t, SpoolConfig{Dir: dir, SegmentBytes: 1})
	spoolDocs(t, s, 0, 1)
	check.NoError(t, os.Rename(dir, dir+"x"))
	for range 3 {
		check.That(check.Must(t), s.Append([]Document{doc(1)}) != nil, "spooled to a missing disk")
		check.That(check.Must(t), s.Err() != nil, "no trouble with a missing disk")
	}
	check.NoError(t, os.Rename(dir+"x", dir))
	check.NoError(t, s.log.Ready(t.Context()))
	spoolDocs(t, s, 2, 3)
	// The first document of the trouble was written after the trouble.
	check.EqualSlices(t, drain(t, s), ids(0, 3))
}

// TestSpoolDeletesWhenTheDiskIsBack: files that could not be deleted are deleted with
// later ones, and the next process does not send their documents again.
func TestSpoolDeletesWhenTheDiskIsBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := openSpool(t, SpoolConfig{Dir: dir, SegmentBytes: 1})
	spoolDocs(t, s, 0, 3)
	docs, err := s.Peek(2, 1000)
	check.NoError(t, err)
	check.Equal(check.Must(t), len(docs), 2)
	check.NoError(t, os.Rename(dir, dir+"x"))
	check.NoError(t, s.Remove(2))
	check.NoError(t, os.Rename(dir+"x", dir))
	check.EqualSlices(t, drain(t, s), ids(2, 3))
	check.NoError(t, s.Close())
	if got := drain(t, openSpool(t, SpoolConfig{Dir: dir})); len(got) > 0 {
		t.Errorf("the next process drained %v", got)
	}
}

// TestSpoolDrainsBesideFreshOnes: draining beside appends loses no document and returns
// none twice.
func TestSpoolDrainsBesideFreshOnes(t *testing.T) {
	s := openSpool(t, SpoolConfig{Dir: t.TempDir(), SegmentBytes: 300, Sync: wal.SyncNone})
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
		check.Equal(check.Must(t), seen[doc(i).ID], 1, "document %d seen", i)
	}
}

func TestSpoolCutAndFlippedAnywhere(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, SpoolConfig{Dir: dir, Sync: wal.SyncNone})
	spoolDocs(t, s, 0, 4)
	check.NoError(t, s.Close())
	files, _ := filepath.Glob(filepath.Join(dir, "*.v1"))
	whole, err := os.ReadFile(files[0])
	check.NoError(t, err)
	for at := range whole {
		bad := slices.Clone(whole)
		bad[at] ^= 0x10
		for _, data := range [][]byte{whole[:at], bad} {
			hurt := t.TempDir()
			check.NoError(t, os.WriteFile(filepath.Join(hurt, filepath.Base(files[0])), data, 0o600))
			s, err := OpenSpool(SpoolConfig{Dir: hurt, Sync: wal.SyncNone})
			check.NoError(t, err, "at %d", at)
			got := drain(t, s)
			want := ids(0, at*4/len(whole))
			if len(data) == len(whole) {
				want = slices.Delete(ids(0, 4), at*4/len(whole), at*4/len(whole)+1)
			}
			check.EqualSlices(check.Must(t), got, want, "at %d: drained", at)
			check.Equal(check.Must(t), s.Documents(), 0, "at %d: drained", at)
			check.NoError(t, s.Close())
		}
	}
}

// BenchmarkSpoolHour spools the records of an hour without a database, at 100 records of
// 600 bytes a second, and reports the memory and disk space.
func BenchmarkSpoolHour(b *testing.B) {
	const hour = 3600 * 100
	body := []byte(`{"_id":"guest/x","logs":["` + strings.Repeat("l", 560) + `"]}`)
	for b.Loop() {
		s := openSpool(b, SpoolConfig{Dir: b.TempDir(), Bytes: 16 << 30, Sync: wal.SyncBatch})
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
		check.NoError(b, s.Close())
	}
}

// FuzzSpooled: no entry makes decodeSpooled panic, and a spooled document is decoded
// unchanged.
func FuzzSpooled(f *testing.F) {
	f.Add([]byte{}, "guest/x", []byte(`{}`))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 'a'}, "", []byte{})
	f.Fuzz(func(t *testing.T, noise []byte, id string, body []byte) {
		if doc, ok := decodeSpooled(noise); ok && len(doc.ID)+len(doc.Body) >= len(noise) {
			t.Fatalf("%d bytes of %d", len(doc.ID)+len(doc.Body), len(noise))
		}
		doc, ok := decodeSpooled(append(spooledHead(id), body...))
		check.That(check.Must(t), ok, "read %q %q %v, want %q %q", doc.ID, doc.Body, ok, id, body)
		check.Equal(check.Must(t), doc.ID, id, "read %q %q %v, want %q %q", doc.ID, doc.Body, ok, id, body)
		check.Equal(check.Must(t), string(doc.Body), string(body), "read %q %q %v, want %q %q", doc.ID, doc.Body, ok, id, body)
	})
}
