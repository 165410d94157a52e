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

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

const (
	testUser     = "u"
	testPassword = "p"
)

func serve(t testing.TB, path string) (*Store, *httptest.Server) {
	t.Helper()
	s, err := Open(Config{Path: path, User: testUser, Password: testPassword})
	check.NoError(t, err)
	srv := httptest.NewServer(s)
	t.Cleanup(func() { srv.Close(); _ = s.Close() })
	return s, srv
}

// TestOpenNamesTheOtherProcess: a store that another process has open is not opened, and the
// error has the way out.
func TestOpenNamesTheOtherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	serve(t, path)
	_, err := Open(Config{Path: path})
	check.ErrorContains(t, err, "another process has "+path+" open: stop it, or use another directory (--data)")
}

func client(t testing.TB, srv *httptest.Server) *kivik.Client {
	t.Helper()
	c, err := kivik.New("couch", srv.URL, couchdb.BasicAuth(testUser, testPassword), couchdb.OptionNoRequestCompression())
	check.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newDB(t testing.TB) (*kivik.DB, *httptest.Server) {
	t.Helper()
	_, srv := serve(t, filepath.Join(t.TempDir(), "s.db"))
	c := client(t, srv)
	check.NoError(t, c.CreateDB(t.Context(), "whisks"))
	return c.DB("whisks"), srv
}

// call sends a request as it stands and gives the status and body.
func call(t testing.TB, srv *httptest.Server, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, srv.URL+path, strings.NewReader(body))
	check.NoError(t, err)
	req.SetBasicAuth(testUser, testPassword)
	res, err := http.DefaultClient.Do(req)
	check.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	check.NoError(t, err)
	return res.StatusCode, strings.TrimSpace(string(b))
}

func status(err error) int { return kivik.HTTPStatus(err) }

func TestDocumentLifeThroughKivik(t *testing.T) {
	db, _ := newDB(t)
	ctx := t.Context()
	id := "guest/my action&more+x"
	rev1, err := db.Put(ctx, id, map[string]any{"n": 1})
	check.NoError(t, err)
	check.That(t, strings.HasPrefix(rev1, "1-"), "%s", rev1)
	_, err = db.Put(ctx, id, map[string]any{"n": 2})
	check.Equal(check.Must(t), status(err), 409, "put without revision: %v", err)
	rev2, err := db.Put(ctx, id, map[string]any{"_rev": rev1, "n": 2})
	check.NoError(t, err)
	check.That(t, strings.HasPrefix(rev2, "2-"), "%s", rev2)
	var doc struct {
		ID  string `json:"_id"`
		Rev string `json:"_rev"`
		N   int    `json:"n"`
	}
	check.NoError(t, db.Get(ctx, id).ScanDoc(&doc))
	check.Equal(t, doc.ID, id)
	check.Equal(t, doc.Rev, rev2)
	check.Equal(t, doc.N, 2)
	_, err = db.Delete(ctx, id, rev1)
	check.Equal(check.Must(t), status(err), 409, "delete of an old revision: %v", err)
	_, err = db.Delete(ctx, id, rev2)
	check.NoError(t, err)
	err = db.Get(ctx, id).ScanDoc(&doc)
	check.Equal(t, status(err), 404, "get after delete: %v", err)
	rev4, err := db.Put(ctx, id, map[string]any{"n": 4})
	check.NoError(t, err)
	check.That(t, strings.HasPrefix(rev4, "4-"), "%s, want the count to go on", rev4)
}

func TestBodyKeepsItsText(t *testing.T) {
	_, srv := newDB(t)
	body := `{"z":1.0,"a":1E+3,"big":12345678901234567890.123,"s":"<&>\u2028"}`
	code, answer := call(t, srv, "PUT", "/whisks/x", body)
	check.Equal(check.Must(t), code, 201, "%s", answer)
	_, got := call(t, srv, "GET", "/whisks/x", "")
	_, after, _ := strings.Cut(got, `",`)
	_, after, _ = strings.Cut(after, `",`)
	check.Equal(t, "{"+after, body)
}

