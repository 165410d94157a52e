package couchbase

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
)

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	cfg.Records.BackoffMin, cfg.Records.BackoffMax = time.Millisecond, 10*time.Millisecond
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shut(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// reach probes until the cluster answers, which may take it more than one
// probe's time.
func reach(t testing.TB, s *Store) {
	t.Helper()
	err := s.Probe(t.Context())
	for i := 0; err != nil && i < 20; i++ {
		err = s.Probe(t.Context())
	}
	if err != nil {
		t.Fatalf("probe: %v", err)
	}
}

func doc(i int) records.Document {
	id := fmt.Sprintf("guest/%032d", i)
	return records.Document{ID: id, Body: fmt.Appendf(nil, `{"_id":%q,"logs":["<a> & 1.0e2"],"n":12345678901234567890}`, id)}
}

// put queues documents and returns how many of them were stored.
func put(t testing.TB, s *Store, from, to int) (stored *atomic.Int32) {
	t.Helper()
	stored = new(atomic.Int32)
	for i := from; i < to; i++ {
		d := doc(i)
		d.Stored = func(_ int, err error) {
			if err == nil {
				stored.Add(1)
			}
		}
		if err := s.PutDocument(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	return stored
}

func flush(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func diskSpool(t testing.TB, dir string) *records.DiskSpool {
	t.Helper()
	spool, err := records.OpenSpool(records.SpoolConfig{Dir: dir, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = spool.Close() })
	return spool
}

// TestRecordsArriveAsWritten: byte for byte, each once, also when it is sent
// again.
func TestRecordsArriveAsWritten(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	s := open(t, m.config())
	defer shut(t, s)
	reach(t, s)
	first := put(t, s, 0, 500)
	flush(t, s)
	again := put(t, s, 490, 510)
	flush(t, s)
	if first.Load() != 500 || again.Load() != 20 {
		t.Errorf("%d of 500 and %d of 20 called stored", first.Load(), again.Load())
	}
	h := s.Health()
	if !h.OK() || h.Records.Written != 520 || h.Records.Conflicts != 10 || h.BufferedDocs != 0 || h.Records.Requests > 500 {
		t.Errorf("health %+v", h)
	}
	for _, i := range []int{0, 499, 509} {
		if got, ok := m.read(doc(i).ID); !ok || got != string(doc(i).Body) {
			t.Errorf("record %d is %q, want %q", i, got, doc(i).Body)
		}
	}
}

// TestAwayForAWhile: what comes while the cluster takes nothing goes to the
// disk, and to the cluster when that is back.
func TestAwayForAWhile(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	spool := diskSpool(t, t.TempDir())
	cfg := m.config()
	cfg.Records.Spool = spool
	s := open(t, cfg)
	defer shut(t, s)
	put(t, s, 0, 1)
	flush(t, s)
	m.fail(temporary, -1)
	put(t, s, 1, 2)
	for s.Health().Writes.OK() {
		runtime.Gosched()
	}
	stored := put(t, s, 2, 50)
	if n := stored.Load(); n != 48 {
		t.Errorf("%d of 48 called stored by the spool", n)
	}
	if h := s.Health(); h.Records.Spooled < 48 || h.Writes.LastError == "" || h.Writes.Since.IsZero() {
		t.Errorf("health %+v", h)
	}
	m.fail(success, 0)
	for i := 50; spool.Documents() > 0 || s.Health().BufferedDocs > 0; i++ {
		put(t, s, i, i+1)
		flush(t, s)
	}
	if h := s.Health(); !h.OK() {
		t.Errorf("health %+v", h)
	}
	for i := range 50 {
		if _, ok := m.read(doc(i).ID); !ok {
			t.Errorf("record %d is lost", i)
		}
	}
}

// TestRecordsOutliveAProcess: a cluster that never came leaves records to the
// spool, and the next process writes them.
func TestRecordsOutliveAProcess(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	dir := t.TempDir()
	spool := diskSpool(t, dir)
	cfg := m.config()
	cfg.Records.Spool = spool
	away := cfg
	away.Connection = "couchbase://127.0.0.1:1"
	s := open(t, away)
	put(t, s, 0, 20)
	began := time.Now()
	shut(t, s)
	t.Logf("closed after %s", time.Since(began))
	if n := spool.Documents(); n != 20 {
		t.Fatalf("%d records in the spool, want 20", n)
	}
	s = open(t, cfg)
	defer shut(t, s)
	for i := 20; spool.Documents() > 0; i++ {
		put(t, s, i, i+1)
		flush(t, s)
	}
	for i := range 20 {
		if _, ok := m.read(doc(i).ID); !ok {
			t.Errorf("record %d is lost", i)
		}
	}
}

// TestRefusedForGood: a record that the cluster will never take becomes a dead
// letter, and one that is too large keeps its result without its logs.
func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	cfg := m.config()
	dir := t.TempDir()
	cfg.Records.DeadLetters = records.DeadLetterDir{Dir: dir}
	s := open(t, cfg)
	defer shut(t, s)
	reach(t, s)
	m.fail(invalid, 1)
	put(t, s, 0, 1)
	flush(t, s)
	letters, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	if len(letters) != 1 || s.Health().Records.DeadLettered != 1 {
		t.Fatalf("dead letters %v, health %+v", letters, s.Health())
	}
	if text, _ := os.ReadFile(letters[0]); !strings.Contains(string(text), doc(0).ID) {
		t.Errorf("dead letter %s", text)
	}
	m.fail(tooBig, 1)
	put(t, s, 1, 2)
	flush(t, s)
	if got, ok := m.read(doc(1).ID); !ok || strings.Contains(got, "<a>") || !strings.Contains(got, doc(1).ID) {
		t.Errorf("a record that was too large: %q", got)
	}
	if h := s.Health(); !h.OK() || h.Records.Rejected != 1 {
		t.Errorf("health %+v", h)
	}
}

// TestProbeReportsWhatIsWrong, and which setting to check. The mock takes any
// password; that a user may not write is its answer.
func TestProbeReportsWhatIsWrong(t *testing.T) {
	cfg := Config{Connection: "couchbase://127.0.0.1:1", Username: "u", Password: "of a test", Bucket: mockBucket}
	reports := func(s *Store, want ...string) {
		t.Helper()
		defer shut(t, s)
		err := s.Probe(t.Context())
		lacks := func(text string) bool { return err != nil && !strings.Contains(err.Error(), text) }
		for range 10 { // a cluster that is slow does not answer in a probe's time
			if !slices.ContainsFunc(want, lacks) {
				break
			}
			err = s.Probe(t.Context())
		}
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), cfg.Password) {
				t.Errorf("want %q, got %v", text, err)
			}
		}
	}
	reports(open(t, cfg), mockBucket, "whisk.gpu.couchbase.connection")

	m := startMock(t)
	good := m.config()
	good.Bucket = "another"
	reports(open(t, good), "another", "whisk.gpu.couchbase.username, password, or bucket")
	good.Bucket = mockBucket
	s := open(t, good)
	m.fail(mayNot, -1)
	reports(s, "authentication", "whisk.gpu.couchbase.username")

	// A certificate that is not trusted: before anything of Couchbase's is stderr.
	listener := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(listener.Close)
	cfg.Connection = "couchbases://" + listener.Listener.Addr().String()
	reports(open(t, cfg), "certificate signed by unknown authority", "whisk.gpu.couchbase.certificate")
	cfg.Certificate = filepath.Join(t.TempDir(), "ca.pem")
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listener.Certificate().Raw})
	if err := os.WriteFile(cfg.Certificate, trusted, 0o600); err != nil {
		t.Fatal(err)
	}
	reports(open(t, cfg), "whisk.gpu.couchbase.connection") // trusted, and nothing of Couchbase's
}

func TestOpenRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Connection: "http://host"}, "http://host"},
		{Config{Connection: "couchbases://host", Certificate: empty}, empty},
		{Config{Connection: "couchbases://host", Certificate: empty + ".missing"}, ".missing"},
	} {
		c.cfg.Username, c.cfg.Password, c.cfg.Bucket = "u", "p", "b"
		if s, err := Open(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.cfg, err)
			if err == nil {
				_ = s.Close()
			}
		}
	}
}

// TestMeaning: what is not known to be about a document is no reason to give it
// up.
func TestMeaning(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{gocb.ErrDocumentExists, records.ErrExists},
		{gocb.ErrValueTooLarge, records.ErrTooLarge},
		{gocb.ErrInvalidArgument, records.ErrRefused},
		{gocb.ErrUnambiguousTimeout, records.ErrUnavailable},
		{gocb.ErrAmbiguousTimeout, records.ErrUnavailable},
		{gocb.ErrAuthenticationFailure, records.ErrUnavailable},
		{gocb.ErrCollectionNotFound, records.ErrUnavailable},
		{context.DeadlineExceeded, records.ErrUnavailable},
		{errors.New("something new"), records.ErrUnavailable},
	} {
		if got := meaning(c.err); !errors.Is(got, c.want) || !errors.Is(got, c.err) || got.Error() != c.err.Error() {
			t.Errorf("%v means %v, want %v", c.err, got, c.want)
		}
	}
	if meaning(nil) != nil {
		t.Error("no error means one")
	}
}
