package couchdb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-kivik/kivik/v4"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// peers are the servers to test with. The first is one that
// GPUWHISK_TEST_COUCHDB gives by its address; the second is pouchdb-server, an
// independent implementation of the same API, which the test starts where it
// finds one. One of the two must be there.
func peers() map[string]func(t testing.TB) Config {
	return map[string]func(t testing.TB) Config{"given": givenServer, "pouchdb": startPouchDB}
}

const givenVariable = "GPUWHISK_TEST_COUCHDB"

func givenServer(t testing.TB) Config {
	t.Helper()
	address := os.Getenv(givenVariable)
	if address == "" {
		t.Skip("no CouchDB: set " + givenVariable + "=http://user:pass@host:5984")
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(givenVariable + " is no address")
	}
	password, _ := u.User.Password()
	cfg := Config{Username: u.User.Username(), Password: password}
	u.User = nil
	cfg.URL = strings.TrimSuffix(u.String(), "/")
	return databases(t, cfg)
}

// pouchBinary finds pouchdb-server below GPUWHISK_TEST_POUCHDB, the directory
// it was installed into with npm, or on the path.
func pouchBinary(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("GPUWHISK_TEST_POUCHDB"); dir != "" {
		return filepath.Join(dir, "node_modules", ".bin", "pouchdb-server")
	}
	path, err := exec.LookPath("pouchdb-server")
	if err == nil {
		return path
	}
	if os.Getenv(givenVariable) != "" {
		t.Skip("no pouchdb-server to start, but a server is given")
	}
	peertest.Missing(t, "no pouchdb-server: npm install pouchdb-server@4.2.0 into a directory and name it in GPUWHISK_TEST_POUCHDB")
	return ""
}

// startPouchDB runs a server with its data in memory until the test ends.
func startPouchDB(t testing.TB) Config {
	t.Helper()
	binary := pouchBinary(t)
	port := freePort(t)
	var out bytes.Buffer
	cmd := exec.Command(binary, "--in-memory", "--host", "127.0.0.1", "-p", strconv.Itoa(port))
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &out, &out
	if err := cmd.Start(); err != nil {
		peertest.Missing(t, "pouchdb-server does not start: "+err.Error())
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	cfg := Config{URL: fmt.Sprintf("http://127.0.0.1:%d", port), Username: fakeUser, Password: fakePass}
	waitFor(t, cfg.URL)
	body := strings.NewReader(strconv.Quote(fakePass))
	send(t, http.MethodPut, cfg.URL+"/_config/admins/"+fakeUser, body)
	return databases(t, cfg)
}

// freePort is a port without a listener. It lies below those that Linux gives
// to clients: any connection could have one of these before the server listens.
// Packages are tested at once: each has a thousand ports of its own.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(1000)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// waitFor polls an address until it answers.
func waitFor(t testing.TB, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			_ = answer.Body.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("nothing answers at %s", address)
		}
	}
}

func send(t testing.TB, method, address string, body *strings.Reader) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode >= 300 {
		t.Fatalf("%s: %s", method, answer.Status)
	}
}

// databases makes the three databases of a test and removes them after it.
func databases(t testing.TB, cfg Config) Config {
	t.Helper()
	admin, err := dial(cfg, newTransport())
	if err != nil {
		t.Fatal(err)
	}
	prefix := fmt.Sprintf("gpuwhisk_test_%d_", time.Now().UnixNano())
	cfg.Whisks, cfg.Subjects, cfg.Activations = prefix+"whisks", prefix+"subjects", prefix+"activations"
	for _, name := range []string{cfg.Whisks, cfg.Subjects, cfg.Activations} {
		if err := admin.CreateDB(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.DestroyDB(context.Background(), name) })
	}
	cfg.Records.BackoffMin = 10 * time.Millisecond
	return cfg
}

// blockedView is what a deployment puts into the database of subjects.
const blockedView = `{"_id":"_design/namespaceThrottlings","language":"javascript","views":{"blockedNamespaces":{` +
	`"map":"function (doc) { if (doc._id.indexOf('/limits') >= 0) { if (doc.concurrentInvocations === 0 || doc.invocationsPerMinute === 0) {` +
	` emit(doc._id.substring(0, doc._id.indexOf('/')), 1); } } else if (doc.subject && doc.namespaces && doc.blocked) {` +
	` doc.namespaces.forEach(function(n) { emit(n.name, 1); }); } }","reduce":"_sum"}}}`

func TestPeers(t *testing.T) {
	for name, start := range peers() {
		t.Run(name, func(t *testing.T) {
			cfg := start(t)
			admin, err := dial(cfg, newTransport())
			if err != nil {
				t.Fatal(err)
			}
			t.Run("actions", func(t *testing.T) { peerActions(t, cfg, admin.DB(cfg.Whisks)) })
			t.Run("records", func(t *testing.T) { peerRecords(t, cfg, admin.DB(cfg.Activations)) })
			t.Run("blacklist", func(t *testing.T) { peerBlacklist(t, cfg, admin.DB(cfg.Subjects)) })
			t.Run("bad password", func(t *testing.T) { peerStranger(t, cfg) })
		})
	}
}

