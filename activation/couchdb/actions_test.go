package couchdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestCodeFromEverySource(t *testing.T) {
	f := newFake(t)
	attached := func(name, mediaType, binary string) string {
		return fmt.Sprintf(`{"kind":"nodejs:20","code":{"attachmentName":%q,"attachmentType":%q},"binary":%s}`, name, mediaType, binary)
	}
	f.docs["whisks/guest%2Fstring"] = action("string", "1-a", inlineExec("function main(){}"))
	f.docs["whisks/guest%2Fmem"] = action("mem", "1-a", attached("mem:ZnVuY3Rpb24oKXt9", "text/plain", "false"))
	f.docs["whisks/guest%2Fcouch"] = action("couch", "1-a", attached("couch:1e612179-e2a0", "text/plain", "false"))
	f.files["whisks/guest%2Fcouch/1e612179-e2a0"] = "function main() {}"
	f.docs["whisks/guest%2Fs3"] = action("s3", "1-a", attached("s3:9f1c-4a11", "text/plain", "false"))
	f.docs["whisks/guest%2Fs3gone"] = action("s3gone", "1-a", attached("s3:gone", "text/plain", "false"))
	f.docs["whisks/guest%2Fzip"] = action("zip", "1-a", attached("couch:77", "application/octet-stream", "true"))
	f.files["whisks/guest%2Fzip/77"] = "PK\x00\xff"
	f.docs["whisks/guest%2Flegacy"] = action("legacy", "1-a", attached("code%20file", "text/plain", "false"))
	f.files["whisks/guest%2Flegacy/code%2520file"] = "old"
	f.docs["whisks/guest%2Fhas%20blank%40"] = action("has blank@", "1-a", inlineExec("x y"))
	cfg := f.config()
	cfg.Bucket = bucket{"guest/s3 9f1c-4a11": "code of a bucket"}
	s := open(t, cfg)
	_, err := s.Action(t.Context(), "guest/s3gone", "1-a")
	check.ErrorIs(t, err, ErrNotFound, "code that the bucket lacks")
	for _, c := range []struct {
		id, code string
		binary   bool
	}{
		{"guest/string", "function main(){}", false},
		{"guest/mem", "function(){}", false},
		{"guest/couch", "function main() {}", false},
		{"guest/s3", "code of a bucket", false},
		{"guest/zip", "UEsA/w==", true},
		{"guest/legacy", "old", false},
		{"guest/has blank@", "x y", false},
	} {
		a, err := s.Action(t.Context(), c.id, "1-a")
		if err != nil {
			t.Errorf("%s: %v", c.id, err)
			continue
		}
		check.Equal(t, a.Exec.Code, c.code, "%s", c.id)
		check.Equal(t, a.Exec.Binary, c.binary, "%s", c.id)
		check.That(t, a.Exec.Attachment == nil, "%s: %+v", c.id, a.Exec)
	}
}

// bucket holds code by document and name.
type bucket map[string]string

func (b bucket) Read(_ context.Context, document, name string) ([]byte, bool, error) {
	code, ok := b[document+" "+name]
	return []byte(code), ok, nil
}

