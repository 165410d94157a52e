package couchdb

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-kivik/kivik/v4"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// peers returns the servers for tests: a server at the address in GPUWHISK_TEST_COUCHDB,
// and pouchdb-server, an independent implementation of the same API, which the test
// starts if it is installed. One of the two is required.
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
	check.NoError(t, err)
	password, _ := u.User.Password()
	cfg := Config{Username: u.User.Username(), Password: password}
	u.User = nil
	cfg.URL = strings.TrimSuffix(u.String(), "/")
	return databases(t, cfg)
}

// startPouchDB runs a server with its data in memory until the test ends.
func startPouchDB(t testing.TB) Config {
	t.Helper()
	if _, err := peertest.PouchDBProgram(); err != nil && os.Getenv(givenVariable) != "" {
		t.Skip("no pouchdb-server to start, but a server is given")
	}
	address := peertest.StartPouchDB(t, 10000, fakeUser, fakePass)
	return databases(t, Config{URL: address, Username: fakeUser, Password: fakePass})
}

// databases creates the three databases of a test and removes them afterwards.
func databases(t testing.TB, cfg Config) Config {
	t.Helper()
	admin, err := dial(cfg, newTransport())
	check.NoError(t, err)
	prefix := fmt.Sprintf("gpuwhisk_test_%d_", time.Now().UnixNano())
	cfg.Whisks, cfg.Subjects, cfg.Activations = prefix+"whisks", prefix+"subjects", prefix+"activations"
	for _, name := range []string{cfg.Whisks, cfg.Subjects, cfg.Activations} {
		check.NoError(t, admin.CreateDB(t.Context(), name))
		t.Cleanup(func() { _ = admin.DestroyDB(context.Background(), name) })
	}
	cfg.Records.BackoffMin = 10 * time.Millisecond
	return cfg
}

// blockedView is the design document that deployments add to the database of subjects.
const blockedView = `{"_id":"_design/namespaceThrottlings","language":"javascript","views":{"blockedNamespaces":{` +
	`"map":"function (doc) { if (doc._id.indexOf('/limits') >= 0) { if (doc.concurrentInvocations === 0 || doc.invocationsPerMinute === 0) {` +
	` emit(doc._id.substring(0, doc._id.indexOf('/')), 1); } } else if (doc.subject && doc.namespaces && doc.blocked) {` +
	` doc.namespaces.forEach(function(n) { emit(n.name, 1); }); } }","reduce":"_sum"}}}`

func TestPeers(t *testing.T) {
	for name, start := range peers() {
		t.Run(name, func(t *testing.T) {
			cfg := start(t)
			admin, err := dial(cfg, newTransport())
			check.NoError(t, err)
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
	check.NoError(t, err)
	return rev
}

func unrevised(doc string) string { return strings.Replace(doc, `"_rev":"",`, "", 1) }

func peerActions(t *testing.T, cfg Config, whisks *kivik.DB) {
	s := open(t, cfg)
	rev := insert(t, whisks, "guest/inline", unrevised(action("inline", "", inlineExec("code é <&>"))))
	a, err := s.Action(t.Context(), "guest/inline", rev)
	check.NoError(t, err)
	check.Equal(t, a.Exec.Code, "code é <&>")
	check.Equal(t, a.Rev, rev)
	exec := `{"kind":"nodejs:20","code":{"attachmentName":"couch:1e612179-e2a0-40bb","attachmentType":"text/plain; charset=UTF-8"},"binary":false}`
	first := insert(t, whisks, "guest/pkg/attached", unrevised(strings.Replace(action("attached", "", exec), "guest/attached", "guest/pkg/attached", 1)))
	code := strings.Repeat("// pad\n", 5000)
	rev, err = whisks.PutAttachment(t.Context(), "guest/pkg/attached", &kivik.Attachment{
		Filename: "1e612179-e2a0-40bb", ContentType: "text/plain; charset=UTF-8",
		Content: io.NopCloser(strings.NewReader(code)),
	}, kivik.Rev(first))
	check.NoError(t, err)
	a, err = s.Action(t.Context(), "guest/pkg/attached", rev)
	check.NoError(t, err)
	check.Equal(t, a.Exec.Code, code)
	a, err = s.Action(t.Context(), "guest/pkg/attached", "1-old")
	check.NoError(t, err)
	check.Equal(t, a.Rev, rev)
	_, err = s.Action(t.Context(), "guest/never-was", "1-a")
	check.ErrorContains(t, err, ErrNotFound.Error())
}

func peerRecords(t *testing.T, cfg Config, activations *kivik.DB) {
	s := open(t, cfg)
	const n = 300
	for i := range n {
		r := record(i, fmt.Sprintf(`{"i":%d,"e":1E+3,"text":"é\u0001"}`, i))
		check.NoError(t, s.PutDocument(t.Context(), records.Document{ID: r.DocumentID(), Body: r.Document(7)}))
	}
	if err := s.Flush(t.Context()); err != nil { // several requests are in progress at once
		t.Fatal(err)
	}
	again := record(5, `{"other":true}`)
	check.NoError(t, s.PutDocument(t.Context(), records.Document{ID: again.DocumentID(), Body: again.Document(8)}))
	check.NoError(t, s.Flush(t.Context()))
	stats := s.Health().Records
	check.Equal(t, stats.Written, n+1)
	check.Equal(t, stats.Conflicts, 1)
	check.Equal(t, stats.Rejected, 0)
	var doc json.RawMessage
	check.NoError(t, activations.Get(t.Context(), again.DocumentID()).ScanDoc(&doc))
	r, err := activation.DecodeRecord(doc)
	check.NoError(t, err, "%s", doc)
	check.Contains(t, string(r.Response.Result), `"i":5`, "%v: %s", err, doc)
}

func peerBlacklist(t *testing.T, cfg Config, subjects *kivik.DB) {
	insert(t, subjects, "_design/namespaceThrottlings", blockedView)
	insert(t, subjects, "evil/limits", `{"concurrentInvocations":0}`)
	insert(t, subjects, "good/limits", `{"concurrentInvocations":5}`)
	s := open(t, cfg)
	// The view answers from its index and updates the index afterwards.
	for !s.Blocked("evil") {
		check.NoError(t, s.RefreshBlacklist(t.Context()))
	}
	check.That(t, !s.Blocked("good"), "blocked a good namespace")
}

func peerStranger(t *testing.T, cfg Config) {
	if cfg.Username == "" {
		t.Skip("the server given asks for no password")
	}
	cfg.Password = "wrong"
	s := open(t, cfg)
	_, err := s.Action(t.Context(), "guest/inline", "")
	check.ErrorContains(t, err, activation.ErrUnfetchable.Error())
}

// BenchmarkRecords measures how many records a second the fake server, and a real one if
// available, accept.
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
				check.NoError(b, s.PutDocument(b.Context(), records.Document{ID: r.DocumentID(), Body: r.Document(7)}))
				i++
			}
			check.NoError(b, s.Flush(b.Context()))
			stats := s.Health().Records
			b.ReportMetric(float64(stats.Written)/time.Since(start).Seconds(), "records/s")
			b.ReportMetric(float64(stats.Written)/float64(stats.Requests), "docs/request")
		})
	}
}
