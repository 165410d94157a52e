package containerd

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/enginetest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// bridgeName is of this process alone: other tests of the machine have theirs.
var bridgeName = "gwt" + strconv.Itoa(os.Getpid())

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == logs.Command {
		if err := logs.Copy(os.Args[2]); err != nil {
			panic(err)
		}
		return
	}
	code := m.Run()
	forget()
	os.Exit(code)
}

// forget removes the bridgeName, its rules and the images of the tests.
func forget() {
	o := DefaultOptions()
	o.Bridge, o.RunDir = bridgeName, filepath.Join(os.TempDir(), bridgeName, "run")
	_ = RemoveNetwork(o)
	_ = os.RemoveAll(filepath.Join(os.TempDir(), bridgeName))
	if api, err := connect(os.Getenv("GPUWHISK_TEST_CONTAINERD")); err == nil {
		defer api.Close()
		for _, name := range made {
			_ = api.ImageService().Delete(namespaced(), name, images.SynchronousDelete())
		}
	}
}

func namespaced() context.Context {
	return namespaces.WithNamespace(context.Background(), Namespace)
}

var (
	made  []string // names of images
	layer = sync.OnceValues(enginetest.ProxyTar)
)

// importImage imports an image with the proxy, as `docker save` writes it.
func importImage(t testing.TB, name string, command []string, env ...string) string {
	t.Helper()
	files, err := layer()
	check.NoError(t, err)
	config, _ := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Cmd": command, "Env": env},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(files))}},
	})
	manifest, _ := json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name string
		data []byte
	}{{"config.json", config}, {"layer.tar", files}, {"manifest.json", manifest}} {
		check.NoError(t, w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.data))}))
		_, err := w.Write(f.data)
		check.NoError(t, err)
	}
	check.NoError(t, w.Close())
	api, err := connect(socket(t))
	check.NoError(t, err)
	defer api.Close()
	_, err = api.Import(namespaced(), &archive)
	check.NoError(t, err)
	made = append(made, name)
	return name
}

func socket(t testing.TB) string {
	return peertest.Variable(t, "GPUWHISK_TEST_CONTAINERD", "containerd.sh")
}

func realOptions(t testing.TB) Options {
	o := DefaultOptions()
	self, err := os.Executable()
	check.NoError(t, err)
	dir := filepath.Join(os.TempDir(), bridgeName)
	o.Socket, o.LogProgram, o.Bridge, o.LogWaits = socket(t), self, bridgeName, enginetest.Waits()
	o.StateDir, o.RunDir = filepath.Join(dir, "state"), filepath.Join(dir, "run")
	o.Timeouts.Settle = time.Minute
	return o
}

func imageName(tag string) string {
	return fmt.Sprintf("gpuwhisk-test.invalid/proxy:%d-%s", os.Getpid(), tag)
}

func TestContract(t *testing.T) {
	socket(t)
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(os.TempDir(), bridgeName, "run", "netns", "*", "*"))
		check.NoError(t, err)
		check.Equal(t, len(left), 0, "network namespaces left behind: %q", left)
	})
	enginetest.Run(t, contractHost(t))
}

func BenchmarkLife(b *testing.B) { enginetest.Benchmark(b, contractHost(b)) }

func contractHost(t testing.TB) enginetest.Host {
	socket(t)
	return enginetest.Host{
		Image: importImage(t, imageName("plain"), []string{"/proxy"}),
		Open: func(t testing.TB, s enginetest.Settings) enginetest.Engine {
			o := realOptions(t)
			o.Prefix, o.CapDrop, o.PidsLimit, o.MaxLogBytes, o.ExtraArgs = s.Prefix, s.CapDrop, s.PidsLimit, s.MaxLogBytes, s.ExtraArgs
			e, err := New(context.Background(), o)
			check.NoError(t, err)
			return e
		},
		ImageWith: func(t testing.TB, tag string, command []string, env ...string) string {
			return importImage(t, imageName(tag), command, env...)
		},
		Vanish: func(t testing.TB, id container.ID) {
			api, err := connect(socket(t))
			check.NoError(t, err)
			defer api.Close()
			_, err = destroy(namespaced(), api, string(id))
			check.NoError(t, err)
		},
	}
}
