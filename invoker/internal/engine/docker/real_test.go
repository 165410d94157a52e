package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/enginetest"
)

// realHost gives the address of a Docker daemon to test with, or skips.
func realHost(t testing.TB) string {
	t.Helper()
	host := os.Getenv("DOCKER_HOST")
	api, err := Options{Host: host}.connect()
	if err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = api.Ping(ctx, client.PingOptions{})
		_ = api.Close()
	}
	if err != nil {
		peertest.Missing(t, "no Docker daemon answers (DOCKER_HOST or the default socket): "+err.Error())
	}
	return host
}

// image is the tiny proxy as an image, made once for all tests of a process.
var image = sync.OnceValues(func() (string, error) {
	rootfs, err := enginetest.ProxyTar()
	if err != nil {
		return "", err
	}
	name := imageName()
	return name, importImage(name, bytes.NewReader(rootfs), `CMD ["/proxy"]`)
})

func imageName() string { return "gpuwhisk-test.invalid/proxy:" + strconv.Itoa(os.Getpid()) }

func importImage(name string, rootfs io.Reader, changes ...string) error {
	api, err := Options{Host: os.Getenv("DOCKER_HOST")}.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	source := client.ImageImportSource{Source: rootfs, SourceName: "-"}
	body, err := api.ImageImport(context.Background(), source, name, client.ImageImportOptions{Changes: changes})
	if err != nil {
		return err
	}
	defer body.Close()
	answer, err := io.ReadAll(body)
	if err == nil && bytes.Contains(answer, []byte("error")) {
		err = fmt.Errorf("import image %s: %s", name, answer)
	}
	return err
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dir := shimAt.Load(); dir != nil {
		_ = os.RemoveAll(*dir)
	}
	if api, err := (Options{Host: os.Getenv("DOCKER_HOST")}).connect(); err == nil {
		for _, name := range []string{imageName(), pythonName()} {
			_, _ = api.ImageRemove(context.Background(), name, client.ImageRemoveOptions{Force: true})
		}
		_ = api.Close()
	}
	os.Exit(code)
}

// real is an engine on the real daemon whose containers and goroutines are
// counted when the test ends.
type real struct {
	*Engine
	t      testing.TB
	prefix string
	made   int
	images []string // to be removed when no container has them
}

func startReal(t testing.TB, change func(*Options)) *real {
	t.Helper()
	host := realHost(t)
	before := runtime.NumGoroutine()
	options := DefaultOptions()
	options.Host, options.LogWaits = host, enginetest.Waits()
	options.Prefix = fmt.Sprintf("gpuwhisktest%d_%d_", os.Getpid(), time.Now().UnixNano())
	if change != nil {
		change(&options)
	}
	e, err := New(t.Context(), options)
	check.NoError(t, err)
	r := &real{Engine: e, t: t, prefix: options.Prefix}
	t.Cleanup(func() { r.end(before) })
	return r
}

func (r *real) end(goroutines int) {
	ctx := context.Background()
	if err := r.CleanUp(ctx, r.prefix); err != nil {
		r.t.Error(err)
	}
	left, err := r.search(ctx, r.prefix)
	check.NoError(r.t, err)
	check.Equal(r.t, len(left), 0)
	for _, name := range r.images {
		if _, err := r.api.ImageRemove(ctx, name, client.ImageRemoveOptions{Force: true, PruneChildren: true}); err != nil {
			r.t.Error(err)
		}
	}
	if err := r.Close(); err != nil {
		r.t.Error(err)
	}
	sameGoroutines(r.t, goroutines)
}

// sameGoroutines waits until no more goroutines run than before.
func sameGoroutines(t testing.TB, before int) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Errorf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			return
		}
	}
}

func (r *real) spec() container.Spec {
	r.t.Helper()
	name, err := image()
	check.NoError(r.t, err)
	r.made++
	return container.Spec{
		Name: fmt.Sprintf("%s%d_test", r.prefix, r.made), Kind: "blackbox", Image: name,
		MemoryMB: 128, CPUShares: 128, Env: []string{"__OW_API_HOST=https://example"},
	}
}

func (r *real) create() container.Handle {
	r.t.Helper()
	h, err := r.Create(r.t.Context(), r.spec())
	check.NoError(r.t, err)
	return h
}
