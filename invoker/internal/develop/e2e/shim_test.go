package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// These tests run GPU functions as processes under the real shim and a fake
// driver: the whole way from scheduler to driver, with bytes that really move.

const mib = 1 << 20

// startGPU brings an installation up with one simulated device of so many MiB,
// for functions that run as processes.
func startGPU(t *testing.T, memory int, env map[string]string) *platform {
	t.Helper()
	return startGPUIn(t, ownParts(t), memory, setup{env: env})
}

// startGPUIn is startGPU of other parts, with further changes of the installation.
func startGPUIn(t *testing.T, w parts, memory int, with setup) *platform {
	t.Helper()
	sockets, err := os.MkdirTemp("", "gw") // short: a socket's path has 107 bytes at most
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(sockets); err != nil {
			t.Error(err)
		}
	})
	all := map[string]string{"CONFIG_whisk_gpu_shim_dir": sockets}
	for _, v := range harness.SimulatedGPU(t, fmt.Sprint(memory, " MiB")) {
		name, value, _ := strings.Cut(v, "=")
		all[name] = value
	}
	maps.Copy(all, with.env)
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
		p.insertGPU(name, annotation, python(harness.GPUFunction(p.t)))
	}
}

// python is code of the kind that GPU functions are of.
func python(code string) *whisk.Exec { return &whisk.Exec{Kind: "python:3", Code: &code} }

// gpuAnswer is the answer of the example function.
type gpuAnswer struct {
	Device          string
	Cold            bool
	Bytes, Runs     int64
	Intact, Correct bool
}

// gpuCall invokes the example function, which keeps 40 MiB, and checks that it found
// its memory as it had left it, which run of its container it was, and the kind of its
// start, unless that is empty.
func (p *platform) gpuCall(name string, run int64, start string) {
	p.t.Helper()
	p.gpuCallOf(name, block, run, start)
}

// gpuCallOf is gpuCall of another size.
func (p *platform) gpuCallOf(name string, bytes int, run int64, start string) {
	p.t.Helper()
	a, got := p.gpuRun(name, bytes)
	check.Equal(p.t, a.Runs, run, "%s: run of its container", name)
	check.Equal(p.t, a.Cold, run == 1, "%s: run %d of its container", name, a.Runs)
	if start != "" {
		check.Equal(p.t, got.Start, start, "%s", name)
	}
}

// gpuRun invokes the example function and checks that it found its memory as it had
// left it. It gives its answer, and all that the record reports of the GPU.
func (p *platform) gpuRun(name string, bytes int) (a gpuAnswer, run gpuAnnotation) {
	p.t.Helper()
	o := p.call(name, map[string]any{"bytes": bytes})
	check.Equal(check.Must(p.t), o.record.Response.StatusCode, activation.StatusSuccess, "%s: %s", name, o.text())
	check.NoError(p.t, json.Unmarshal(o.record.Response.Result, &a), "%s: %s", name, o.text())
	check.That(p.t, a.Intact, "%s, run %d", name, a.Runs)
	check.That(p.t, a.Correct, "%s, run %d", name, a.Runs)
	annotation, _ := o.record.Annotations.Get(activation.GPUAnnotation)
	check.NoError(p.t, json.Unmarshal(annotation, &run), "%s: no annotation of the GPU in its record", name)
	check.Contains(p.t, run.Device, "simulated", "%s", name)
	return a, run
}

// gpuAnnotation is the annotation about the GPU in a record.
type gpuAnnotation struct {
	Device, Start, Fallback string
	Memory                  int64
	MemoryMeasured          bool
}

// metric sums a metric over its labels; part must be in the line.
func (p *platform) metric(name, part string) float64 {
	p.t.Helper()
	return p.admin.Metric(p.t, name, part)
}

// wantMetric checks the sum of a metric over its labels.
func (p *platform) wantMetric(name string, want float64) {
	p.t.Helper()
	check.Equal(p.t, p.metric(name, ""), want, "%s", name)
}

// used is how much of its one device the invoker takes to be held or promised.
func (p *platform) used() int64 {
	p.t.Helper()
	all := p.status().Work.Devices
	check.Equal(check.Must(p.t), len(all), 1, "devices")
	check.AtMost(p.t, all[0].UsedBytes, all[0].MemoryBytes, "bytes that are given out")
	return all[0].UsedBytes
}

// endIdle kills the idle container of each function, and waits until the invoker has
// removed it.
func (p *platform) endIdle(functions ...string) {
	p.t.Helper()
	for _, name := range functions {
		p.kill(p.container("guest_"+name, "ready"))
		p.gone("guest_" + name)
	}
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
	block = 40 * mib  // memory that a function keeps
	holds = block + 8 // and its checksum
	ctx   = mib       // memory of its context
)