func TestActionErrors(t *testing.T) {
	f := newFake(t)
	f.docs["whisks/guest%2Ftrigger"] = `{"_id":"guest/trigger","_rev":"1-a","entityType":"trigger","name":"trigger","namespace":"guest"}`
	f.docs["whisks/guest%2Fkind"] = action("kind", "1-a", `{"kind":"cobol:60","code":"x"}`)
	f.docs["whisks/guest%2Fseq"] = action("seq", "1-a", `{"kind":"sequence","components":[]}`)
	f.docs["whisks/guest%2Fs3"] = action("s3", "1-a", `{"kind":"nodejs:20","code":{"attachmentName":"s3:abc","attachmentType":"t"}}`)
	f.docs["whisks/guest%2Ftorn"] = action("torn", "1-a", `{"kind":"nodejs:20","code":{"attachmentName":"couch:gone","attachmentType":"t"}}`)
	f.docs["whisks/guest%2Fok"] = action("ok", "1-a", inlineExec("c"))
	s := open(t, f.config())
	for _, c := range []struct {
		id     string
		faults []fault
		want   error
	}{
		{"guest/never-was", nil, ErrNotFound},
		{"guest/torn", nil, ErrNotFound},
		{"guest/trigger", nil, activation.ErrIncompatible},
		{"guest/kind", nil, activation.ErrIncompatible},
		{"guest/seq", nil, activation.ErrUnfetchable},
		{"guest/s3", nil, activation.ErrUnfetchable},
		{"guest/ok", []fault{401}, activation.ErrUnfetchable},
		{"guest/ok", []fault{404}, ErrNotFound},
		{"guest/ok", []fault{409}, activation.ErrUnfetchable},
		{"guest/ok", []fault{413}, activation.ErrUnfetchable},
		{"guest/ok", []fault{429, 429, 429}, activation.ErrUnfetchable},
		{"guest/ok", []fault{500, 500, 500}, activation.ErrUnfetchable},
		{"guest/ok", []fault{halfBody, halfBody, halfBody}, activation.ErrUnfetchable},
		{"guest/ok", []fault{hangUp, hangUp, hangUp}, activation.ErrUnfetchable},
		{"guest/ok", []fault{500, 429, none}, nil},
		{"guest/ok", []fault{halfBody}, nil},
	} {
		f.inject(c.faults...)
		_, err := s.Action(t.Context(), c.id, "")
		check.ErrorIs(t, err, c.want, "%s with %v", c.id, c.faults)
		if err != nil && strings.Contains(err.Error(), fakePass) {
			t.Errorf("password in %v", err)
		}
	}
	f.inject(401)
	_, _ = s.Action(t.Context(), "guest/ok", "")
	h := s.Health()
	check.That(t, !h.Reads.OK(), "healthy after 401: %+v", h)
	check.That(t, !h.OK(), "healthy after 401: %+v", h)
	_, err := s.Action(t.Context(), "guest/ok", "")
	check.NoError(t, err)
	check.That(t, s.Health().Reads.OK(), "%v, %+v", err, s.Health().Reads)
}

// TestNotFoundByOthers: a load balancer without a server answers 404, and so does a
// server without the database. Neither answer means that the action does not exist.
func TestNotFoundByOthers(t *testing.T) {
	for name, answer := range map[string]struct{ kind, body string }{
		"load balancer": {"text/plain", "default backend - 404"},
		"no body":       {"application/json", ""},
		"no database":   {"application/json", `{"error":"not_found","reason":"Database does not exist."}`},
		"no file":       {"application/json", `{"error":"not_found","reason":"no_db_file"}`},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", answer.kind)
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, answer.body)
			}))
			defer server.Close()
			cfg := newFake(t).config()
			cfg.URL = server.URL
			_, err := open(t, cfg).Action(t.Context(), "guest/f", "1-a")
			check.ErrorIs(t, err, ErrUnavailable)
			check.That(t, !errors.Is(err, ErrNotFound), "%v", err)
		})
	}
}

// TestCodeThatIsReplaced: while a controller updates an action, its document may name
// code that does not exist yet, or that is deleted before it is read.
func TestCodeThatIsReplaced(t *testing.T) {
	f := newFake(t)
	document := func(rev, name string) string {
		return action("f", rev, fmt.Sprintf(`{"kind":"nodejs:20","code":{"attachmentName":"couch:%s","attachmentType":"t"}}`, name))
	}
	f.docs["whisks/guest%2Ff"] = document("1-a", "old")
	s := open(t, f.config())
	go func() {
		for f.seen("GET /whisks/guest%2Ff/old") == 0 {
			runtime.Gosched()
		}
		f.mu.Lock()
		f.docs["whisks/guest%2Ff"] = document("2-b", "new")
		f.mu.Unlock()
		for f.seen("GET /whisks/guest%2Ff/new") == 0 {
			runtime.Gosched()
		}
		f.mu.Lock()
		f.files["whisks/guest%2Ff/new"] = "the new code"
		f.mu.Unlock()
	}()
	a, err := s.Action(t.Context(), "guest/f", "1-a")
	check.NoError(t, err)
	check.Equal(t, a.Rev, "2-b")
	check.Equal(t, a.Exec.Code, "the new code")
}

