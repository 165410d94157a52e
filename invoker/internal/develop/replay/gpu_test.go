package replay

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// residentBytes is the memory that each GPU function keeps on a device of 100 MiB: two
// functions fit together.
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

// gpuFunction is an action in Python that wants a GPU.
func gpuFunction(name, code string) harness.Action {
	return harness.Action{Name: name, Kind: "python:3.11", Code: code, Timeout: 5 * time.Minute, LogsMB: 10, Annotations: map[string]any{"gpu": true}}
}

// putGPUFunctions puts functions on one simulated device.
func (w *fixture) putGPUFunctions(functions ...string) {
	w.t.Helper()
	w.extra = append(w.extra, harness.SimulatedGPU(w.t, "100 MiB")...)
	for _, name := range functions {
		w.put(gpuFunction(name, harness.GPUFunction(w.t)+waiter))
	}
}

// use invokes a function that keeps its memory.
func (w *fixture) use(name string) (id string) {
	w.t.Helper()
	return w.invoke(1, harness.Message{Action: name, Content: map[string]any{"bytes": residentBytes}})[0]
}

// ran demands of an activation that its function found its memory as it had
// left it, after so many runs in its container.
func (w *fixture) ran(id string, runs int) {
	w.t.Helper()
	a, err := w.answer(id)
	check.NoError(w.t, err, "record of %s", id)
	check.Equal(w.t, a.StatusCode, 0, "activation %s", id)
	check.Equal(w.t, a.Result.Runs, runs, "activation %s", id)
	check.That(w.t, a.Result.Intact, "activation %s: %+v", id, a)
	check.That(w.t, a.Result.Correct, "activation %s: %+v", id, a)
}

// TestKillWithResidentGPUMemory: an invoker is killed while its functions hold device
// memory, on the device and moved out, and a run is in progress. The next invoker has
// the whole device, and the old processes and sockets are gone.
func TestKillWithResidentGPUMemory(t *testing.T) {
	t.Parallel()
	w, functions := newFixture(t), []string{"alpha", "beta", "gamma"}
	w.putGPUFunctions(functions...)
	first := w.spawn()
	for _, name := range functions {
		w.awaitSlot(w.use(name))
	}
	w.gate = newGate(t, "127.0.0.1")
	caught := w.use("alpha")
	w.gate.await(1)
	first.Kill()
	w.gate.open()
	second := w.spawn()
	w.awaitSlot(caught)
	var after []string
	for range 2 {
		for _, name := range functions {
			after = append(after, w.use(name))
			w.awaitSlot(after[len(after)-1])
		}
	}
	second.Terminate(t)
	w.ran(caught, 1)
	runs := map[string]int{"alpha": 1}
	for i, id := range after {
		name := functions[i%len(functions)]
		runs[name]++
		w.ran(id, runs[name])
	}
	w.noStrays()
	left, _ := filepath.Glob(filepath.Join(w.dir, "processes", "*", "shim", "*"))
	check.Equal(t, len(left), 0, "sockets are left: %v", left)
}
