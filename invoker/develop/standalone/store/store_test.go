package store

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-kivik/kivik/v4"
	"github.com/go-kivik/kivik/v4/couchdb"
	bolt "go.etcd.io/bbolt"
)

const (
	testUser     = "u"
	testPassword = "p"
)

func serve(t testing.TB, path string) (*Store, *httptest.Server) {
	t.Helper()
	s, err := Open(Config{Path: path, User: testUser, Password: testPassword})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(func() { srv.Close(); _ = s.Close() })
	return s, srv
}

func client(t testing.TB, srv *httptest.Server) *kivik.Client {
	t.Helper()
	c, err := kivik.New("couch", srv.URL, couchdb.BasicAuth(testUser, testPassword), couchdb.OptionNoRequestCompression())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newDB(t testing.TB) (*kivik.DB, *httptest.Server) {
	t.Helper()
	_, srv := serve(t, filepath.Join(t.TempDir(), "s.db"))
	c := client(t, srv)
	if err := c.CreateDB(t.Context(), "whisks"); err != nil {
		t.Fatal(err)
	}
	return c.DB("whisks"), srv
}

// call sends a request as it stands and gives the status and body.
func call(t testing.TB, srv *httptest.Server, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(testUser, testPassword)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(b))
}

func status(err error) int {
	return kivik.HTTPStatus(err)
}

func TestDocumentLifeThroughKivik(t *testing.T) {
	db, _ := newDB(t)
	ctx := t.Context()
	id := "guest/my action&more+x"
	rev1, err := db.Put(ctx, id, map[string]any{"n": 1})
	if err != nil || !strings.HasPrefix(rev1, "1-") {
		t.Fatalf("put: rev %q, err %v", rev1, err)
	}
	if _, err := db.Put(ctx, id, map[string]any{"n": 2}); status(err) != 409 {
		t.Fatalf("put without revision: %v, want 409", err)
	}
	rev2, err := db.Put(ctx, id, map[string]any{"_rev": rev1, "n": 2})
	if err != nil || !strings.HasPrefix(rev2, "2-") {
		t.Fatalf("update: rev %q, err %v", rev2, err)
	}
	var doc struct {
		ID  string `json:"_id"`
		Rev string `json:"_rev"`
		N   int    `json:"n"`
	}
	if err := db.Get(ctx, id).ScanDoc(&doc); err != nil || doc.ID != id || doc.Rev != rev2 || doc.N != 2 {
		t.Fatalf("get: %+v, err %v", doc, err)
	}
	if _, err := db.Delete(ctx, id, rev1); status(err) != 409 {
		t.Fatalf("delete of an old revision: %v, want 409", err)
	}
	if _, err := db.Delete(ctx, id, rev2); err != nil {
		t.Fatal(err)
	}
	if err := db.Get(ctx, id).ScanDoc(&doc); status(err) != 404 {
		t.Fatalf("get after delete: %v, want 404", err)
	}
	rev4, err := db.Put(ctx, id, map[string]any{"n": 4})
	if err != nil || !strings.HasPrefix(rev4, "4-") {
		t.Fatalf("put after delete: rev %q, err %v; want the count to go on", rev4, err)
	}
}

func TestBodyKeepsItsText(t *testing.T) {
	db, srv := newDB(t)
	_ = db
	body := `{"z":1.0,"a":1E+3,"big":12345678901234567890.123,"s":"<&>\u2028"}`
	if code, answer := call(t, srv, "PUT", "/whisks/x", body); code != 201 {
		t.Fatalf("put: %d %s", code, answer)
	}
	_, got := call(t, srv, "GET", "/whisks/x", "")
	_, after, _ := strings.Cut(got, `",`)
	_, after, _ = strings.Cut(after, `",`)
	if "{"+after != body {
		t.Errorf("got %s, want the members as sent: %s", got, body)
	}
}

