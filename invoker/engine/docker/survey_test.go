package docker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

func connectDaemon(t *testing.T, host string) *Daemon {
	t.Helper()
	d, err := Connect(Options{Host: host})
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("error %v, survey\n got %+v\nwant %+v", err, s, want)
	}

	image, ok, err := d.Image(t.Context(), "nvidia/cuda:12")
	if err != nil || !ok || image.Entrypoint[0] != "/opt/nvidia/nvidia_entrypoint.sh" || image.Cmd[0] != "/bin/bash" ||
		image.Env[0] != "CUDA_VERSION=12.6" || image.Labels["maintainer"] != "NVIDIA" || image.Ports[0] != "8080/tcp" || image.Architecture != "amd64" {
		t.Errorf("image %+v, %v, %v", image, ok, err)
	}
	if _, ok, err := d.Image(t.Context(), "absent:1"); ok || err != nil {
		t.Errorf("an image that is not there: %v, %v", ok, err)
	}
	if _, _, err := d.Image(t.Context(), "broken:1"); err == nil {
		t.Error("a daemon's error is none")
	}
}

func TestSurveyOfARealDaemon(t *testing.T) {
	d := connectDaemon(t, realHost(t))
	s, err := d.Survey(t.Context())
	if err != nil || s.Version == "" || s.API == "" || s.Root == "" || s.Storage == "" {
		t.Errorf("survey %+v, error %v", s, err)
	}
	if _, ok, err := d.Image(t.Context(), "nobody/has-this:1"); ok || err != nil {
		t.Errorf("absent image: %v, %v", ok, err)
	}
}
