package containerd

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	dockerconfig "github.com/containerd/containerd/v2/core/remotes/docker/config"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// mirror is a registry with one image. It records the credentials that it gets.
type mirror struct {
	*httptest.Server
	manifest []byte
	blobs    map[string][]byte // by digest

	// goOn is closed when the second half of a layer may follow.
	goOn chan struct{}

	mu     sync.Mutex
	logins []string
}

func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

func startMirror(t *testing.T) *mirror {
	t.Helper()
	files, err := layer()
	check.NoError(t, err)
	// Bytes after the end of the archive make a layer that containerd has not unpacked yet.
	files = append(slices.Clone(files), rand.Text()...)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(files)
	check.NoError(t, err)
	check.NoError(t, w.Close())
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Cmd": []string{"/proxy"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digestOf(files)}},
	})
	check.NoError(t, err)
	m := &mirror{goOn: make(chan struct{}), blobs: map[string][]byte{digestOf(config): config, digestOf(packed.Bytes()): packed.Bytes()}}
	part := func(kind string, b []byte) map[string]any {
		return map[string]any{"mediaType": "application/vnd.oci.image." + kind, "digest": digestOf(b), "size": len(b)}
	}
	m.manifest, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": part("config.v1+json", config), "layers": []any{part("layer.v1.tar+gzip", packed.Bytes())},
	})
	check.NoError(t, err)
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.logins = append(m.logins, r.Header.Get("Authorization"))
	m.mu.Unlock()
	body, kind := m.manifest, "application/vnd.oci.image.manifest.v1+json"
	if _, digest, isBlob := strings.Cut(r.URL.Path, "/blobs/"); isBlob {
		body, kind = m.blobs[digest], "application/octet-stream"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Docker-Content-Digest", digestOf(body))
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	half := len(body) / 2
	_, _ = w.Write(body[:half])
	if half > 1<<16 { // the layer
		w.(http.Flusher).Flush()
		select {
		case <-m.goOn:
		case <-r.Context().Done():
		}
	}
	_, _ = w.Write(body[half:])
}

