package replay

import (
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

// putGPUFunctions stores functions for invokers with one simulated device.
func (w *fixture) putGPUFunctions(functions ...string) {
	w.T.Helper()
	w.Settings = append(w.Settings, harness.SimulatedGPU(w.T, "100 MiB")...)
	for _, name := range functions {
		w.Put(gpuFunction(name, harness.GPUFunction(w.T)+waiter))
	}
}

// use invokes a function that keeps its memory.
func (w *fixture) use(name string) (id string) {
	w.T.Helper()
	return w.Invoke(1, harness.Message{Action: name, Content: map[string]any{"bytes": residentBytes}})[0]
}

// ran checks that an activation was the given run of its container, and that its function
// found its memory as the previous run had left it.
func (w *fixture) ran(id string, runs int) {
	w.T.Helper()
	a, err := w.answer(id)
	check.NoError(w.T, err, "record of %s", id)
	check.Equal(w.T, a.StatusCode, 0, "activation %s", id)
	check.Equal(w.T, a.Result.Runs, runs, "activation %s", id)
	check.That(w.T, a.Result.Intact, "activation %s: %+v", id, a)
	check.That(w.T, a.Result.Correct, "activation %s: %+v", id, a)
}