func TestAttachmentsThroughKivik(t *testing.T) {
	db, _ := newDB(t)
	ctx := t.Context()
	rev, err := db.Put(ctx, "guest/a", map[string]any{"exec": map[string]any{"kind": "nodejs:20"}, "namespace": "guest", "updated": 5})
	check.NoError(t, err)
	code := strings.Repeat("code ", 5000)
	rev, err = db.PutAttachment(ctx, "guest/a", &kivik.Attachment{
		Filename: "1e612179", ContentType: "text/plain; charset=UTF-8", Content: io.NopCloser(strings.NewReader(code)),
	}, kivik.Rev(rev))
	check.NoError(t, err)
	att, err := db.GetAttachment(ctx, "guest/a", "1e612179")
	check.NoError(t, err)
	got, _ := io.ReadAll(att.Content)
	check.That(t, string(got) == code, "%d bytes", len(got))
	check.Equal(t, att.ContentType, "text/plain; charset=UTF-8")
	var doc struct {
		Rev  string          `json:"_rev"`
		Atts map[string]stub `json:"_attachments"`
	}
	check.NoError(t, db.Get(ctx, "guest/a").ScanDoc(&doc))
	s := doc.Atts["1e612179"]
	check.That(t, s.Stub)
	check.Equal(t, s.Length, len(code))
	check.Equal(t, s.RevPos, 2)
	check.Equal(t, doc.Rev, rev)
	_, err = db.Put(ctx, "guest/a", map[string]any{"_rev": rev, "v": 2})
	check.NoError(t, err)
	_, err = db.GetAttachment(ctx, "guest/a", "1e612179")
	check.Equal(t, status(err), 404, "an attachment that an update does not name: %v", err)
}

func TestBulkDocsAnswersEach(t *testing.T) {
	db, _ := newDB(t)
	ctx := t.Context()
	_, err := db.Put(ctx, "guest/old", map[string]any{})
	check.NoError(t, err)
	results, err := db.BulkDocs(ctx, []any{
		map[string]any{"_id": "guest/new", "activationId": "a"},
		map[string]any{"_id": "guest/old", "activationId": "b"},
	})
	check.NoError(t, err)
	check.Equal(t, results[0].Error, nil)
	check.That(t, strings.HasPrefix(results[0].Rev, "1-"), "%s", results[0].Rev)
	check.Equal(t, status(results[1].Error), 409, "existing document: %+v", results[1])
}

func TestIndexesFollowUpdatesAndDeletes(t *testing.T) {
	db, srv := newDB(t)
	rev, err := db.Put(t.Context(), "guest/a", map[string]any{"namespace": "guest", "name": "a", "exec": map[string]any{}, "updated": 1})
	check.NoError(t, err)
	rev, err = db.Put(t.Context(), "guest/a", map[string]any{"_rev": rev, "namespace": "guest", "name": "a", "exec": map[string]any{}, "updated": 2})
	check.NoError(t, err)
	countRows := func() string {
		_, body := call(t, srv, "GET", "/whisks/_design/whisks.v2.1.0/_view/actions", "")
		return body
	}
	check.Equal(t, countRows(), `{"rows":[{"key":null,"value":1}]}`, "after update")
	_, err = db.Delete(t.Context(), "guest/a", rev)
	check.NoError(t, err)
	check.Equal(t, countRows(), `{"rows":[]}`, "after delete")
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
		{"PUT", "/whisks/_x", `{}`, 501, "not_implemented"},
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
		check.Equal(t, code, c.want, "%s %s %s", c.method, c.path, c.body)
		check.Contains(t, body, c.word, "%s %s %s", c.method, c.path, c.body)
	}
	res, err := http.Get(srv.URL + "/whisks/x")
	check.NoError(t, err)
	res.Body.Close()
	check.Equal(t, res.StatusCode, 401, "without credentials")
}

func TestWhatWasAnsweredSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s, err := Open(Config{Path: path})
	check.NoError(t, err)
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
	check.NoError(t, s.db.View(func(tx *bolt.Tx) error { return tx.CopyFile(path+".copy", 0o600) }))
	check.NoError(t, s.Close())
	s, err = Open(Config{Path: path + ".copy"})
	check.NoError(t, err)
	defer s.Close()
	srv = httptest.NewServer(s)
	defer srv.Close()
	_, body := call(t, srv, "GET", "/db", "")
	check.Contains(t, body, `"doc_count":50`, "after reopening")
}

func TestWritesAfterCloseFail(t *testing.T) {
	s, err := Open(Config{Path: filepath.Join(t.TempDir(), "s.db")})
	check.NoError(t, err)
	check.NoError(t, s.Close())
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("PUT", "/db", nil))
	check.Equal(t, w.Code, 500)
}

// TestOneRefusalDoesNotSpoilItsGroup: a refused change does not roll back other changes
// in the same commit.
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
			code, body := call(t, srv, "PUT", path, `{}`)
			check.Equal(t, code, want, "%s: %s", path, body)
		})
	}
	wg.Wait()
	_, body := call(t, srv, "GET", "/whisks", "")
	check.Contains(t, body, `"doc_count":21`)
}
