package docker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
