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
	if _, err := s.Action(t.Context(), "guest/s3gone", "1-a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("code that is not in the bucket: %v", err)
	}
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
		if a.Exec.Code != c.code || a.Exec.Binary != c.binary || a.Exec.Attachment != nil {
			t.Errorf("%s: %+v", c.id, a.Exec)
		}
	}
}

// bucket has code by document and name.
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
		if !errors.Is(err, c.want) {
			t.Errorf("%s with %v: %v, want %v", c.id, c.faults, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), fakePass) {
			t.Errorf("password in %v", err)
		}
	}
	f.inject(401)
	_, _ = s.Action(t.Context(), "guest/ok", "")
	if h := s.Health(); h.Reads.OK() || h.OK() {
		t.Errorf("healthy after 401: %+v", h)
	}
	if _, err := s.Action(t.Context(), "guest/ok", ""); err != nil || !s.Health().Reads.OK() {
		t.Errorf("%v, %+v", err, s.Health().Reads)
	}
}

// TestNotFoundByOthers: a load balancer without a server behind it answers 404, and so
// does a server without the database. Neither knows whether there is an action.
func TestNotFoundByOthers(t *testing.T) {
	for name, answer := range map[string]struct{ kind, body string }{
		"load balancer": {"text/plain", "default backend - 404"},
		"no body":       {"application/json", ""},
		"no database":   {"application/json", `{"error":"not_found","reason":"Database does not exist."}`},
		"no file of it": {"application/json", `{"error":"not_found","reason":"no_db_file"}`},
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
			if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotFound) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCodeThatIsReplaced: while a controller updates an action, its document names code
// that is not there yet, or that is there no more when it is read.
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
	if err != nil || a.Rev != "2-b" || a.Exec.Code != "the new code" {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestAwayIsNotMissing: the error of a database that is away, for which a
// caller may wait, is not that of a missing action.
func TestAwayIsNotMissing(t *testing.T) {
	f := newFake(t)
	f.docs["whisks/guest%2Fok"] = action("ok", "1-a", inlineExec("c"))
	f.docs["whisks"] = `{"db_name":"whisks"}`
	s := open(t, f.config())
	if _, err := s.Action(t.Context(), "guest/none", ""); errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrNotFound) {
		t.Errorf("missing: %v", err)
	}
	if err := s.AwaitReads(t.Context()); err != nil {
		t.Errorf("wait for a database that is there: %v", err)
	}
	for _, broken := range []fault{401, 503, 500} {
		f.inject(broken, broken, broken)
		if _, err := s.Action(t.Context(), "guest/ok", ""); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotFound) {
			t.Errorf("fault %d: %v", broken, err)
		}
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
		if n := f.seen("GET /whisks") - asked; n != 3 {
			t.Errorf("fault %d: %d requests for 50 callers that wait, want 3", broken, n)
		}
		if !s.Health().Reads.OK() {
			t.Errorf("fault %d: reads still called bad", broken)
		}
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
	if _, err := s.Action(t.Context(), "guest/a", "1-a"); !errors.Is(err, activation.ErrUnfetchable) {
		t.Errorf("error %v", err)
	}
	f.inject(hang)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Action(ctx, "guest/b", "1-a"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestRevision follows what a revision means: cached, read on a miss, the
// latest on a mismatch, always read when there is none.
func TestRevision(t *testing.T) {
	f := newFake(t)
	f.docs["whisks/guest%2Fa"] = action("a", "2-b", inlineExec("two"))
	s := open(t, f.config())
	get := func(rev, wantRev string, wantReads int) {
		t.Helper()
		before := f.seen("GET /whisks")
		a, err := s.Action(t.Context(), "guest/a", rev)
		if err != nil {
			t.Fatal(err)
		}
		if reads := f.seen("GET /whisks") - before; a.Rev != wantRev || reads != wantReads {
			t.Errorf("asked for %q: got %q with %d reads, want %q with %d", rev, a.Rev, reads, wantRev, wantReads)
		}
	}
	get("1-a", "2-b", 1) // mismatch: the latest
	get("2-b", "2-b", 0) // and that is cached
	get("1-a", "2-b", 0) // for a moment also under the name that it replaced
	if a, ok := s.Cached("guest/a", "1-a"); !ok || a.Rev != "2-b" {
		t.Errorf("what replaced a revision is not at hand: %t, %+v", ok, a)
	}
	s.actions.mu.Lock()
	s.actions.replaced[key{"guest/a", "1-a"}] = replacement{"2-b", time.Now()} // the moment is over
	s.actions.mu.Unlock()
	get("1-a", "2-b", 1)
	s.actions.mu.Lock()
	clear(s.actions.replaced)
	s.actions.mu.Unlock()
	get("", "2-b", 1) // no revision: always asked
	f.mu.Lock()
	f.docs["whisks/guest%2Fa"] = action("a", "3-c", inlineExec("three"))
	f.mu.Unlock()
	get("2-b", "2-b", 0) // a revision never changes
	get("3-c", "3-c", 1)
	get("", "3-c", 1)
	if a, ok := s.Cached("guest/a", "3-c"); !ok || a.Exec.Code != "three" {
		t.Errorf("a cached revision is not at hand: %t, %+v", ok, a)
	}
	if _, ok := s.Cached("guest/a", "1-a"); ok {
		t.Error("a revision that is gone is at hand")
	}
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
	<-f.arrived
	f.mu.Lock()
	close(f.gate)
	f.gate = nil
	f.mu.Unlock()
	wg.Wait()
	if n := f.seen("GET /whisks"); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestBlacklist(t *testing.T) {
	f := newFake(t)
	f.blocked = []string{"evil", "evil", "worse"}
	s := open(t, f.config())
	if err := s.RefreshBlacklist(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"evil": true, "worse": true, "guest": false} {
		if got := s.Blocked(name); got != want {
			t.Errorf("%s is blocked: %t", name, got)
		}
	}
	f.mu.Lock()
	f.blocked = []string{"worse"}
	f.mu.Unlock()
	if err := s.RefreshBlacklist(t.Context()); err != nil || s.Blocked("evil") || !s.Blocked("worse") {
		t.Errorf("set was not replaced: %v", err)
	}
	f.Close()
	if err := s.RefreshBlacklist(t.Context()); err == nil || !s.Blocked("worse") || s.Health().Blacklist.OK() {
		t.Errorf("a failed poll must keep the set and show: %v", err)
	}
}

func TestCache(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newCache(100, time.Minute)
	k := func(i int) key { return key{"guest/a", fmt.Sprint(i)} }
	for i := range 4 {
		c.put(k(i), &activation.Action{}, 30, now)
	}
	if _, ok := c.get(k(0), now); ok || c.stats.Entries != 3 || c.stats.Bytes != 90 {
		t.Errorf("not bounded: %+v", c.stats)
	}
	c.get(k(1), now.Add(30*time.Second))
	c.put(k(5), &activation.Action{}, 30, now.Add(30*time.Second))
	if _, ok := c.get(k(2), now.Add(30*time.Second)); ok {
		t.Error("dropped the one that was used last")
	}
	if _, ok := c.get(k(1), now.Add(80*time.Second)); !ok {
		t.Error("expired although it was used")
	}
	if _, ok := c.get(k(3), now.Add(80*time.Second)); ok {
		t.Error("not expired")
	}
	c.put(k(6), &activation.Action{}, 1000, now.Add(80*time.Second))
	if _, ok := c.get(k(6), now.Add(80*time.Second)); ok {
		t.Error("kept what is larger than the cache")
	}
	c.expire(now.Add(time.Hour))
	if c.stats.Entries != 0 || c.stats.Bytes != 0 || len(c.entries) != 0 || c.order.Len() != 0 {
		t.Errorf("left behind: %+v", c.stats)
	}
}

func TestClosedStore(t *testing.T) {
	f := newFake(t)
	s, err := Open(f.config(), manifest(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Action(t.Context(), "guest/a", "1-a"); !errors.Is(err, records.ErrClosed) {
		t.Errorf("action: %v", err)
	}
	if err := s.PutDocument(t.Context(), records.Document{ID: "guest/1", Body: []byte(`{}`)}); !errors.Is(err, records.ErrClosed) {
		t.Errorf("put: %v", err)
	}
}

func TestOpenRefusesBadURL(t *testing.T) {
	if _, err := Open(Config{URL: "http://a b:-1/"}, manifest(t)); err == nil {
		t.Error("opened")
	}
}
