package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/enginetest"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// shim is where the shim and the fake driver are, made once for all tests.
var shim = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "docker-test-")
	if err != nil {
		return "", err
	}
	shimAt.Store(&dir)
	out, err := exec.Command("make", "-s", "-C", "../../../../shim", "OUT="+dir,
		filepath.Join(dir, "libgpuwhisk.so"), filepath.Join(dir, "fake12", "libcuda.so.1")).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build the shim: %w\n%s", err, out)
	}
	return dir, err
})

var shimAt atomic.Pointer[string] // where it was made, to be removed

func buildShim(t *testing.T) (library, driver string) {
	t.Helper()
	for _, tool := range []string{"make", "cc"} {
		peertest.Tool(t, tool)
	}
	dir, err := shim()
	check.NoError(t, err)
	return filepath.Join(dir, "libgpuwhisk.so"), filepath.Join(dir, "fake12")
}

// python is the image of the Python proxy, made once for all tests from this
// machine's own interpreter.
var python = sync.OnceValues(func() (string, error) {
	build := exec.Command("../../../../docker/runtimes/build.sh", "python3")
	build.Env = append(os.Environ(), "PREFIX="+pythonPrefix, "TAG="+strconv.Itoa(os.Getpid()))
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the image: %w\n%s", err, out)
	}
	return pythonName(), nil
})

const pythonPrefix = "gpuwhisk-test.invalid/"

func pythonName() string { return pythonPrefix + "python3:" + strconv.Itoa(os.Getpid()) }

func pythonImage(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"docker", "python3"} {
		peertest.Tool(t, tool)
	}
	name, err := python()
	check.NoError(t, err)
	return name
}

// shimmed is a container on a simulated device, under the shim and the fake
// driver.
type shimmed struct {
	*shimctl.Container
	container.Handle
	client *proxy.Client
}

// startShimmed starts a container of an image with a library. An empty image is the image
// of a static program, and an empty library is the shim.
func startShimmed(t *testing.T, r *real, image, instead string) *shimmed {
	t.Helper()
	library, driver := buildShim(t)
	if instead != "" {
		library = instead
	}
	dir, err := os.MkdirTemp("", "gw") // short: a socket's path has at most 107 bytes
	check.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	control, err := shimctl.Open(filepath.Join(dir, "s"), shimctl.Settings{MaxResident: 16 << 30}, nil, slog.New(slog.DiscardHandler))
	check.NoError(t, err)
	t.Cleanup(func() { control.Close() })
	spec := r.spec()
	ends, err := control.Container(spec.Name)
	check.NoError(t, err)
	if image != "" {
		spec.Image = image
	}
	spec.GPU = &container.GPU{
		Simulated: true,
		Env: []string{"LD_PRELOAD=/opt/gpuwhisk/libgpuwhisk.so", "LD_LIBRARY_PATH=/opt/fake", "GPUWHISK_SHIM=managed",
			"GPUWHISK_SHIM_SOCKET=/run/gpuwhisk/" + shimctl.SocketName, "GPUWHISK_SHIM_LOG=2"},
		Mounts: []container.Mount{{Source: library, Target: "/opt/gpuwhisk/libgpuwhisk.so"}, {Source: driver, Target: "/opt/fake"},
			{Source: ends.Dir(), Target: "/run/gpuwhisk"}},
	}
	h, err := r.Create(t.Context(), spec)
	check.NoError(t, err)
	s := &shimmed{ends, h, proxy.New(h.Addr, 1)}
	t.Cleanup(s.client.Close)
	return s
}

// testTimeout bounds calls to a container on a busy machine.
const testTimeout = 3 * time.Minute

func (s *shimmed) init(t *testing.T, code string) {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"value": map[string]any{"name": "f", "main": "main", "code": code, "binary": false}})
	x := s.client.Init(t.Context(), body, testTimeout, proxy.Limit{Max: 1 << 20, Truncation: 1 << 20})
	check.NoError(t, x.Err, "init: status %d, %s", x.Status, x.Body)
	check.Equal(check.Must(t), x.Status, 200, "init: status %d, %v, %s", x.Status, x.Err, x.Body)
}

// result is the answer of gpufunc.py.
type result struct {
	Device          string
	Cold            bool
	Bytes, Runs     int64
	Intact, Correct bool
	Error           string
}

func (s *shimmed) run(t *testing.T, bytes int64) result {
	t.Helper()
	s.Running(true)
	defer s.Running(false)
	body, _ := json.Marshal(map[string]any{"value": map[string]any{"bytes": bytes}})
	return s.answer(t, s.client.Run(t.Context(), body, testTimeout, proxy.Limit{Max: 1 << 20, Truncation: 1 << 20}))
}

func (s *shimmed) answer(t *testing.T, x proxy.Exchange) result {
	t.Helper()
	check.NoError(t, x.Err, "run: status %d, %s", x.Status, x.Body)
	check.Equal(check.Must(t), x.Status, 200, "run: status %d, %v, %s", x.Status, x.Err, x.Body)
	var got result
	check.NoError(t, json.Unmarshal(x.Body, &got))
	return got
}

