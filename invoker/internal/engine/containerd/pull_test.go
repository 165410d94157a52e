package containerd

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// mirror is a registry with one image. It records the credentials that it gets.
type mirror struct {
	*httptest.Server
	manifest []byte
	blobs    map[string][]byte // by digest

	mu     sync.Mutex
	logins []string
}

func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

func startMirror(t *testing.T) *mirror {
	t.Helper()
	files, err := layer()
	check.NoError(t, err)
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
	m := &mirror{blobs: map[string][]byte{digestOf(config): config, digestOf(packed.Bytes()): packed.Bytes()}}
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
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// TestPullThroughMirror: an image comes from the mirror that the node's hosts.toml names,
// with the credentials there. The mirror does not get the login for the image's own
// registry. The log shows the pull.
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
	h, err := e.Create(t.Context(), container.Spec{Name: e.options.Prefix + "1", Image: image, Pull: true, MemoryMB: 128, CPUShares: 128})
	check.NoError(t, err)
	check.That(t, h.Addr != "", "no address")
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
