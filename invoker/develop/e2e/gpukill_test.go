package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"
)

// insertGPU deploys the example function after lines of its own, which run
// before it first uses the driver.
func (p *platform) insertGPU(name, lines string, exec *whisk.Exec) {
	p.t.Helper()
	code, err := os.ReadFile(filepath.Join("..", "..", "..", "shim", "examples", "gpufunc.py"))
	if err != nil {
		p.t.Fatal(err)
	}
	text := lines + string(code)
	exec.Code = &text
	p.insert(&whisk.Action{
		Name: name, Exec: exec, Limits: limits(minutes, 512, 1),
		Annotations: whisk.KeyValueArr{{Key: "gpu", Value: true}},
	})
}

// slowly gives a function a link that takes ten seconds for what it keeps.
const slowly = "import os\nos.environ['FAKE_CUDA_BANDWIDTH'] = '4000000'\n"

// TestKilledAmidAMove kills the invoker, or the container, while memory of 40
// MiB is on its slow way to the host for another function, in containers.
// What waited runs, what was moved is whole or begins anew, and
// nothing of the device stays taken.
func TestKilledAmidAMove(t *testing.T) {
	t.Parallel()
	for _, whom := range []string{"invoker", "container"} {
		t.Run(whom, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "lane.log")
			p := startGPUIn(t, dockerParts(t), 60, map[string]string{"child": "true", "CONFIG_whisk_gpu_record": log})
			p.insertGPU("moves", slowly, &whisk.Exec{Kind: "python:3"})
			p.deployGPU(map[string]any{"memory": "45 MB"}, "waits")
			p.gpuCall("moves", block)
			p.atRest()
			p.rests("guest_moves")
			name := p.container("guest_moves", "ready")
			id := p.started("waits", map[string]any{"bytes": block}, false)
			until(t, "an order to move memory out", func() string {
				if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"evict"`) {
					return "none is given"
				}
				return ""
			})
			if resident := p.used(); resident < holds {
				t.Errorf("%d bytes are taken amid the move: it is over, or was not waited for", resident)
			}
			if whom == "invoker" {
				p.child.must(p.child.end(syscall.SIGKILL))
				p.child.again()
			} else {
				p.kill(name)
			}
			p.finish(id).want(t, 0, `"intact":true`)
			// gpuCall compares what the function finds with what it left. The next
			// invoker takes the container over, and its shim has what was out come in.
			runs, start := int64(2), "host-warm"
			if whom == "container" {
				runs, start = 1, "cold"
			}
			if a, kind := p.gpuCall("moves", block); a.Runs != runs || a.Cold != (runs == 1) || kind != start {
				t.Errorf("afterwards: %+v, a %s start, want run %d, a %s start", a, kind, runs, start)
			}
			if a, _ := p.gpuCall("waits", block); a.Runs != 2 {
				t.Errorf("who waited: run %d, want its second", a.Runs)
			}
			for _, of := range []string{"guest_moves", "guest_waits"} {
				p.kill(p.container(of, "ready"))
				p.gone(of)
			}
			p.uses(0)
		})
	}
}

// TestFallbackOutlivesTheInvoker: what was learned of an action's libraries
// holds in the next invoker, after a crash and after a stop, also for a
// container that the one before never saw.
func TestFallbackOutlivesTheInvoker(t *testing.T) {
	t.Parallel()
	p := startGPUIn(t, dockerParts(t), 200, map[string]string{"child": "true"})
	p.insertGPU("refuses", "import os\nos.environ['FAKE_CUDA_FAIL'] = 'cuMemAllocManaged:0:1'\n", &whisk.Exec{Kind: "python:3"})
	if _, run := p.gpuRun("refuses", block); run.Fallback != "" {
		t.Errorf("its first run: %+v", run)
	}
	p.gone("guest_refuses")
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		p.child.must(p.child.end(how))
		p.child.again()
		var all []struct{ Action, Reason string }
		if err := json.Unmarshal(p.adminPage("/fallbacks"), &all); err != nil || len(all) != 1 || all[0].Action != "guest/refuses" {
			t.Fatalf("after %v: /fallbacks lists %+v, %v", how, all, err)
		}
		if a, run := p.gpuRun("refuses", block); !a.Cold || run.Fallback == "" {
			t.Errorf("after %v: %+v, %+v, want a new container that counts", how, a, run)
		}
		p.kill(p.container("guest_refuses", "ready"))
		p.gone("guest_refuses")
	}
}
