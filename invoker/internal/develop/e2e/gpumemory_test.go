package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestGPUMemorySwaps runs three functions that keep 40 MiB each on a device of 100 MiB,
// as processes and in Docker containers. Unused memory is on the host meanwhile, and
// functions do not notice.
func TestGPUMemorySwaps(t *testing.T) {
	t.Parallel()
	eachOf(t, gpuMemorySwaps, map[string]func(testing.TB) parts{"processes": ownParts, "containers": realParts})
}

// withEachEngine runs a test with functions as processes and in Docker containers, both
// on embedded parts, concurrently with other tests of GPU functions. TestGPUMemorySwaps
// uses real parts.
func withEachEngine(t *testing.T, test func(t *testing.T, w parts)) {
	t.Parallel()
	eachOf(t, test, map[string]func(testing.TB) parts{"processes": ownParts, "containers": dockerParts})
}

func gpuMemorySwaps(t *testing.T, w parts) {
	log := filepath.Join(t.TempDir(), "scheduler.log")
	p := startGPUIn(t, w, 100, setup{env: map[string]string{"CONFIG_whisk_gpu_record": log}})
	names := []string{"alpha", "beta", "gamma"}
	p.deployGPU(true, names...)
	starts := map[string]int{}
	for round := range 4 {
		for _, name := range names {
			for again := range 2 {
				a, run := p.gpuRun(name, block)
				starts[run.Start]++
				want := int64(2*round + again + 1)
				check.Equal(t, a.Runs, want, "%s: run of its container", name)
				check.Equal(t, a.Cold, want == 1, "%s: run %d of its container", name, a.Runs)
			}
		}
	}
	check.Equal(t, starts["cold"], 3)
	check.Greater(t, starts["gpu-warm"], 0)
	check.Greater(t, starts["host-warm"], 0)
	check.Equal(t, len(starts), 3, "starts %v", starts)
	p.atRest()
	for _, direction := range []string{"evict", "prefetch"} {
		check.AtLeast(t, p.metric("gpuwhisk_gpu_moved_bytes_total", direction), 3*block, "bytes moved by %s in four rounds", direction)
	}
	p.wantMetric("gpuwhisk_shim_processes", 3)
	p.wantMetric("gpuwhisk_shim_unhooked_containers", 0)
	// Two of the three fit, or one where memory was moved out ahead of need.
	p.uses(2*holds+3*ctx, holds+3*ctx)
	p.endIdle(names...)
	p.uses(0)
	p.noSockets()
	replayed(t, log)
}

// replayed feeds the recorded events of the GPU scheduler to another scheduler, which
// must give the same orders.
func replayed(t *testing.T, file string) {
	t.Helper()
	var again *scheduler.Replay
	peertest.Until(t, "a whole log of the GPU scheduler", func() string {
		again = &scheduler.Replay{Check: true}
		for line := range bytes.Lines(harness.Read(t, file)) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break // it is being written
			}
			check.NoError(t, again.Line(line))
		}
		if again.Events < 100 || again.Orders < 48 { // 24 calls, each started and served
			return fmt.Sprintf("%d events, %d orders", again.Events, again.Orders)
		}
		return ""
	})
	t.Logf("%d events gave the same %d orders again", again.Events, again.Orders)
}

// noSockets waits until no container that is gone has a directory.
func (p *platform) noSockets() {
	p.t.Helper()
	peertest.Until(p.t, "sockets of containers that are gone", func() string {
		left, _ := filepath.Glob(p.socketOf("*"))
		return strings.Join(left, ", ")
	})
}

// socketOf is the path of a container's socket, by its directory's name.
func (p *platform) socketOf(name string) string {
	return filepath.Join(p.outOf["CONFIG_whisk_gpu_shim_dir"], p.prefix(), name, "shim.sock")
}

// TestKilledDuringSwap ends a container whose memory is on its way out, for
// another function that waits for the memory.
func TestKilledDuringSwap(t *testing.T) {
	withEachEngine(t, killedDuringSwap)
}