// TestAwayIsNotMissing: an unreachable database leads to a different error than a
// missing action, so that a caller may wait.
func TestAwayIsNotMissing(t *testing.T) {
	f := newFake(t)
	f.docs["whisks/guest%2Fok"] = action("ok", "1-a", inlineExec("c"))
	f.docs["whisks"] = `{"db_name":"whisks"}`
	s := open(t, f.config())
	_, err := s.Action(t.Context(), "guest/none", "")
	check.That(t, !errors.Is(err, ErrUnavailable), "missing: %v", err)
	check.ErrorIs(t, err, ErrNotFound)
	check.NoError(t, s.AwaitReads(t.Context()), "wait for a reachable database")
	for _, broken := range []fault{401, 503, 500} {
		f.inject(broken, broken, broken)
		_, err := s.Action(t.Context(), "guest/ok", "")
		check.ErrorIs(t, err, ErrUnavailable, "fault %d", broken)
		check.That(t, !errors.Is(err, ErrNotFound), "fault %d: %v", broken, err)
		f.inject(503, 503)
		var wg sync.WaitGroup
		asked := f.seen("GET /whisks")
		for range 50 {
			wg.Go(func() {
				if err := s.AwaitReads(t.Context()); err != nil {
					t.Errorf("fault %d: wait: %v", broken, err)
				}
			})
		}
		wg.Wait()
		check.Equal(t, f.seen("GET /whisks")-asked, 3, "fault %d", broken)
		check.That(t, s.Health().Reads.OK(), "fault %d: reads still count as failing", broken)
	}
	f.inject(503, 503, 503)
	_, _ = s.Action(t.Context(), "guest/ok", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.inject(503)
	if err := s.AwaitReads(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("wait without time: %v", err)
	}
}

func TestHangingDatabase(t *testing.T) {
	f := newFake(t)
	cfg := f.config()
	cfg.ReadTimeout = 50 * time.Millisecond
	s := open(t, cfg)
	f.inject(hang)
	_, err := s.Action(t.Context(), "guest/a", "1-a")
	check.ErrorIs(t, err, activation.ErrUnfetchable)
	f.inject(hang)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Action(ctx, "guest/b", "1-a")
	check.ErrorIs(t, err, context.Canceled)
}

// TestRevision: a known revision is cached, an unknown one is read, a mismatch returns
// the latest version, and an empty revision is always read.
func TestRevision(t *testing.T) {
	f := newFake(t)
	f.docs["whisks/guest%2Fa"] = action("a", "2-b", inlineExec("two"))
	s := open(t, f.config())
	get := func(rev, wantRev string, wantReads int) {
		t.Helper()
		before := f.seen("GET /whisks")
		a, err := s.Action(t.Context(), "guest/a", rev)
		check.NoError(t, err)
		check.Equal(t, a.Rev, wantRev, "asked for %q", rev)
		check.Equal(t, f.seen("GET /whisks")-before, wantReads, "asked for %q", rev)
	}
	get("1-a", "2-b", 1) // mismatch: the latest version
	get("2-b", "2-b", 0) // now cached
	get("1-a", "2-b", 0) // for a short time, also by the replaced revision
	a, ok := s.Cached("guest/a", "1-a")
	check.That(check.Must(t), ok, "the replacement of a revision is not cached: %t, %+v", ok, a)
	check.Equal(t, a.Rev, "2-b", "the replacement of a revision is not cached")
	s.actions.mu.Lock()
	s.actions.replaced[key{"guest/a", "1-a"}] = replacement{"2-b", time.Now()} // the short time is over
	s.actions.mu.Unlock()
	get("1-a", "2-b", 1)
	s.actions.mu.Lock()
	clear(s.actions.replaced)
	s.actions.mu.Unlock()
	get("", "2-b", 1) // no revision: always read
	f.mu.Lock()
	f.docs["whisks/guest%2Fa"] = action("a", "3-c", inlineExec("three"))
	f.mu.Unlock()
	get("2-b", "2-b", 0) // a revision never changes
	get("3-c", "3-c", 1)
	get("", "3-c", 1)
	a, ok = s.Cached("guest/a", "3-c")
	check.That(check.Must(t), ok, "a revision is not cached: %t, %+v", ok, a)
	check.Equal(t, a.Exec.Code, "three", "a revision is not cached")
	_, ok = s.Cached("guest/a", "1-a")
	check.That(t, !ok, "a replaced revision is still cached")
}

func TestConcurrentReadersShareARequest(t *testing.T) {
	f := newFake(t)
	f.docs["whisks/guest%2Fa"] = action("a", "1-a", inlineExec("x"))
	s := open(t, f.config())
	f.mu.Lock()
	f.gate = make(chan struct{})
	f.mu.Unlock()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := s.Action(t.Context(), "guest/a", "1-a"); err != nil {
				t.Error(err)
			}
		})
	}
	check.Receive(t, f.arrived)
	f.mu.Lock()
	close(f.gate)
	f.gate = nil
	f.mu.Unlock()
	wg.Wait()
	check.Equal(t, f.seen("GET /whisks"), 1)
}