func insert(t *testing.T, db *kivik.DB, id, doc string) string {
	t.Helper()
	rev, err := db.Put(t.Context(), id, json.RawMessage(doc))
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func unrevised(doc string) string { return strings.Replace(doc, `"_rev":"",`, "", 1) }

func peerActions(t *testing.T, cfg Config, whisks *kivik.DB) {
	s := open(t, cfg)
	rev := insert(t, whisks, "guest/inline", unrevised(action("inline", "", inlineExec("code é <&>"))))
	a, err := s.Action(t.Context(), "guest/inline", rev)
	if err != nil || a.Exec.Code != "code é <&>" || a.Rev != rev {
		t.Errorf("%v: %+v", err, a)
	}
	exec := `{"kind":"nodejs:20","code":{"attachmentName":"couch:1e612179-e2a0-40bb","attachmentType":"text/plain; charset=UTF-8"},"binary":false}`
	first := insert(t, whisks, "guest/pkg/attached", unrevised(strings.Replace(action("attached", "", exec), "guest/attached", "guest/pkg/attached", 1)))
	code := strings.Repeat("// pad\n", 5000)
	rev, err = whisks.PutAttachment(t.Context(), "guest/pkg/attached", &kivik.Attachment{
		Filename: "1e612179-e2a0-40bb", ContentType: "text/plain; charset=UTF-8",
		Content: io.NopCloser(strings.NewReader(code)),
	}, kivik.Rev(first))
	if err != nil {
		t.Fatal(err)
	}
	a, err = s.Action(t.Context(), "guest/pkg/attached", rev)
	if err != nil || a.Exec.Code != code {
		t.Errorf("attached code: %v", err)
	}
	a, err = s.Action(t.Context(), "guest/pkg/attached", "1-old")
	if err != nil || a.Rev != rev {
		t.Errorf("old revision: %v", err)
	}
	if _, err = s.Action(t.Context(), "guest/never-was", "1-a"); err == nil || !strings.Contains(err.Error(), ErrNotFound.Error()) {
		t.Errorf("missing action: %v", err)
	}
}

func peerRecords(t *testing.T, cfg Config, activations *kivik.DB) {
	s := open(t, cfg)
	const n = 300
	for i := range n {
		r := record(i, fmt.Sprintf(`{"i":%d,"e":1E+3,"text":"é\u0001"}`, i))
		if err := s.PutDocument(t.Context(), records.Document{ID: r.DocumentID(), Body: r.Document(7)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); err != nil { // several requests are on their way at once
		t.Fatal(err)
	}
	again := record(5, `{"other":true}`)
	if err := s.PutDocument(t.Context(), records.Document{ID: again.DocumentID(), Body: again.Document(8)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	stats := s.Health().Records
	if stats.Written != n+1 || stats.Conflicts != 1 || stats.Rejected != 0 {
		t.Errorf("stats %+v", stats)
	}
	var doc json.RawMessage
	if err := activations.Get(t.Context(), again.DocumentID()).ScanDoc(&doc); err != nil {
		t.Fatal(err)
	}
	r, err := activation.DecodeRecord(doc)
	if err != nil || !strings.Contains(string(r.Response.Result), `"i":5`) {
		t.Errorf("%v: %s", err, doc)
	}
}

func peerBlacklist(t *testing.T, cfg Config, subjects *kivik.DB) {
	insert(t, subjects, "_design/namespaceThrottlings", blockedView)
	insert(t, subjects, "evil/limits", `{"concurrentInvocations":0}`)
	insert(t, subjects, "good/limits", `{"concurrentInvocations":5}`)
	s := open(t, cfg)
	// The view answers from its index and brings that up to date afterwards.
	for !s.Blocked("evil") {
		if err := s.RefreshBlacklist(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s.Blocked("good") {
		t.Error("blocked a good namespace")
	}
}

func peerStranger(t *testing.T, cfg Config) {
	if cfg.Username == "" {
		t.Skip("the server given asks for no password")
	}
	cfg.Password = "wrong"
	s := open(t, cfg)
	_, err := s.Action(t.Context(), "guest/inline", "")
	if err == nil || !strings.Contains(err.Error(), activation.ErrUnfetchable.Error()) {
		t.Errorf("error %v", err)
	}
}

// BenchmarkRecords reports how many records a second the fake server, and a real
// one where there is one, take from us.
func BenchmarkRecords(b *testing.B) {
	servers := peers()
	servers["fake"] = func(t testing.TB) Config { return newFake(t).config() }
	for name, start := range servers {
		b.Run(name, func(b *testing.B) {
			s := open(b, start(b))
			b.ReportAllocs()
			start, i := time.Now(), 0
			for b.Loop() {
				r := record(i, `{"payload":"Hello World"}`)
				if err := s.PutDocument(b.Context(), records.Document{ID: r.DocumentID(), Body: r.Document(7)}); err != nil {
					b.Fatal(err)
				}
				i++
			}
			if err := s.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			stats := s.Health().Records
			b.ReportMetric(float64(stats.Written)/time.Since(start).Seconds(), "records/s")
			b.ReportMetric(float64(stats.Written)/float64(stats.Requests), "docs/request")
		})
	}
}