func killedDuringSwap(t *testing.T, w parts) {
	p := startGPUIn(t, w, 60, setup{})
	p.deployGPU(true, "stuck", "waits")
	p.gpuCall("stuck", 1, "cold")
	name := p.container("guest_stuck", "ready")
	pid := p.leader(name)
	check.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	id := p.started("waits", map[string]any{"bytes": block}, false)
	p.container("guest_waits", "running")
	check.AtLeast(t, p.used(), holds, "memory that was not moved was given away")
	p.kill(name)
	p.finish(id).want(t, 0, `"intact":true`)
	p.gone("guest_stuck")
	p.uses(holds + ctx)
	p.gpuCall("stuck", 1, "cold")
}

// liar is a function that reports the invoker of 80 GB and waits to be answered.
const liar = `
import os, socket, struct, time
def main(args):
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ["GPUWHISK_SHIM_SOCKET"])
    s.sendall(struct.pack("<IHHQIIII", 32, 1, 0, 0, 2, os.getpid(), 0, 0))
    s.sendall(struct.pack("<IHHQIIQQQQQ", 64, 18, 0, 0, 80, 0, 80 << 30, 80 << 30, 0, 0, 1))
    time.sleep(600)
`

// TestAboveTheLimit runs functions that need more device memory than their limit: one is
// refused by its own CUDA calls, another reports more memory and is ended. The
// reservation of a neighbour is unchanged.
func TestAboveTheLimit(t *testing.T) {
	withEachEngine(t, aboveTheLimit)
}

func aboveTheLimit(t *testing.T, w parts) {
	p := startGPUIn(t, w, 100, setup{env: map[string]string{"CONFIG_whisk_gpu_limits": "*=48 MiB", "CONFIG_whisk_gpu_shim_modes": "managed,count"}})
	p.deployGPU(map[string]any{"limit": "20 MB"}, "small")
	p.deployGPU(map[string]any{"limit": "90 MB"}, "honest")
	p.deployGPU(map[string]any{"shim": "off"}, "loose")
	p.call("small", map[string]any{"bytes": block}).want(t, activation.StatusApplicationError, "CUDA_ERROR")
	o := p.call("loose", map[string]any{"bytes": block})
	check.Contains(t, string(o.record.Response.Result), "whisk.gpu.shim.modes", "without the shim")
	p.gpuCall("honest", 1, "cold")
	p.insertGPU("liar", true, python(liar))
	p.call("liar", nil).want(t, activation.StatusDeveloperError, "limit of 48 MB", "whisk.gpu.limits")
	p.gone("guest_liar")
	p.gpuCall("honest", 2, "")
	p.uses(holds+ctx, holds+2*ctx)
}

// sneak is a function whose child allocates device memory without the shim, and reports
// a hundredth to the invoker.
const sneak = `
import os, subprocess, sys
child = r"""
import ctypes, os, socket, struct, time
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["GPUWHISK_SHIM_SOCKET"])
s.sendall(struct.pack("<IHHQIIII", 32, 1, 0, 0, 2, os.getpid(), 0, 0))
s.sendall(struct.pack("<IHHQIIQQQQQ", 64, 18, 0, 0, 1, 0, 3 << 20, 3 << 20, 0, 0, 1))
cuda, context, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(300 << 20)) == 0
time.sleep(600)
"""
def main(args):
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    return {"code": subprocess.run([sys.executable, "-c", child], env=env).returncode}
`

// TestTakesMoreThanItReports runs a function that holds more device memory than its
// limit and reports little. The device shows the true use, the function is ended, and
// its caller gets the limit as the reason. Its neighbour continues.
func TestTakesMoreThanItReports(t *testing.T) {
	if os.Getenv("GPUWHISK_LONG") == "1" { // containers take minutes
		withEachEngine(t, takesMoreThanItReports)
		return
	}
	t.Parallel()
	takesMoreThanItReports(t, ownParts(t))
}

func takesMoreThanItReports(t *testing.T, w parts) {
	p := startGPUIn(t, w, 500, setup{env: map[string]string{"CONFIG_whisk_gpu_limits": "*=48 MiB", "CONFIG_whisk_gpu_tokens": "2"}})
	p.deployGPU(true, "honest")
	p.gpuCall("honest", 1, "cold")
	p.insertGPU("sneak", true, python(sneak))
	id := p.started("sneak", nil, false)
	p.gpuCall("honest", 2, "")
	p.finish(id).want(t, activation.StatusDeveloperError, "held 300 MB", "limit of 48 MB") // it reported 3
	p.gone("guest_sneak")
	p.gpuCall("honest", 3, "")
	p.atRest()
	p.uses(holds+ctx, holds+2*ctx)
}

