package couchdb

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// fake is a CouchDB for a few requests. It behaves as in the captured session, and fails
// on demand.
type fake struct {
	*httptest.Server
	t testing.TB

	mu       sync.Mutex
	docs     map[string]string // database/id -> document
	files    map[string]string // database/id/name -> attachment
	blocked  []string
	faults   []fault // for the next requests, one each
	refusal  string  // error for each document that is written
	requests []string
	gate     chan struct{} // if not nil, reads wait until it is closed
	arrived  chan struct{} // receives a token from each waiting read
}

// fault replaces the answer to a request.
type fault int

const (
	none     fault = 0
	halfBody fault = -1
	hangUp   fault = -2
	hang     fault = -3
)

const (
	fakeUser = "whisk_local_invoker0"
	fakePass = "some_passw0rd"
)

func newFake(t testing.TB) *fake {
	f := &fake{t: t, docs: map[string]string{}, files: map[string]string{}, arrived: make(chan struct{}, 64)}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) inject(faults ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = faults
}

// setRefusal makes the fake answer every document with an error, as CouchDB does with
// status 201.
func (f *fake) setRefusal(word string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusal = word
}

// has reports whether a document is stored. The fake may still serve an abandoned
// request.
func (f *fake) has(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.docs[path]
	return ok
}

func (f *fake) seen(prefix string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	var broken fault
	f.requests = append(f.requests, r.Method+" "+r.URL.EscapedPath())
	if len(f.faults) > 0 && !strings.Contains(r.URL.Path, "_view") {
		broken, f.faults = f.faults[0], f.faults[1:]
	}
	gate := f.gate
	f.mu.Unlock()
	if gate != nil && r.Method == http.MethodGet {
		f.arrived <- struct{}{}
		<-gate
	}
	body, _ := io.ReadAll(r.Body)
	status, answer := f.answer(r, body)
	f.send(w, r, broken, status, answer)
}

func (f *fake) send(w http.ResponseWriter, r *http.Request, broken fault, status int, answer string) {
	switch {
	case broken == hang:
		<-r.Context().Done()
		return
	case broken == hangUp:
		panic(http.ErrAbortHandler)
	case broken > 0:
		status, answer = int(broken), `{"error":"fault","reason":"asked for"}`
	}
	contentType := "application/json"
	if status == http.StatusOK && !strings.HasPrefix(answer, "{") {
		contentType = "text/plain; charset=UTF-8"
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("ETag", `"VukFONRrFOdO9WVZn/C2kg=="`)
	w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
	w.WriteHeader(status)
	if broken == halfBody {
		_, _ = io.WriteString(w, answer[:len(answer)/2])
		return
	}
	_, _ = io.WriteString(w, answer)
}

func (f *fake) answer(r *http.Request, body []byte) (int, string) {
	if user, pass, ok := r.BasicAuth(); !ok || user != fakeUser || pass != fakePass {
		return 401, `{"error":"unauthorized","reason":"Name or password is incorrect."}`
	}
	check.Equal(f.t, r.Header.Get("Accept"), "application/json")
	f.mu.Lock()
	defer f.mu.Unlock()
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	switch {
	case r.Method == http.MethodPost && path == "activations/_bulk_docs":
		return f.bulk(body)
	case path == "subjects/_design/namespaceThrottlings/_view/blockedNamespaces":
		return f.view(r)
	case r.Method == http.MethodGet:
		return f.get(path)
	}
	f.t.Errorf("unexpected request %s %s", r.Method, path)
	return 405, `{"error":"method_not_allowed"}`
}

func (f *fake) get(path string) (int, string) {
	if doc, ok := f.docs[path]; ok {
		return 200, doc
	}
	if file, ok := f.files[path]; ok {
		return 200, file
	}
	return 404, `{"error":"not_found","reason":"missing"}`
}

func (f *fake) view(r *http.Request) (int, string) {
	check.Equal(f.t, r.URL.RawQuery, "descending=true&reduce=false&stale=update_after", "view asked")
	rows := []string{}
	for _, ns := range f.blocked {
		rows = append(rows, fmt.Sprintf(`{"id":"x","key":%q,"value":1}`, ns))
	}
	return 200, fmt.Sprintf(`{"total_rows":%d,"offset":0,"rows":[%s]}`, len(rows), strings.Join(rows, ","))
}

// bulk stores documents. Like CouchDB, it refuses all of them if a number does not fit
// into a double.
func (f *fake) bulk(body []byte) (int, string) {
	var request struct{ Docs []json.RawMessage }
	if err := json.Unmarshal(body, &request); err != nil || strings.Contains(string(body), ":1E+400") {
		return 400, `{"error":"bad_request","reason":"invalid UTF-8 JSON"}`
	}
	answers := []string{}
	for _, doc := range request.Docs {
		var head struct {
			ID string `json:"_id"`
		}
		if err := json.Unmarshal(doc, &head); err != nil {
			f.t.Error(err)
		}
		if _, ok := f.docs["activations/"+head.ID]; ok {
			answers = append(answers, fmt.Sprintf(`{"id":%q,"error":"conflict","reason":"Document update conflict."}`, head.ID))
			continue
		}
		if f.refusal != "" {
			answers = append(answers, fmt.Sprintf(`{"id":%q,"error":%q,"reason":"not today"}`, head.ID, f.refusal))
			continue
		}
		f.docs["activations/"+head.ID] = string(doc)
		answers = append(answers, fmt.Sprintf(`{"ok":true,"id":%q,"rev":"1-a"}`, head.ID))
	}
	return 201, "[" + strings.Join(answers, ",") + "]"
}

const testManifest = `{"runtimes":{"nodejs":[{"kind":"nodejs:20","image":{"name":"node"},"attached":{"attachmentName":"c","attachmentType":"t"}}]}}`

func manifest(t testing.TB) *activation.Manifest {
	t.Helper()
	m, err := activation.ParseManifest([]byte(testManifest), activation.ManifestOptions{})
	check.NoError(t, err)
	return m
}

// config returns the configuration for the fake, with short waits.
func (f *fake) config() Config {
	return Config{
		URL: f.URL, Username: fakeUser, Password: fakePass,
		Whisks: "whisks", Subjects: "subjects", Activations: "activations",
		Records: records.Config{BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond},
	}
}

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg, manifest(t))
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// action returns the document of an action.
func action(name, rev, exec string) string {
	return fmt.Sprintf(`{"_id":"guest/%s","_rev":%q,"annotations":[],"entityType":"action","exec":%s,`+
		`"limits":{"concurrency":1,"logs":10,"memory":256,"timeout":60000},"name":%q,"namespace":"guest",`+
		`"parameters":[],"publish":false,"updated":1,"version":"0.0.1"}`, name, rev, exec, name)
}

func inlineExec(code string) string {
	return fmt.Sprintf(`{"kind":"nodejs:20","code":%q,"binary":false}`, code)
}