func TestBlacklist(t *testing.T) {
	f := newFake(t)
	f.blocked = []string{"evil", "evil", "worse"}
	s := open(t, f.config())
	check.NoError(t, s.RefreshBlacklist(t.Context()))
	for name, want := range map[string]bool{"evil": true, "worse": true, "guest": false} {
		check.Equal(t, s.Blocked(name), want, "%s is blocked", name)
	}
	f.mu.Lock()
	f.blocked = []string{"worse"}
	f.mu.Unlock()
	err := s.RefreshBlacklist(t.Context())
	check.NoError(t, err, "set was not replaced")
	check.That(t, !s.Blocked("evil"), "set was not replaced: %v", err)
	check.That(t, s.Blocked("worse"), "set was not replaced: %v", err)
	f.Close()
	err = s.RefreshBlacklist(t.Context())
	check.That(check.Must(t), err != nil, "a failed poll must keep the set and show: %v", err)
	check.That(check.Must(t), s.Blocked("worse"), "a failed poll must keep the set and show: %v", err)
	check.That(t, !s.Health().Blacklist.OK(), "a failed poll must keep the set and show: %v", err)
}

func TestCache(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newCache(100, time.Minute)
	k := func(i int) key { return key{"guest/a", fmt.Sprint(i)} }
	for i := range 4 {
		c.put(k(i), &activation.Action{}, 30, now)
	}
	_, ok := c.get(k(0), now)
	check.That(t, !ok, "not bounded: %+v", c.stats)
	check.Equal(t, c.stats.Entries, 3)
	check.Equal(t, c.stats.Bytes, 90)
	c.get(k(1), now.Add(30*time.Second))
	c.put(k(5), &activation.Action{}, 30, now.Add(30*time.Second))
	_, ok = c.get(k(2), now.Add(30*time.Second))
	check.That(t, !ok, "dropped the most recently used action")
	_, ok = c.get(k(1), now.Add(80*time.Second))
	check.That(t, ok, "expired although it was used")
	_, ok = c.get(k(3), now.Add(80*time.Second))
	check.That(t, !ok, "not expired")
	c.put(k(6), &activation.Action{}, 1000, now.Add(80*time.Second))
	_, ok = c.get(k(6), now.Add(80*time.Second))
	check.That(t, !ok, "cached an action larger than the cache")
	c.expire(now.Add(time.Hour))
	check.Equal(t, c.stats.Entries, 0)
	check.Equal(t, c.stats.Bytes, 0)
	check.Equal(t, len(c.entries), 0)
	check.Equal(t, c.order.Len(), 0)
}

func TestClosedStore(t *testing.T) {
	f := newFake(t)
	s, err := Open(f.config(), manifest(t))
	check.NoError(t, err)
	check.NoError(t, s.Close())
	_, err = s.Action(t.Context(), "guest/a", "1-a")
	check.ErrorIs(t, err, records.ErrClosed)
	check.ErrorIs(t, s.PutDocument(t.Context(), records.Document{ID: "guest/1", Body: []byte(`{}`)}), records.ErrClosed)
}

func TestOpenRefusesBadURL(t *testing.T) {
	_, err := Open(Config{URL: "http://a b:-1/"}, manifest(t))
	check.That(t, err != nil, "opened")
}
