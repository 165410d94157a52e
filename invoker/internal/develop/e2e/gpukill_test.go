package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// refusesManaged has the fake driver refuse managed memory, when the function that
// it stands before first uses it.
const refusesManaged = "import os\nos.environ['FAKE_CUDA_FAIL'] = 'cuMemAllocManaged:0:1'\n"

// slowly gives a function a link that takes four seconds for its memory. That is shorter
// than whisk.gpu.ack-timeout, after which the scheduler removes a slow container.
const slowly = "import os\nos.environ['FAKE_CUDA_BANDWIDTH'] = '10000000'\n"

// TestKilledAmidAMove kills the invoker or the container while 40 MiB of memory are
// moving slowly to the host for another function, in containers. The waiting function
// runs, the moved memory is intact or the function starts anew, and no device memory
// stays reserved.
func TestKilledAmidAMove(t *testing.T) {
	t.Parallel()
	for _, whom := range []string{"invoker", "container"} {
		t.Run(whom, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "scheduler.log")
			p := startGPUIn(t, dockerParts(t), 60, setup{child: true, env: map[string]string{"CONFIG_whisk_gpu_record": log}})
			p.insertGPU("moves", true, python(slowly+harness.GPUFunction(t)))
			p.deployGPU(map[string]any{"memory": "45 MB"}, "waits")
			p.gpuCall("moves", 1, "cold")
			p.atRest()
			p.awaitIdleState("guest_moves")
			name := p.container("guest_moves", "ready")
			id := p.started("waits", map[string]any{"bytes": block}, false)
			peertest.Until(t, "an order to move memory out", func() string {
				if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"evict"`) {
					return "none is given"
				}
				return ""
			})
			check.AtLeast(t, p.used(), holds, "the move is over, or was not awaited")
			if whom == "invoker" {
				p.child.replace(syscall.SIGKILL)
			} else {
				p.kill(name)
			}
			p.finish(id).want(t, 0, `"intact":true`)
			// The function checks that its memory has the bytes of its last run. The next
			// invoker adopts the container, and the shim moves the memory back to the device.
			runs, start := int64(2), "host-warm"
			if whom == "container" {
				runs, start = 1, "cold"
			}
			p.gpuCall("moves", runs, start)
			p.gpuCall("waits", 2, "")
			p.endIdle("moves", "waits")
			p.uses(0)
		})
	}
}

// TestFallbackOutlivesTheInvoker: the next invoker knows about an action's libraries
// after a crash and after a stop, even for a container that the previous invoker never
// saw.
func TestFallbackOutlivesTheInvoker(t *testing.T) {
	t.Parallel()
	p := startGPUIn(t, dockerParts(t), 200, setup{child: true})
	p.insertGPU("refuses", true, python(refusesManaged+harness.GPUFunction(t)))
	_, run := p.gpuRun("refuses", block)
	check.Equal(t, run.Fallback, "", "its first run")
	p.gone("guest_refuses")
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		p.child.replace(how)
		all := p.fallbacks()
		check.Equal(check.Must(t), len(all), 1, "after %v /fallbacks lists %+v", how, all)
		check.Equal(check.Must(t), all[0].Action, "guest/refuses", "after %v", how)
		a, run := p.gpuRun("refuses", block)
		check.That(t, a.Cold, "after %v: %+v, %+v, want a new container", how, a, run)
		check.That(t, run.Fallback != "", "after %v: %+v, %+v, want a container that counts", how, a, run)
		p.endIdle("refuses")
	}
}
