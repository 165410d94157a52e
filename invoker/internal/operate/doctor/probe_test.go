package doctor

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

// created is the probe's request to Docker, in the words of its API.
type created struct {
	Image      string
	Env        []string
	HostConfig struct {
		NetworkMode          string
		DNS, CapAdd, CapDrop []string
		PidsLimit, Memory    int64
		LogConfig            struct{ Type string }
	}
}

// TestProbeAsTheInvokerWould: a probe runs its image with the options and the
// environment that the deployment gives to action containers.
func TestProbeAsTheInvokerWould(t *testing.T) {
	asked := make(chan created, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.40") })
	mux.HandleFunc("GET /v1.40/info", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ServerVersion":"20.10"}`) })
	mux.HandleFunc("GET /v1.40/events", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("POST /v1.40/containers/create", func(w http.ResponseWriter, r *http.Request) {
		var c created
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			t.Errorf("read the request: %v", err)
		}
		asked <- c
		w.WriteHeader(http.StatusBadRequest)
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	c := config.Default()
	c.Docker.Host = "tcp://" + server.Listener.Addr().String()
	c.Docker.CapAdd, c.Docker.CapDrop, c.Docker.PidsLimit = []string{"SYS_NICE"}, []string{"ALL"}, 77
	c.Logs.OutOfBand = true
	c.Runtimes.API = config.APIHost{Proto: "https", Name: "api.example", Port: 443}
	c.Containers = config.Containers{Network: "actions", DNSServers: []string{"10.0.0.1"}, ExtraEnv: []string{"PROXY=http://p"}}
	m := (&Machine{Config: c, ProbeImages: []string{"i:1"}, ProbeLimit: time.Minute}).Here("", "", "")
	if _, err := m.Probe(t.Context(), "i:1"); err == nil {
		t.Error("a container that Docker does not make is no error")
	}
	want := created{Image: "i:1", Env: []string{"__OW_API_HOST=https://api.example", "PROXY=http://p"}}
	h := &want.HostConfig
	h.NetworkMode, h.DNS, h.CapAdd, h.CapDrop, h.PidsLimit, h.Memory = "actions", []string{"10.0.0.1"}, []string{"CAP_SYS_NICE"}, []string{"ALL"}, 77, 256<<20
	check.DeepEqual(t, <-asked, want)
}
