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
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	cfg.Records.BackoffMin, cfg.Records.BackoffMax = time.Millisecond, 10*time.Millisecond
	s, err := Open(cfg)
	check.NoError(t, err)
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
	check.NoError(t, err)
}

func doc(i int) records.Document {
	id := fmt.Sprintf("guest/%032d", i)
	return records.Document{ID: id, Body: fmt.Appendf(nil, `{"_id":%q,"logs":["<a> & 1.0e2"],"n":12345678901234567890}`, id)}
}

// put queues documents and returns the counter of stored documents.
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
		check.NoError(t, s.PutDocument(t.Context(), d))
	}
	return stored
}

func flush(t testing.TB, s *Store) {
	t.Helper()
	check.NoError(t, s.Flush(t.Context()))
}

func diskSpool(t testing.TB, dir string) *records.DiskSpool {
	t.Helper()
	spool, err := records.OpenSpool(records.SpoolConfig{Dir: dir, Timeout: time.Minute})
	check.NoError(t, err)
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
	check.Equal(t, first.Load(), 500)
	check.Equal(t, again.Load(), 20)
	h := s.Health()
	check.That(check.Must(t), h.OK(), "health %+v", h)
	check.Equal(t, h.Records.Written, 520)
	check.Equal(t, h.Records.Conflicts, 10)
	check.Equal(t, h.BufferedDocs, 0)
	check.AtMost(t, h.Records.Requests, 500)
	for _, i := range []int{0, 499, 509} {
		got, ok := m.read(doc(i).ID)
		check.That(check.Must(t), ok, "record %d is %q, want %q", i, got, doc(i).Body)
		check.Equal(t, got, string(doc(i).Body), "record %d is %q, want %q", i, got, doc(i).Body)
	}
}

// TestAwayForAWhile: while the cluster is unreachable, records go to the disk, and later
// from there to the cluster.
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
	check.Equal(t, stored.Load(), 48, "of 48 called stored by the spool")
	h := s.Health()
	check.AtLeast(t, h.Records.Spooled, 48)
	check.That(t, h.Writes.LastError != "", "health %+v", h)
	check.That(t, !h.Writes.Since.IsZero(), "health %+v", h)
	m.fail(success, 0)
	for i := 50; spool.Documents() > 0 || s.Health().BufferedDocs > 0; i++ {
		put(t, s, i, i+1)
		flush(t, s)
	}
	h = s.Health()
	check.That(t, h.OK(), "health %+v", h)
	for i := range 50 {
		_, ok := m.read(doc(i).ID)
		check.That(t, ok, "record %d is lost", i)
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
	check.Equal(check.Must(t), spool.Documents(), 20, "records in the spool")
	s = open(t, cfg)
	defer shut(t, s)
	for i := 20; spool.Documents() > 0; i++ {
		put(t, s, i, i+1)
		flush(t, s)
	}
	for i := range 20 {
		_, ok := m.read(doc(i).ID)
		check.That(t, ok, "record %d is lost", i)
	}
}

// TestRefusedForAWhile: a record that the cluster refuses is kept and tried again, and one
// that is too large keeps its result without its logs.
func TestRefusedForAWhile(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	cfg := m.config()
	cfg.Records.DeadLetters = records.DeadLetterDir{Dir: t.TempDir()}
	s := open(t, cfg)
	defer shut(t, s)
	reach(t, s)
	m.fail(invalid, 3)
	put(t, s, 0, 1)
	flush(t, s)
	_, ok := m.read(doc(0).ID)
	check.That(t, ok, "the refused record is not written: %+v", s.Health())
	check.Equal(t, s.Health().Records.DeadLettered, 0)
	m.fail(tooBig, 1)
	put(t, s, 1, 2)
	flush(t, s)
	got, ok := m.read(doc(1).ID)
	check.That(check.Must(t), ok, "a record that was too large: %q", got)
	check.Lacks(t, got, "<a>", "a record that was too large")
	check.Contains(t, got, doc(1).ID, "a record that was too large")
	h := s.Health()
	check.That(check.Must(t), h.OK(), "health %+v", h)
	check.Equal(t, h.Records.Rejected, 0)
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
			check.ErrorContains(check.Must(t), err, text)
			check.Lacks(t, err.Error(), cfg.Password)
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
	check.NoError(t, os.WriteFile(cfg.Certificate, trusted, 0o600))
	reports(open(t, cfg), "whisk.gpu.couchbase.connection") // trusted, and nothing of Couchbase's
}

func TestOpenRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	check.NoError(t, os.WriteFile(empty, []byte("none"), 0o600))
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Connection: "http://host"}, "http://host"},
		{Config{Connection: "couchbases://host", Certificate: empty}, empty},
		{Config{Connection: "couchbases://host", Certificate: empty + ".missing"}, ".missing"},
	} {
		c.cfg.Username, c.cfg.Password, c.cfg.Bucket = "u", "p", "b"
		s, err := Open(c.cfg)
		check.ErrorContains(t, err, c.want, "%+v", c.cfg)
		if err == nil {
			_ = s.Close()
		}
	}
}

// TestMeaning: a record is given up only for an error that is known to concern its
// document.
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
		got := meaning(c.err)
		check.ErrorIs(t, got, c.want)
		check.ErrorIs(t, got, c.err)
		check.Equal(t, got.Error(), c.err.Error())
	}
	check.NoError(t, meaning(nil), "no error means one")
}
