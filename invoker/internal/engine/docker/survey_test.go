package docker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func connectDaemon(t *testing.T, host string) *Daemon {
	t.Helper()
	d, err := Connect(Options{Host: host})
	check.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestSurveyReadsTheDaemon(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.47") })
	mux.HandleFunc("/v1.47/info", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"ServerVersion":"27.3","Driver":"overlay2","LoggingDriver":"journald","CgroupDriver":"systemd",
			"CgroupVersion":"2","DockerRootDir":"/var/lib/docker","Runtimes":{"runc":{},"nvidia":{"path":"nvidia-container-runtime"}},
			"DefaultRuntime":"runc","CDISpecDirs":["/etc/cdi"],"DiscoveredDevices":[{"Source":"cdi","ID":"nvidia.com/gpu=0"},{"Source":"x","ID":"y"}],"MemTotal":8,"NCPU":4,"Architecture":"x86_64","SecurityOptions":["name=rootless"]}`)
	})
	mux.HandleFunc("/v1.47/images/", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "cuda:12"):
			_, _ = fmt.Fprint(w, `{"Architecture":"amd64","Config":{"Entrypoint":["/opt/nvidia/nvidia_entrypoint.sh"],"Cmd":["/bin/bash"],
				"Env":["CUDA_VERSION=12.6"],"Labels":{"maintainer":"NVIDIA"},"ExposedPorts":{"8080/tcp":{}}}}`)
		case strings.Contains(r.URL.Path, "broken"):
			refuse(w, http.StatusInternalServerError, "broken")
		default:
			refuse(w, http.StatusNotFound, "No such image")
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	d := connectDaemon(t, "tcp://"+server.Listener.Addr().String())

	s, err := d.Survey(t.Context())
	want := Survey{
		Version: "27.3", API: "1.47", Storage: "overlay2", LogDriver: "journald", CgroupDriver: "systemd", CgroupVersion: "2",
		Root: "/var/lib/docker", Runtimes: []string{"nvidia", "runc"}, DefaultRuntime: "runc", ShowingRuntimes: []string{"nvidia"},
		CDIDirs: []string{"/etc/cdi"}, CDIDevices: []string{"nvidia.com/gpu=0"},
		MemoryBytes: 8, CPUs: 4, Architecture: "x86_64", SecurityOptions: []string{"name=rootless"},
	}
	check.NoError(t, err)
	check.DeepEqual(t, s, want)

	image, ok, err := d.Image(t.Context(), "nvidia/cuda:12")
	check.NoError(t, err)
	check.That(check.Must(t), ok, "image %+v, %v, %v", image, ok, err)
	check.Equal(t, image.Entrypoint[0], "/opt/nvidia/nvidia_entrypoint.sh")
	check.Equal(t, image.Cmd[0], "/bin/bash")
	check.Equal(t, image.Env[0], "CUDA_VERSION=12.6")
	check.Equal(t, image.Labels["maintainer"], "NVIDIA")
	check.Equal(t, image.Ports[0], "8080/tcp")
	check.Equal(t, image.Architecture, "amd64")
	_, ok, err = d.Image(t.Context(), "absent:1")
	check.That(t, !ok, "an image that is not there: %v, %v", ok, err)
	check.NoError(t, err, "an image that is not there")
	_, _, err = d.Image(t.Context(), "broken:1")
	check.That(t, err != nil, "a daemon's error is none")
}

func TestSurveyOfARealDaemon(t *testing.T) {
	d := connectDaemon(t, realHost(t))
	s, err := d.Survey(t.Context())
	check.NoError(t, err)
	check.That(t, s.Version != "", "survey %+v, error %v", s, err)
	check.That(t, s.API != "", "survey %+v, error %v", s, err)
	check.That(t, s.Root != "", "survey %+v, error %v", s, err)
	check.That(t, s.Storage != "", "survey %+v, error %v", s, err)
	_, ok, err := d.Image(t.Context(), "nobody/has-this:1")
	check.That(t, !ok, "absent image: %v, %v", ok, err)
	check.NoError(t, err)
}

// TestDefaultLogs reads the log settings from a container that is not started, and
// removes the container also if it cannot be inspected.
func TestDefaultLogs(t *testing.T) {
	var removed []string
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.47") })
	mux.HandleFunc("POST /v1.47/containers/create", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Image string }
		check.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		if body.Image == "absent:1" {
			refuse(w, http.StatusNotFound, "No such image")
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"Id":%q}`, body.Image)
	})
	mux.HandleFunc("GET /v1.47/containers/{id}/json", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "broken:1" {
			refuse(w, http.StatusInternalServerError, "broken")
			return
		}
		_, _ = fmt.Fprint(w, `{"HostConfig":{"LogConfig":{"Type":"local","Config":{"max-size":"7m"}}}}`)
	})
	mux.HandleFunc("DELETE /v1.47/containers/{id}", func(_ http.ResponseWriter, r *http.Request) {
		removed = append(removed, r.PathValue("id"))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	d := connectDaemon(t, "tcp://"+server.Listener.Addr().String())

	got, err := d.DefaultLogs(t.Context(), "i:1")
	check.NoError(t, err)
	check.DeepEqual(t, got, LogSettings{"local", map[string]string{"max-size": "7m"}})
	for _, reference := range []string{"broken:1", "absent:1"} {
		_, err = d.DefaultLogs(t.Context(), reference)
		check.ErrorContains(t, err, reference)
	}
	check.EqualSlices(t, removed, []string{"i:1", "broken:1"})
}

// TestDefaultLogsOfARealDaemon: a container that requests no log driver gets the one
// that the daemon names, and no container is left.
func TestDefaultLogsOfARealDaemon(t *testing.T) {
	r := startReal(t, nil)
	d := connectDaemon(t, r.options.Host)
	s, err := d.Survey(t.Context())
	check.NoError(t, err)
	image := pythonImage(t)
	got, err := d.DefaultLogs(t.Context(), image)
	check.NoError(t, err)
	check.Equal(t, got.Driver, s.LogDriver)
	left, err := r.api.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("ancestor", image)})
	check.NoError(t, err)
	check.Equal(t, len(left.Items), 0, "containers of %s are left", image)
}