func TestAttachmentsThroughKivik(t *testing.T) {
	db, _ := newDB(t)
	ctx := t.Context()
	rev, err := db.Put(ctx, "guest/a", map[string]any{"exec": map[string]any{"kind": "nodejs:20"}, "namespace": "guest", "updated": 5})
	if err != nil {
		t.Fatal(err)
	}
	code := strings.Repeat("code ", 5000)
	rev, err = db.PutAttachment(ctx, "guest/a", &kivik.Attachment{
		Filename: "1e612179", ContentType: "text/plain; charset=UTF-8", Content: io.NopCloser(strings.NewReader(code)),
	}, kivik.Rev(rev))
	if err != nil {
		t.Fatal(err)
	}
	att, err := db.GetAttachment(ctx, "guest/a", "1e612179")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(att.Content)
	if string(got) != code || att.ContentType != "text/plain; charset=UTF-8" {
		t.Fatalf("attachment of %d bytes, type %q", len(got), att.ContentType)
	}
	var doc struct {
		Rev  string          `json:"_rev"`
		Atts map[string]stub `json:"_attachments"`
	}
	if err := db.Get(ctx, "guest/a").ScanDoc(&doc); err != nil {
		t.Fatal(err)
	}
	if s := doc.Atts["1e612179"]; !s.Stub || s.Length != len(code) || s.RevPos != 2 || doc.Rev != rev {
		t.Fatalf("stub %+v at %s, want it stubbed at %s", s, doc.Rev, rev)
	}
	if _, err = db.Put(ctx, "guest/a", map[string]any{"_rev": rev, "v": 2}); err != nil {
		t.Fatal(err)
	}
	if _, err = db.GetAttachment(ctx, "guest/a", "1e612179"); status(err) != 404 {
		t.Fatalf("an attachment that an update does not name stayed: %v", err)
	}
}

func TestBulkDocsAnswersEach(t *testing.T) {
	db, _ := newDB(t)
	ctx := t.Context()
	if _, err := db.Put(ctx, "guest/old", map[string]any{}); err != nil {
		t.Fatal(err)
	}
	results, err := db.BulkDocs(ctx, []any{
		map[string]any{"_id": "guest/new", "activationId": "a"},
		map[string]any{"_id": "guest/old", "activationId": "b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Error != nil || !strings.HasPrefix(results[0].Rev, "1-") {
		t.Errorf("new document: %+v", results[0])
	}
	if status(results[1].Error) != 409 {
		t.Errorf("existing document: %+v, want a conflict", results[1])
	}
}

func TestIndexesFollowUpdatesAndDeletes(t *testing.T) {
	db, srv := newDB(t)
	rev, err := db.Put(t.Context(), "guest/a", map[string]any{"namespace": "guest", "name": "a", "exec": map[string]any{}, "updated": 1})
	if err != nil {
		t.Fatal(err)
	}
	rev, err = db.Put(t.Context(), "guest/a", map[string]any{"_rev": rev, "namespace": "guest", "name": "a", "exec": map[string]any{}, "updated": 2})
	if err != nil {
		t.Fatal(err)
	}
	countRows := func() string {
		_, body := call(t, srv, "GET", "/whisks/_design/whisks.v2.1.0/_view/actions", "")
		return body
	}
	if got := countRows(); got != `{"rows":[{"key":null,"value":1}]}` {
		t.Errorf("after update: %s", got)
	}
	if _, err := db.Delete(t.Context(), "guest/a", rev); err != nil {
		t.Fatal(err)
	}
	if got := countRows(); got != `{"rows":[]}` {
		t.Errorf("after delete: %s", got)
	}
}

func TestRefusals(t *testing.T) {
	_, srv := newDB(t)
	cases := []struct {
		method, path, body string
		want               int
		word               string
	}{
		{"GET", "/nodb/x", "", 404, "not_found"},
		{"PUT", "/whisks", "", 412, "file_exists"},
		{"PUT", "/Bad", "", 400, "illegal_database_name"},
		{"GET", "/whisks/none", "", 404, "not_found"},
		{"PUT", "/whisks/x", `{"a":`, 400, "bad_request"},
		{"PUT", "/whisks/x", `[]`, 400, "bad_request"},
		{"PUT", "/whisks/x", `{"_weird":1}`, 400, "doc_validation"},
		{"PUT", "/whisks/_x", `{}`, 400, ""},
		{"PUT", "/whisks/x", `{"_id":"y"}`, 400, "bad_request"},
		{"PUT", "/whisks/x", `{"_rev":"1-abc"}`, 409, "conflict"},
		{"DELETE", "/whisks/x", "", 404, "not_found"},
		{"POST", "/whisks/_bulk_docs", `{}`, 400, "bad_request"},
		{"POST", "/whisks/_bulk_docs", `{"docs":[],"new_edits":false}`, 501, "not_implemented"},
		{"GET", "/whisks/_design/x/_view/y", "", 404, "not_found"},
		{"GET", "/whisks/_design/whisks.v2.1.0/_view/actions?startkey={", "", 400, "query_parse_error"},
		{"GET", "/whisks/_design/whisks.v2.1.0/_view/actions?limit=-1", "", 400, "query_parse_error"},
		{"GET", "/whisks/_design/whisks.v2.1.0/_view/actions?reduce=perhaps", "", 400, "query_parse_error"},
		{"GET", "/whisks/_changes", "", 501, "not_implemented"},
		{"GET", "/_all_dbs", "", 501, "not_implemented"},
		{"PUT", "/whisks/x", `{"_attachments":{"a":{"data":"AA=="}}}`, 501, "not_implemented"},
		{"PUT", "/whisks/x", `{"_attachments":{"a":{"stub":true}}}`, 412, "missing_stub"},
		{"PATCH", "/whisks/x", "", 405, "method_not_allowed"},
	}
	for _, c := range cases {
		code, body := call(t, srv, c.method, c.path, c.body)
		if code != c.want && c.word != "" || !strings.Contains(body, c.word) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.path, c.body, code, body, c.want, c.word)
		}
	}
	res, err := http.Get(srv.URL + "/whisks/x")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 401 {
		t.Errorf("without credentials: %d, want 401", res.StatusCode)
	}
}

func TestWhatWasAnsweredSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s, err := Open(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	call(t, srv, "PUT", "/db", "")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if code, body := call(t, srv, "PUT", fmt.Sprintf("/db/d%02d", i), `{"n":1}`); code != 201 {
				t.Error(code, body)
			}
		})
	}
	wg.Wait()
	srv.Close()
	// As after kill -9: a copy of the file as it lies on disk, nothing flushed.
	if err := s.db.View(func(tx *bolt.Tx) error { return tx.CopyFile(path+".copy", 0o600) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(Config{Path: path + ".copy"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	srv = httptest.NewServer(s)
	defer srv.Close()
	_, body := call(t, srv, "GET", "/db", "")
	if !strings.Contains(body, `"doc_count":50`) {
		t.Errorf("after reopening: %s", body)
	}
}

func TestWritesAfterCloseFail(t *testing.T) {
	s, err := Open(Config{Path: filepath.Join(t.TempDir(), "s.db")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("PUT", "/db", nil))
	if w.Code != 500 {
		t.Errorf("a write after close: %d, want 500", w.Code)
	}
}

// A change that is refused does not undo those that share its commit.
func TestOneRefusalDoesNotSpoilItsGroup(t *testing.T) {
	_, srv := newDB(t)
	call(t, srv, "PUT", "/whisks/taken", `{}`)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			path, want := fmt.Sprintf("/whisks/d%02d", i), 201
			if i%2 == 1 {
				path, want = "/whisks/taken", 409
			}
			if code, body := call(t, srv, "PUT", path, `{}`); code != want {
				t.Errorf("%s: %d %s, want %d", path, code, body, want)
			}
		})
	}
	wg.Wait()
	if _, body := call(t, srv, "GET", "/whisks", ""); !strings.Contains(body, `"doc_count":21`) {
		t.Errorf("%s, want 21 documents", body)
	}
}