// TestSocketRemoved takes a container's socket away before its function uses
// the GPU: the function runs, and its memory counts as reserved.
func TestSocketRemoved(t *testing.T) {
	t.Parallel()
	p := startGPU(t, 100, nil)
	text := harness.GPUFunction(t) + `
import os
ready = main
def main(args):
    while os.path.exists(os.environ["GPUWHISK_SHIM_SOCKET"]):
        time.sleep(0.01)
    return ready(args)
`
	p.insertGPU("unhooked", map[string]any{"memory": "50 MB"}, python(text))
	id := p.started("unhooked", map[string]any{"bytes": block}, false)
	p.inside(p.container("guest_unhooked", "running"))
	var sockets []string
	peertest.Until(t, "a socket", func() string {
		sockets, _ = filepath.Glob(p.socketOf("*"))
		if len(sockets) != 1 {
			return fmt.Sprint("there are ", sockets)
		}
		return ""
	})
	check.NoError(t, os.Remove(sockets[0]))
	p.finish(id).want(t, 0, `"intact":true`)
	p.gpuCall("unhooked", 2, "")
	p.atRest()
	p.uses(50*mib + ctx) // its reservation, because the driver lists no managed memory
	p.wantMetric("gpuwhisk_shim_unhooked_containers", 1)
	// Another function needs the memory: a container that cannot be moved is removed.
	p.deployGPU(map[string]any{"memory": "70 MB"}, "other")
	p.gpuCall("other", 1, "cold")
	p.gone("guest_unhooked")
}

// TestShimModes runs functions that want their memory counted only, or no shim
// at all. Neither is moved, both are right.
func TestShimModes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode      string
		used      int64 // after the first run
		processes float64
	}{
		{"count", holds + ctx, 1},
		{"off", 45*mib + ctx, 0},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			p := startGPU(t, 100, nil)
			p.deployGPU(map[string]any{"shim": c.mode, "memory": "45 MB"}, "fixed")
			p.deployGPU(true, "first", "second")
			p.gpuCall("fixed", 1, "cold")
			p.atRest()
			p.uses(c.used)
			p.wantMetric("gpuwhisk_shim_processes", c.processes)
			for range 2 {
				p.gpuRun("first", block)
				p.gpuRun("second", block)
			}
			a, run := p.gpuRun("fixed", block)
			check.That(t, a.Runs == 2 || run.Start == "cold", "fixed: run %d, a %s start", a.Runs, run.Start)
			p.wantMetric("gpuwhisk_shim_unhooked_containers", 0) // none wanted to be hooked
		})
	}
}

// TestGPUExecutable runs a new program for each activation: its memory is free after its
// end.
func TestGPUExecutable(t *testing.T) {
	t.Parallel()
	p := startGPU(t, 100, nil)
	code := base64.StdEncoding.EncodeToString(harness.Read(t, filepath.Join(shimtest.Dir(t), "gpufunc")))
	p.insertGPU("program", map[string]any{"memory": "64 MB"}, &whisk.Exec{Kind: "native:1", Code: &code})
	for range 3 {
		p.call("program", nil).want(t, 0, `"correct":true`)
	}
	p.atRest()
	// On a busy machine it may end before its shim has connected.
	p.uses(ctx, 64*mib+ctx)
}

// TestGPULimit: a function that allocates more than the device has gets the
// driver's own error, as on a device without us.
func TestGPULimit(t *testing.T) {
	t.Parallel()
	p := startGPU(t, 60, nil)
	p.deployGPU(true, "greedy")
	o := p.call("greedy", map[string]any{"bytes": 80 * mib})
	check.That(t, o.record.Response.StatusCode != activation.StatusSuccess, "it ended well: %s", o.text())
	check.Contains(t, string(o.record.Response.Result), "error")
	p.gpuRun("greedy", block)
}
