package assembly

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// An invoker that starts while the Docker daemon is away is not ready, reports that
// at /ping and goes on with its start as soon as the daemon answers.
func TestStartWaitsForTheEngine(t *testing.T) {
	_, environ := deployment(t)
	socket := filepath.Join(t.TempDir(), "docker.sock")
	environ = append(environ, "CONFIG_whisk_gpu_docker_host=unix://"+socket)
	r := start(t, environ, func(o *Options) { o.Engine = nil })
	awaitResponse(t, r.address+"/ping", http.StatusServiceUnavailable, "container engine is away")
	select {
	case err := <-r.ended:
		t.Fatalf("the start ended: %v", err)
	default:
	}
	listener, err := net.Listen("unix", socket)
	check.NoError(t, err)
	daemon := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(idleDaemon)}}
	daemon.Start()
	defer daemon.Close()
	<-r.ready
	awaitResponse(t, r.address+"/ping", http.StatusOK, "pong")
	r.stop()
	daemon.CloseClientConnections() // the stream of events
	r.end(t)
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
	case strings.HasSuffix(r.URL.Path, "/networks"):
		_, _ = w.Write([]byte(`[{"Name":"gpuwhisk","Driver":"bridge","Options":{"com.docker.network.bridge.enable_icc":"false"},
			"IPAM":{"Config":[{"Subnet":"127.0.0.0/8","Gateway":"127.0.0.1"}]}}]`))
	case strings.HasSuffix(r.URL.Path, "/info"):
		_, _ = w.Write([]byte(`{"NCPU":2,"ServerVersion":"test","OSType":"linux"}`))
	default:
		_, _ = w.Write([]byte(`{}`))
	}
}
