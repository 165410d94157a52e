package couchdb

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestRefusalsNameTheSettings: an error about the login or a database names the server
// and the settings, for every kind of request.
func TestRefusalsNameTheSettings(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		answer string
		want   map[string][]string // by kind of request
	}{
		"a wrong password": {401, `{"error":"unauthorized","reason":"Name or password is incorrect."}`, map[string][]string{
			"": {`user "me"`, "whisk.couchdb.username and whisk.couchdb.password"},
		}},
		"no member": {403, `{"error":"forbidden","reason":"You are not allowed to access this db."}`, map[string][]string{
			"":      {`user "me"`, "make the user a member"},
			"probe": {"database w"}, "blacklist": {"database s"}, "records": {"database a"},
		}},
		"no database": {404, `{"error":"not_found","reason":"Database does not exist."}`, map[string][]string{
			"":      {ErrNoDatabase.Error()},
			"probe": {"has no database w", "whisk.couchdb.databases.WhiskEntity"}, "action": {"has no database w", "whisk.couchdb.databases.WhiskEntity"},
			"blacklist": {"has no database s", "whisk.couchdb.databases.WhiskAuth"}, "records": {"has no database a", "whisk.couchdb.databases.WhiskActivation"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.answer))
			}))
			defer server.Close()
			cfg := Config{URL: server.URL, Username: "me", Password: "very-secret", Whisks: "w", Subjects: "s", Activations: "a"}
			manifest, err := activation.ParseManifest([]byte(testManifest), activation.ManifestOptions{})
			check.NoError(t, err)
			store, err := Open(cfg, manifest)
			check.NoError(t, err)
			defer func() { _ = store.Close() }()
			_, action := store.Action(t.Context(), "guest/f", "1-a")
			raw := rawClient{cfg: cfg, client: http.DefaultClient}
			_, written := bulkDocs(raw, nil)(t.Context(), []records.Document{{ID: "guest/1", Body: []byte("{}")}})
			_, asked := bulkDocs(raw, nil)(t.Context(), nil)
			for what, err := range map[string]error{
				"probe": store.Probe(t.Context()), "action": action, "blacklist": store.RefreshBlacklist(t.Context()), "records": written, "the right to write": asked,
			} {
				check.That(check.Must(t), err != nil, "%s succeeded", what)
				for _, want := range append(c.want[what], append(c.want[""], strings.TrimPrefix(server.URL, "http://"))...) {
					check.Contains(t, err.Error(), want, "%s", what)
				}
				check.Lacks(t, err.Error(), "very-secret", "%s", what)
				check.Lacks(t, err.Error(), "action not found", "%s", what)
			}
		})
	}
}
