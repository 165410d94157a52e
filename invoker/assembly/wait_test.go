package assembly

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// An invoker that starts while the Docker daemon is away is not ready, reports that
// at /ping and goes on with its start as soon as the daemon answers.
func TestStartWaitsForTheEngine(t *testing.T) {
	_, environ := deployment(t)
	socket := filepath.Join(t.TempDir(), "docker.sock")
	environ = append(environ, "CONFIG_whisk_gpu_docker_host=unix://"+socket)
	cfg, err := config.Load(config.Input{Environ: environ, Args: []string{"--id", "0"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	addr, ready, ended := make(chan string, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Config: cfg, Log: slog.New(slog.DiscardHandler), Host: "127.0.0.1",
			Listening: func(a string) { addr <- a }, Ready: func() { close(ready) },
		})
	}()
	address := "http://" + <-addr
	awaitResponse(t, address+"/ping", http.StatusServiceUnavailable, "container engine is away")
	select {
	case err := <-ended:
		t.Fatalf("the start ended: %v", err)
	default:
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	daemon := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(idleDaemon)}}
	daemon.Start()
	defer daemon.Close()
	<-ready
	awaitResponse(t, address+"/ping", http.StatusOK, "pong")
	end()
	daemon.CloseClientConnections() // the stream of events
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// idleDaemon is a Docker daemon that has no container.
func idleDaemon(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.44")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/events"):
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case strings.HasSuffix(r.URL.Path, "/containers/json"):
		_, _ = w.Write([]byte(`[]`))
	case strings.HasSuffix(r.URL.Path, "/info"):
		_, _ = w.Write([]byte(`{"NCPU":2,"ServerVersion":"test","OSType":"linux"}`))
	default:
		_, _ = w.Write([]byte(`{}`))
	}
}

// awaitResponse sends requests until the response is the expected one.
func awaitResponse(t *testing.T, address string, status int, text string) {
	t.Helper()
	tick, late := time.NewTicker(2*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for {
		got, message := get(t, address)
		if got == status && strings.Contains(message, text) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: %d %q, want %d %q", address, got, message, status, text)
		}
	}
}
