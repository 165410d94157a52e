//go:build ansible

package tests

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// A mixed fleet: host0 has a (simulated) GPU and the variables of its group, and the
// other hosts forward GPU activations to it.
const gpuActions = 6 // enough that each host is home to some

// mixFleet writes the groups of hosts with and without a GPU.
func (w *fixture) mixFleet() {
	w.t.Helper()
	var cpu strings.Builder
	for n := 1; n < hosts; n++ {
		fmt.Fprintf(&cpu, "host%d\n", n)
	}
	w.groups = `
[gpu_invokers]
host0

[gpu_invokers:vars]
gpuwhisk_gpu=true
gpuwhisk_gpu_env={"CONFIG_whisk_gpu_devices": "auto", "CONFIG_whisk_gpu_simulated_devices": "1"}
gpuwhisk_gpu_device_requests=[]
gpuwhisk_gpu_probe_action=guest/gpu0

[cpu_invokers]
` + cpu.String() + `
[cpu_invokers:vars]
gpuwhisk_env={"CONFIG_whisk_gpu_forwardTo": "invoker0"}
`
	w.save()
	body, _ := json.Marshal(map[string]any{
		"exec":        map[string]any{"kind": "nodejs:20", "code": `function main() { return {by: 'gpuwhisk'} }`},
		"limits":      map[string]any{"memory": 128},
		"annotations": []any{map[string]any{"key": "gpu", "value": true}},
	})
	for n := range gpuActions {
		w.put(fmt.Sprint("gpu", n), body)
	}
}

// wantForwarded calls GPU actions that controllers send to all hosts, and checks that
// all ran on the host with the GPU.
func (w *fixture) wantForwarded(t *testing.T) {
	t.Helper()
	for n := range gpuActions {
		status, text, err := w.call("POST", fmt.Sprintf("actions/gpu%d?blocking=true", n), "{}")
		if err != nil {
			t.Errorf("GPU action %d: %v\n%s", n, err, w.logs())
		}
		check.Equal(t, status, 200, "%s\nGPU action %d: %s: status", w.logs(), n, text)
		check.Contains(t, string(text), `"by":"gpuwhisk"`, "%s\nGPU action %d", w.logs(), n)
		ran := docker(t, "ps", "-a", "--format", "{{.Names}}", "--filter", fmt.Sprintf("name=_guest_gpu%d", n))
		check.That(t, strings.HasPrefix(ran, "wsk00_"), "containers %q: GPU action %d ran on the host with the GPU", ran, n)
		check.Lacks(t, ran, "\n", "GPU action %d ran in one container", n)
	}
}