// A function in a container of a glibc image, under the real shim and the fake
// driver: its memory is seen, leaves the device on order, and is back and
// whole for the next run, also after its container was frozen and thawed.
func TestRealShim(t *testing.T) {
	r := startReal(t, nil)
	s := startShimmed(t, r, pythonImage(t), "")
	code, err := os.ReadFile("../../../../shim/examples/gpufunc.py")
	check.NoError(t, err)
	s.init(t, string(code))
	const size = 16 << 20
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	first := s.run(t, size)
	check.That(check.Must(t), first.Cold, "first run: %+v", first)
	check.That(check.Must(t), first.Intact, "first run: %+v", first)
	check.That(check.Must(t), first.Correct, "first run: %+v", first)
	check.Equal(check.Must(t), first.Bytes, size)
	check.Equal(check.Must(t), first.Error, "")
	s.connected(ctx, t)
	for epoch := uint64(1); epoch <= 4; epoch += 2 {
		out, err := s.Evict(ctx, epoch)
		check.NoError(t, err)
		check.Equal(check.Must(t), out.Status, shimctl.OK)
		check.AtLeast(check.Must(t), out.Moved, size)
		check.Equal(check.Must(t), out.Resident, 0)
		s.freeze(t, r)
		back, err := s.Prefetch(ctx, epoch+1, 0)
		check.NoError(t, err)
		check.Equal(check.Must(t), back.Status, shimctl.OK)
		check.AtLeast(check.Must(t), back.Moved, size)
		check.AtLeast(check.Must(t), back.Resident, size)
		got := s.run(t, size)
		check.That(check.Must(t), !got.Cold, "after a swap: %+v", got)
		check.That(check.Must(t), got.Intact, "after a swap: %+v", got)
		check.That(check.Must(t), got.Correct, "after a swap: %+v", got)
	}
	// Out, and not fetched: the run itself brings it back.
	out, err := s.Evict(ctx, 9)
	check.NoError(t, err)
	check.AtLeast(check.Must(t), out.Moved, size)
	got := s.run(t, size)
	check.That(check.Must(t), !got.Cold, "by faults: %+v", got)
	check.That(check.Must(t), got.Intact, "by faults: %+v", got)
	check.That(check.Must(t), got.Correct, "by faults: %+v", got)
	check.Equal(check.Must(t), got.Runs, 4)
}

// connected waits until the function's process has reported its memory.
func (s *shimmed) connected(ctx context.Context, t *testing.T) {
	t.Helper()
	until(t, "the shim connects", func() bool { return s.Processes() == 1 })
	before, err := s.Report(ctx)
	check.NoError(t, err)
	check.Equal(check.Must(t), len(before), 1)
	for pid, u := range before {
		check.Greater(t, pid, 0)
		check.AtLeast(t, u.Allocated, 16<<20)
	}
}

func (s *shimmed) freeze(t *testing.T, r *real) {
	t.Helper()
	check.NoError(t, r.Pause(t.Context(), s.ID))
	check.NoError(t, r.Resume(t.Context(), s.ID))
}

// A file that is no library is left out by the loader, which logs that.
// The function runs all the same.
func TestRealShimThatIsNone(t *testing.T) {
	r := startReal(t, nil)
	broken := filepath.Join(t.TempDir(), "libgpuwhisk.so")
	check.NoError(t, os.WriteFile(broken, []byte("no library"), 0o600))
	s := startShimmed(t, r, pythonImage(t), broken)
	code, err := os.ReadFile("../../../../shim/examples/gpufunc.py")
	check.NoError(t, err)
	s.init(t, string(code))
	got := s.run(t, 1<<20)
	check.That(check.Must(t), got.Cold, "run: %+v", got)
	check.That(check.Must(t), got.Correct, "run: %+v", got)
	check.Equal(t, got.Error, "")
	check.Equal(t, s.Processes(), 0, "processes are connected without a shim")
}

// The loader's own way: a static program in an image with nothing else does
// not load the shim and works as without it.
func TestRealShimInStaticImage(t *testing.T) {
	r := startReal(t, nil)
	s := startShimmed(t, r, "", "")
	a := enginetest.MustCall(t, s.Addr, map[string]any{"env": "LD_PRELOAD"})
	check.Equal(t, a.Env, "/opt/gpuwhisk/libgpuwhisk.so")
	check.Equal(t, s.Processes(), 0)
	got := r.Logs(t.Context(), s.ID, container.LogRequest{LimitBytes: 1 << 20, WaitForSentinel: true, Now: time.Now()})
	text := strings.Join(got.Lines, "\n")
	check.That(t, !got.Incomplete, "logs %+v", got)
	check.Lacks(t, text, "ld.so")
	check.Lacks(t, text, "gpuwhisk")
}
