package assembly

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// storeWith opens a store on a database whose answers come from serve.
func storeWith(t *testing.T, serve http.HandlerFunc) actions {
	t.Helper()
	web := httptest.NewServer(serve)
	t.Cleanup(web.Close)
	s, err := couchdb.Open(couchdb.Config{
		URL: web.URL, Username: "u", Password: "p", Whisks: "whisks", Subjects: "subjects", Activations: "activations",
		BlacklistInterval: time.Hour, Log: quiet,
	}, noKinds(t))
	check.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return actions{s}
}

// noKinds is a manifest without a runtime.
func noKinds(t *testing.T) *activation.Manifest {
	t.Helper()
	m, err := activation.ParseManifest([]byte(`{"runtimes":{},"blackboxes":[]}`), activation.ManifestOptions{})
	check.NoError(t, err)
	return m
}

// An action is waited for while the database is away, and not where only this
// one action cannot be read.
func TestActionWaitsForTheDatabase(t *testing.T) {
	var away atomic.Bool
	asked := make(chan struct{}, 1000)
	a := storeWith(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		status, body := http.StatusOK, `{"db_name":"whisks","total_rows":0,"offset":0,"rows":[]}`
		switch {
		case away.Load():
			status, body = http.StatusServiceUnavailable, `{"error":"away","reason":"x"}`
		case strings.Contains(r.URL.Path, "sick"):
			status, body = http.StatusInternalServerError, `{"error":"sick","reason":"x"}`
		case strings.Contains(r.URL.Path, "guest"):
			status, body = http.StatusNotFound, `{"error":"not_found","reason":"missing"}`
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
	if _, err := a.Action(t.Context(), "guest/sick", "1-a"); !errors.Is(err, activation.ErrUnfetchable) {
		t.Errorf("one sick document: %v", err)
	}
	away.Store(true)
	ended := make(chan error, 1)
	go func() {
		_, err := a.Action(t.Context(), "guest/none", "1-a")
		ended <- err
	}()
	for range 20 { // it tries again and again
		<-asked
	}
	select {
	case err := <-ended:
		t.Fatalf("answered while the database is away: %v", err)
	default:
	}
	away.Store(false)
	if err := <-ended; !errors.Is(err, invoker.ErrNotFound) {
		t.Errorf("when it is back: %v", err)
	}
	away.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := a.Action(ctx, "guest/other", "1-a")
		ended <- err
	}()
	for range 5 {
		<-asked
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("an action of nowhere")
	}
}
