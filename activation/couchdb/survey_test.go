package couchdb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// surveyConfig returns the configuration of a server that answers each "METHOD path"
// with a status, and 404 if it is not listed.
func surveyConfig(t *testing.T, answers map[string]int) Config {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, pass, _ := r.BasicAuth(); user != fakeUser || pass != fakePass {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		status, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		if r.Method == http.MethodGet {
			_, _ = fmt.Fprint(w, `{"couchdb":"Welcome","version":"3.3.3","vendor":{"name":"The Apache Software Foundation"},"doc_count":7}`)
		}
	}))
	t.Cleanup(s.Close)
	return Config{
		URL: s.URL, Username: fakeUser, Password: fakePass,
		Whisks: "whisks", Subjects: "subjects", Activations: "activations",
	}
}

// whole returns the answers of a faultless server.
func whole() map[string]int {
	return map[string]int{
		"GET /": 200, "GET /whisks": 200, "GET /subjects": 200, "GET /activations": 200,
		"HEAD /whisks/_design/whisks.v2.1.0": 200, "HEAD /subjects/_design/subjects.v2.0.0": 200,
		"HEAD /subjects/_design/namespaceThrottlings": 200, "HEAD /activations/_design/whisks.v2.1.0": 200,
		"HEAD /activations/_design/whisks-filters.v2.1.1": 200, "POST /activations/_bulk_docs": 201,
	}
}

func TestInspect(t *testing.T) {
	s, err := Inspect(t.Context(), surveyConfig(t, whole()))
	want := Survey{
		Server: "CouchDB 3.3.3", Whisks: Database{Name: "whisks", Documents: 7},
		Subjects: Database{Name: "subjects", Documents: 7}, Activations: Database{Name: "activations", Documents: 7},
	}
	check.NoError(t, err)
	check.DeepEqual(t, s, want)
}

func TestInspectFindsWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		path   string
		status int
		ok     func(Survey) bool
	}{
		{"GET /whisks", 404, func(s Survey) bool { return errors.Is(s.Whisks.Read, ErrNoDatabase) && s.Subjects.Read == nil }},
		{"GET /subjects", 403, func(s Survey) bool { return errors.Is(s.Subjects.Read, ErrForbidden) }},
		{"GET /activations", 500, func(s Survey) bool { return s.Activations.Read != nil && s.Activations.Write == nil }},
		{"POST /activations/_bulk_docs", 403, func(s Survey) bool {
			return errors.Is(s.Activations.Write, ErrForbidden) && s.Activations.Read == nil
		}},
		{"POST /activations/_bulk_docs", 401, func(s Survey) bool { return errors.Is(s.Activations.Write, ErrUnauthorized) }},
		{"HEAD /subjects/_design/namespaceThrottlings", 404, func(s Survey) bool {
			return reflect.DeepEqual(s.Subjects.Lacking, []string{"namespaceThrottlings"})
		}},
		{"HEAD /activations/_design/whisks.v2.1.0", 500, func(s Survey) bool { return s.Activations.Read != nil }},
	} {
		answers := whole()
		answers[tt.path] = tt.status
		s, err := Inspect(t.Context(), surveyConfig(t, answers))
		check.NoError(t, err, "%s answers %d: %+v, error", tt.path, tt.status, s)
		check.That(t, tt.ok(s), "%s answers %d: %+v, error %v", tt.path, tt.status, s, err)
	}
}

func TestInspectWithWrongCredentials(t *testing.T) {
	cfg := surveyConfig(t, whole())
	cfg.Password = "wrong-secret"
	_, err := Inspect(t.Context(), cfg)
	check.ErrorIs(t, err, ErrUnauthorized)
	check.Lacks(t, err.Error(), "wrong-secret")
}

func TestInspectEnds(t *testing.T) {
	arrived := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := Inspect(ctx, Config{URL: s.URL})
	check.ErrorIs(t, err, context.Canceled)
}

// TestInspectPeers: real servers accept the empty batch, and no document is added.
func TestInspectPeers(t *testing.T) {
	for name, start := range peers() {
		t.Run(name, func(t *testing.T) {
			cfg := start(t)
			before, err := Inspect(t.Context(), cfg)
			check.NoError(t, err)
			check.NoError(t, before.Activations.Read)
			check.NoError(t, before.Activations.Write)
			after, err := Inspect(t.Context(), cfg)
			check.NoError(t, err)
			check.Equal(t, after.Activations.Documents, before.Activations.Documents)
			absent := cfg
			absent.Activations += "-absent"
			s, err := Inspect(t.Context(), absent)
			check.NoError(t, err)
			check.ErrorIs(t, s.Activations.Read, ErrNoDatabase)
		})
	}
}

func TestProbe(t *testing.T) {
	cfg := surveyConfig(t, whole())
	check.NoError(t, open(t, cfg).Probe(t.Context()), "a faultless server")
	for request, status := range map[string]int{
		"GET /whisks": http.StatusNotFound, "GET /subjects": http.StatusForbidden,
		"GET /activations": http.StatusInternalServerError, "POST /activations/_bulk_docs": http.StatusForbidden,
	} {
		answers := whole()
		answers[request] = status
		name := strings.Split(request, "/")[1]
		err := open(t, surveyConfig(t, answers)).Probe(t.Context())
		check.ErrorContains(t, err, "database "+name, "%s answers %d", request, status)
	}
	cfg.Password = "wrong"
	check.ErrorIs(t, open(t, cfg).Probe(t.Context()), ErrUnauthorized, "wrong password")
}
