package replay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/harness"
)

// residentBytes is what each GPU function keeps on a device of 100 MiB: two of them
// fit beside each other.
const residentBytes = 40 << 20

// waiter is put behind the example function: a run holds its memory for as long
// as the parameter url does not answer.
const waiter = `
import urllib.request
uses = main
def main(args):
    answer = uses(args)
    if "url" in args:
        urllib.request.urlopen(args["url"]).read()
    return answer
`

// simulatedGPU has an invoker find one device, for processes under the shim and the
// fake driver.
func simulatedGPU(t *testing.T, memory string) []string {
	t.Helper()
	dir := shimtest.Dir(t)
	return []string{
		"CONFIG_whisk_gpu_simulated_devices=1", "CONFIG_whisk_gpu_simulated_memory=" + memory,
		"CONFIG_whisk_gpu_contextMemory=1 MiB", "CONFIG_whisk_gpu_defaultMemory=16 MiB",
		"CONFIG_whisk_gpu_shim_library=" + filepath.Join(dir, "libgpuwhisk.so"),
		"CONFIG_whisk_gpu_fakeDriver=" + filepath.Join(dir, "fake12"),
	}
}

// gpuFunction is an action in Python that wants a GPU.
func gpuFunction(name, code string) harness.Action {
	return harness.Action{Name: name, Kind: "python:3.11", Code: code, Timeout: 5 * time.Minute, LogsMB: 10, Annotations: map[string]any{"gpu": true}}
}

// gpuFunctions are functions on one simulated device.
type gpuFunctions struct {
	w    *fixture
	revs map[string]string
	sent int
}

func newGPUFunctions(w *fixture, functions ...string) *gpuFunctions {
	w.t.Helper()
	w.extra = append(w.extra, simulatedGPU(w.t, "100 MiB")...)
	code, err := os.ReadFile(filepath.Join("..", "..", "..", "shim", "examples", "gpufunc.py"))
	if err != nil {
		w.t.Fatal(err)
	}
	f := &gpuFunctions{w: w, revs: map[string]string{}}
	for _, name := range functions {
		f.revs[name] = w.put(gpuFunction(name, string(code)+waiter))
	}
	return f
}

// send invokes a function, which waits for url if there is one.
func (f *gpuFunctions) send(name, url string) (id string) {
	f.w.t.Helper()
	f.sent++
	id = fmt.Sprintf("%032x", f.sent)
	content := map[string]any{"bytes": residentBytes}
	if url != "" {
		content["url"] = url
	}
	f.w.send(harness.Message{ID: id, Action: name, Revision: f.revs[name], Content: content})
	return id
}

// ran demands of an activation that its function found its memory as it had
// left it, after so many runs in its container.
func (f *gpuFunctions) ran(id string, runs int) {
	f.w.t.Helper()
	var r struct {
		Response struct {
			StatusCode int
			Result     struct {
				Runs            int
				Intact, Correct bool
			}
		}
	}
	if err := json.Unmarshal(f.w.record(id), &r); err != nil {
		f.w.t.Fatalf("record of %s: %v", id, err)
	}
	if got := r.Response.Result; r.Response.StatusCode != 0 || got.Runs != runs || !got.Intact || !got.Correct {
		f.w.t.Errorf("activation %s: %+v, want run %d", id, r.Response, runs)
	}
}

// TestKillWithResidentGPUMemory: an invoker is killed while its functions hold
// device memory, on the device and moved out, one in the middle of a run. The
// next one has the whole device: what held it is gone, and so are its sockets.
func TestKillWithResidentGPUMemory(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	functions := []string{"alpha", "beta", "gamma"}
	f, g := newGPUFunctions(w, functions...), newGate(t, "127.0.0.1")
	first := w.spawn()
	for _, name := range functions {
		w.awaitSlot(f.send(name, ""))
	}
	caught := f.send("alpha", g.url)
	g.await(1)
	first.Kill()
	g.open()
	second := w.spawn()
	w.awaitSlot(caught)
	runs := map[string]int{"alpha": 1}
	var after []string
	for range 2 {
		for _, name := range functions {
			after = append(after, f.send(name, ""))
			w.awaitSlot(after[len(after)-1])
		}
	}
	second.terminate()
	f.ran(caught, 1)
	for i, id := range after {
		name := functions[i%len(functions)]
		runs[name]++
		f.ran(id, runs[name])
	}
	w.noStrays()
	if left, _ := filepath.Glob(filepath.Join(w.dir, "processes", "*", "shim", "*")); len(left) > 0 {
		t.Errorf("sockets are left: %v", left)
	}
}
