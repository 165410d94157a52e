package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// These tests run GPU functions as processes under the real shim and a fake
// driver: the whole way from scheduler to driver, with bytes that really move.

const mib = 1 << 20

// shimParts is where the shim and the fake driver lie, which "make shim-fake"
// builds.
func shimParts(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "..", "build", "shim"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libgpuwhisk.so", filepath.Join("fake12", "libcuda.so.1")} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			peertest.Missing(t, err.Error()+": run make shim-fake")
		}
	}
	if shimStale() {
		peertest.Missing(t, "build/shim is older than its source: run make shim-fake")
	}
	return dir
}

// shimStale asks make, where there is one, whether there is anything to build.
var shimStale = sync.OnceValue(func() bool {
	var code *exec.ExitError
	err := exec.Command("make", "-q", "-C", filepath.Join("..", "..", "..", "shim"), "fake").Run()
	return errors.As(err, &code) && code.ExitCode() == 1
})

// startGPU brings an installation up with one simulated device of so many MiB,
// for functions that run as processes.
func startGPU(t *testing.T, memory int, env map[string]string) *platform {
	t.Helper()
	return startGPUIn(t, ownParts(t), memory, env)
}

// startGPUIn is startGPU in a fixture.
func startGPUIn(t *testing.T, w parts, memory int, env map[string]string) *platform {
	t.Helper()
	with := setup{child: env["child"] != ""}
	delete(env, "child")
	return startGPUWith(t, w, memory, env, with)
}

// startGPUWith is startGPUIn with further changes of the installation.
func startGPUWith(t *testing.T, w parts, memory int, env map[string]string, with setup) *platform {
	t.Helper()
	dir := shimParts(t)
	sockets, err := os.MkdirTemp("", "gw") // short: a socket's path has room for 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(sockets); err != nil {
			t.Error(err)
		}
	})
	all := map[string]string{
		"CONFIG_whisk_gpu_simulated_devices": "1",
		"CONFIG_whisk_gpu_simulated_memory":  fmt.Sprint(memory, " MiB"),
		"CONFIG_whisk_gpu_contextMemory":     "1 MiB",
		"CONFIG_whisk_gpu_defaultMemory":     "16 MiB",
		"CONFIG_whisk_gpu_shim_library":      filepath.Join(dir, "libgpuwhisk.so"),
		"CONFIG_whisk_gpu_fakeDriver":        filepath.Join(dir, "fake12"),
		"CONFIG_whisk_gpu_shim_dir":          sockets,
	}
	for name, value := range env {
		all[name] = value
	}
	w.shared = true // with other tests of GPU functions
	with.env, with.memory = all, memoryForAll
	return start(t, w, with)
}

// deployGPU deploys the example function under names.
func (p *platform) deployGPU(annotation any, names ...string) {
	p.t.Helper()
	code, err := os.ReadFile(filepath.Join("..", "..", "..", "shim", "examples", "gpufunc.py"))
	if err != nil {
		p.t.Fatal(err)
	}
	text := string(code)
	for _, name := range names {
		p.insert(&whisk.Action{
			Name: name, Exec: &whisk.Exec{Kind: "python:3", Code: &text}, Limits: limits(minutes, 512, 1),
			Annotations: whisk.KeyValueArr{{Key: "gpu", Value: annotation}},
		})
	}
}

// gpuAnswer is what the example function says of itself.
type gpuAnswer struct {
	Device          string
	Cold            bool
	Bytes, Runs     int64
	Intact, Correct bool
}

// gpuCall invokes the example function and checks that it found its memory as
// it had left it. It gives its answer and the kind of its start.
func (p *platform) gpuCall(name string, bytes int) (gpuAnswer, string) {
	p.t.Helper()
	a, run := p.gpuRun(name, bytes)
	return a, run.Start
}

// gpuRun is gpuCall with all that the record reports of the GPU.
func (p *platform) gpuRun(name string, bytes int) (a gpuAnswer, run gpuAnnotation) {
	p.t.Helper()
	o := p.call(name, map[string]any{"bytes": bytes})
	if err := json.Unmarshal(o.record.Response.Result, &a); err != nil || o.record.Response.StatusCode != activation.StatusSuccess {
		p.t.Fatalf("%s: status %d: %s", name, o.record.Response.StatusCode, o.text())
	}
	if !a.Intact || !a.Correct {
		p.t.Errorf("%s, run %d: intact %t, correct %t", name, a.Runs, a.Intact, a.Correct)
	}
	annotation, _ := o.record.Annotations.Get(activation.GPUAnnotation)
	if err := json.Unmarshal(annotation, &run); err != nil {
		p.t.Fatalf("%s: no word of the GPU in its record: %v", name, err)
	}
	if !strings.Contains(run.Device, "simulated") {
		p.t.Errorf("%s ran on %q, which does not say that it is simulated", name, run.Device)
	}
	return a, run
}

// gpuAnnotation is what a record reports of the GPU.
type gpuAnnotation struct{ Device, Start, Fallback string }

// adminPage asks the invoker's admin page for a page.
func (p *platform) adminPage(path string) []byte {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.base+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	password, _ := p.login.Password()
	req.SetBasicAuth(p.login.Username(), password)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: status %d, %v", path, res.StatusCode, err)
	}
	return text
}

// metric sums a metric over its labels; part must be in the line.
func (p *platform) metric(name, part string) (sum float64) {
	p.t.Helper()
	for line := range strings.Lines(string(p.adminPage("/metrics"))) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || !strings.ContainsAny(rest[:1], " {") || !strings.Contains(rest, part) {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndex(rest, " "):]), 64)
		if err != nil {
			p.t.Fatal(err)
		}
		sum += v
	}
	return sum
}

// used is how much of its one device the invoker takes to be held or promised.
func (p *platform) used() int64 {
	p.t.Helper()
	var s struct {
		Work struct {
			Devices []struct{ MemoryBytes, UsedBytes int64 }
		}
	}
	if err := json.Unmarshal(p.adminPage("/status"), &s); err != nil || len(s.Work.Devices) != 1 {
		p.t.Fatalf("%d devices, %v", len(s.Work.Devices), err)
	}
	d := s.Work.Devices[0]
	if d.UsedBytes > d.MemoryBytes {
		p.t.Errorf("%d bytes of %d are given out", d.UsedBytes, d.MemoryBytes)
	}
	return d.UsedBytes
}

// uses waits until so much of the device is taken.
func (p *platform) uses(want ...int64) {
	p.t.Helper()
	until(p.t, "device memory", func() string {
		if got := p.used(); !slices.Contains(want, got) {
			return fmt.Sprintf("%d bytes are taken, want %d", got, want)
		}
		return ""
	})
}

const (
	block = 40 * mib  // what a function keeps
	holds = block + 8 // and the place of its sum
	ctx   = mib       // what its context takes
)
