//go:build ansible

package tests

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A mixed fleet: host0 has a (simulated) GPU and variables of its group, the
// others pass GPU activations on to it.
const gpuActions = 6 // so that each host is home to some

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
gpuwhisk_env={"CONFIG_whisk_gpu_forwardTopic": "invoker0"}
`
	w.save()
	body, _ := json.Marshal(map[string]any{
		"exec":        map[string]any{"kind": "nodejs:20", "code": `function main() { return {by: 'gpuwhisk'} }`},
		"limits":      map[string]any{"memory": 128},
		"annotations": []any{map[string]any{"key": "gpu", "value": true}},
	})
	for n := range gpuActions {
		if status, text, err := w.call("PUT", fmt.Sprintf("actions/gpu%d?overwrite=true", n), string(body)); err != nil || status != 200 {
			w.t.Fatalf("create action: %v %d %s", err, status, text)
		}
	}
}

// wantForwarded calls GPU actions, wherever controllers send them, and holds
// that all ran on the host with the GPU.
func (w *fixture) wantForwarded(t *testing.T) {
	t.Helper()
	for n := range gpuActions {
		status, text, err := w.call("POST", fmt.Sprintf("actions/gpu%d?blocking=true", n), "{}")
		if err != nil || status != 200 || !strings.Contains(string(text), `"by":"gpuwhisk"`) {
			t.Errorf("GPU action %d: %v %d %s\n%s", n, err, status, text, w.logs())
		}
		ran := docker(t, "ps", "-a", "--format", "{{.Names}}", "--filter", fmt.Sprintf("name=_guest_gpu%d", n))
		if !strings.HasPrefix(ran, "wsk00_") || strings.Contains(ran, "\n") {
			t.Errorf("GPU action %d did not run on the host with the GPU alone: containers %q", n, ran)
		}
	}
}
