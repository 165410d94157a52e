package rest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
)

// deadlines records the deadlines that a handler sets.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error  { d.read = at; return nil }
func (d *deadlines) SetWriteDeadline(at time.Time) error { d.write = at; return nil }

// TestDeadlines: a user who is known may send and take large code over a slow line, all
// others have the server's deadlines.
func TestDeadlines(t *testing.T) {
	h := New(Config{Log: slog.New(slog.DiscardHandler)})
	h.known.Store("u:k", knownUser{&activation.Identity{Namespace: activation.Namespace{Name: "guest"}}, time.Now()})
	for _, known := range []bool{true, false} {
		r := httptest.NewRequest("PUT", "/api/v1/namespaces/_/packages/p?overwrite=x", strings.NewReader("{"))
		status := http.StatusUnauthorized
		if known {
			r.SetBasicAuth("u", "k")
			status = http.StatusBadRequest
		}
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		now := time.Now()
		h.ServeHTTP(d, r)
		check.Equal(t, d.Code, status, "known %t: %s", known, d.Body)
		check.Equal(t, d.read.After(now.Add(4*time.Minute)), known, "%v", d.read)
		check.Equal(t, d.write.After(d.read.Add(controller.MaxWait+time.Minute)), known, "%v", d.write)
	}
}