// TestPullThroughMirror: an image comes from the mirror that the node's hosts.toml names,
// with the credentials there. The mirror does not get the login for the image's own
// registry. The log shows the pull, and Pulls shows its progress.
func TestPullThroughMirror(t *testing.T) {
	m := startMirror(t)
	const registry = "registry.invalid:5000"
	hosts, logins := t.TempDir(), t.TempDir()
	check.NoError(t, os.MkdirAll(filepath.Join(hosts, registry), 0o755))
	check.NoError(t, os.WriteFile(filepath.Join(hosts, registry, "hosts.toml"), fmt.Appendf(nil, `server = "https://%s"
[host.%q]
  capabilities = ["pull", "resolve"]
  [host.%q.header]
    Authorization = "Bearer of-the-node"
`, registry, m.URL, m.URL), 0o644))
	check.NoError(t, os.WriteFile(filepath.Join(logins, "config.json"), fmt.Appendf(nil, `{"auths": {%q: {"auth": "dXNlcjpwYXNz"}}}`, registry), 0o644))
	var log bytes.Buffer
	e := open(t, fmt.Sprintf("gwmirror%d_", os.Getpid()), func(o *Options) {
		o.HostsDir, o.Logins, o.Logger = hosts, logins, slog.New(slog.NewTextHandler(&log, nil))
	})
	image := fmt.Sprintf("%s/proxy:%d", registry, os.Getpid())
	made = append(made, image)
	created := make(chan error, 1)
	go func() {
		h, err := e.Create(t.Context(), container.Spec{Name: e.options.Prefix + "1", Image: image, Pull: true, MemoryMB: 128, CPUShares: 128})
		if err == nil && h.Addr == "" {
			err = errors.New("no address")
		}
		created <- err
	}()
	var pulls []container.Pull
	for ; len(pulls) == 0 || pulls[0].Bytes == 0; pulls = e.Pulls() {
		select {
		case err := <-created:
			t.Fatalf("the create ended before its progress was seen: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	check.Equal(t, len(pulls), 1)
	check.Equal(t, pulls[0].Image, image)
	check.AtLeast(t, pulls[0].Total, pulls[0].Bytes+1)
	close(m.goOn)
	check.NoError(t, check.Receive(t, created))
	check.Equal(t, len(e.Pulls()), 0)
	m.mu.Lock()
	defer m.mu.Unlock()
	check.AtLeast(t, len(m.logins), 3, "requests for a manifest, a configuration and a layer")
	for _, login := range m.logins {
		check.Equal(t, login, "Bearer of-the-node")
	}
	check.NoError(t, e.CleanUp(namespaced(), e.options.Prefix))
	check.NoError(t, e.Close()) // ends the writing of the log
	check.Contains(t, log.String(), `msg="pull image" image=`+image)
	check.Contains(t, log.String(), `msg="pulled image" image=`+image)
}

// TestRegistryWithLogin: a real registry that asks for a login gives the image to an engine
// that has one, in Docker's file or in containerd's configuration.
func TestRegistryWithLogin(t *testing.T) {
	host, login := peertest.Variable(t, "GPUWHISK_TEST_REGISTRY", "registry.sh"), os.Getenv("GPUWHISK_TEST_REGISTRY_LOGIN")
	image := fmt.Sprintf("%s/proxy:%d", host, os.Getpid())
	publish(t, image, login)
	docker := func(login string) func(*Options) {
		dir := t.TempDir()
		text := fmt.Appendf(nil, `{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte(login)))
		check.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))
		return func(o *Options) { o.Logins = dir }
	}
	node := func(plugin, login string) func(*Options) {
		user, password, _ := strings.Cut(login, ":")
		path := writeConfig(t, fmt.Sprintf("version = 2\n[plugins.%q.registry.configs.%q.auth]\nusername = %q\npassword = %q\n", plugin, host, user, password))
		return func(o *Options) { o.Config = path }
	}
	for name, tt := range map[string]struct {
		change func(*Options)
		well   bool
	}{
		"no login":                 {nil, false},
		"docker's login":           {docker(login), true},
		"wrong login":              {docker("pull:wrong"), false},
		"login of containerd 1":    {node("io.containerd.grpc.v1.cri", login), true},
		"login of containerd 2":    {node("io.containerd.cri.v1.images", login), true},
		"wrong login of the node":  {node("io.containerd.cri.v1.images", "pull:wrong"), false},
		"other plugin of the node": {node("io.containerd.other", login), false},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t, fmt.Sprintf("gwlogin%d_", os.Getpid()), tt.change)
			err := e.Pull(t.Context(), image)
			if tt.well {
				check.NoError(t, err)
				check.NoError(t, e.api.ImageService().Delete(namespaced(), image))
				return
			}
			check.That(check.Must(t), err != nil, "no refusal")
			check.Lacks(t, err.Error(), "wrong")
		})
	}
}

// publish puts the test's image into a registry and forgets it here.
func publish(t *testing.T, image, login string) {
	t.Helper()
	importImage(t, image, []string{"/proxy"})
	api, err := connect(socket(t))
	check.NoError(t, err)
	defer api.Close()
	local, err := api.GetImage(namespaced(), image)
	check.NoError(t, err)
	user, password, _ := strings.Cut(login, ":")
	hosts := dockerconfig.HostOptions{Credentials: func(string) (string, string, error) { return user, password, nil }}
	resolver := docker.NewResolver(docker.ResolverOptions{Hosts: dockerconfig.ConfigureHosts(t.Context(), hosts)})
	check.NoError(t, api.Push(namespaced(), image, local.Target(), client.WithResolver(resolver)))
	check.NoError(t, api.ImageService().Delete(namespaced(), image))
}
