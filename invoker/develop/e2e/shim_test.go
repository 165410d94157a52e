package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// These tests run GPU functions as processes under the real shim and a fake
// driver: the whole way from scheduler to driver, with bytes that really move.

const mib = 1 << 20

// shimParts is where the shim and the fake driver lie, which "make shim-fake"
// builds.
func shimParts(t testing.TB) string {
	t.Helper()
	return shimtest.Dir(t)
}

// startGPU brings an installation up with one simulated device of so many MiB,
// for functions that run as processes.
func startGPU(t *testing.T, memory int, env map[string]string) *platform {
	t.Helper()
	return startGPUIn(t, ownParts(t), memory, setup{env: env})
}

// startGPUIn is startGPU of other parts, with further changes of the installation.
func startGPUIn(t *testing.T, w parts, memory int, with setup) *platform {
	t.Helper()
	dir := shimParts(t)
	sockets, err := os.MkdirTemp("", "gw") // short: a socket's path has 107 bytes at most
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
	for name, value := range with.env {
		all[name] = value
	}
	w.shared = true // with other tests of GPU functions
	with.env, with.memory = all, memoryForAll
	return start(t, w, with)
}

// insertGPU deploys an action with the annotation gpu.
func (p *platform) insertGPU(name string, annotation any, exec *whisk.Exec) {
	p.t.Helper()
	p.insert(&whisk.Action{Name: name, Exec: exec, Limits: limits(minutes, 512, 1), Annotations: whisk.KeyValueArr{{Key: "gpu", Value: annotation}}})
}

// deployGPU deploys the example function under names.
func (p *platform) deployGPU(annotation any, names ...string) {
	p.t.Helper()
	for _, name := range names {
		p.insertGPU(name, annotation, python(gpufunc(p.t)))
	}
}

// python is code of the kind that GPU functions are of.
func python(code string) *whisk.Exec { return &whisk.Exec{Kind: "python:3", Code: &code} }

// gpufunc is the code of the example function.
func gpufunc(t *testing.T) string {
	t.Helper()
	code, err := os.ReadFile(filepath.Join("..", "..", "..", "shim", "examples", "gpufunc.py"))
	if err != nil {
		t.Fatal(err)
	}
	return string(code)
}

// gpuAnswer is what the example function returns.
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
		p.t.Fatalf("%s: no annotation of the GPU in its record: %v", name, err)
	}
	if !strings.Contains(run.Device, "simulated") {
		p.t.Errorf("%s ran on %q, which is not marked as simulated", name, run.Device)
	}
	return a, run
}

// gpuAnnotation is what a record reports of the GPU.
type gpuAnnotation struct{ Device, Start, Fallback string }

// metric sums a metric over its labels; part must be in the line.
func (p *platform) metric(name, part string) float64 {
	p.t.Helper()
	return p.admin.Metric(p.t, name, part)
}

// used is how much of its one device the invoker takes to be held or promised.
func (p *platform) used() int64 {
	p.t.Helper()
	var s struct {
		Work struct {
			Devices []struct{ MemoryBytes, UsedBytes int64 }
		}
	}
	if p.admin.Get(p.t, "/status", &s); len(s.Work.Devices) != 1 {
		p.t.Fatalf("%d devices", len(s.Work.Devices))
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
	peertest.Until(p.t, "device memory", func() string {
		if got := p.used(); !slices.Contains(want, got) {
			return fmt.Sprintf("%d bytes are taken, want %d", got, want)
		}
		return ""
	})
}

const (
	block = 40 * mib  // what a function keeps
	holds = block + 8 // and its sum
	ctx   = mib       // what its context takes
)
