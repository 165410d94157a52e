package config

import (
	"strings"
	"testing"
	"time"
)

// Devices are found, named, simulated or none, and never two of these.
func TestGPUDevices(t *testing.T) {
	for _, c := range []struct {
		env     []string
		devices string
		refusal string
	}{
		{nil, "auto", ""},
		{[]string{"CONFIG_whisk_gpu_devices=none"}, "none", ""},
		{[]string{"CONFIG_whisk_gpu_devices=0,GPU-8f6"}, "0,GPU-8f6", ""},
		{[]string{"CONFIG_whisk_gpu_simulated_devices=2"}, "auto", ""},
		{[]string{"CONFIG_whisk_gpu_simulated_devices=2", "CONFIG_whisk_gpu_devices=none"}, "none", ""},
		{[]string{"CONFIG_whisk_gpu_simulated_devices=2", "CONFIG_whisk_gpu_devices=0"}, "", "whisk.gpu.devices"},
		{[]string{"CONFIG_whisk_gpu_utilizationThreshold=1.5"}, "", "whisk.gpu.utilization-threshold"},
		{[]string{"CONFIG_whisk_gpu_utilizationThreshold=0"}, "", "whisk.gpu.utilization-threshold"},
	} {
		got, err := Load(Input{Environ: full(c.env...), Args: []string{"--id", "0"}})
		switch {
		case c.refusal != "":
			if err == nil || !strings.Contains(err.Error(), c.refusal) {
				t.Errorf("%q: %v, want an error about %s", c.env, err, c.refusal)
			}
		case err != nil || got.GPU.Devices != c.devices:
			t.Errorf("%q: %v, %v", c.env, got, err)
		}
	}
}

func TestGPUMemoryKeys(t *testing.T) {
	g := loaded(t, "CONFIG_whisk_gpu_shim_library=/opt/l.so", "CONFIG_whisk_gpu_shim_dir=/run/x", "CONFIG_whisk_gpu_fakeDriver=/fake",
		"CONFIG_whisk_gpu_dynamicTokens=true", "CONFIG_whisk_gpu_ackTimeout=3 s").GPU
	if g.Shim != (GPUShim{Library: "/opt/l.so", Dir: "/run/x"}) || g.FakeDriver != "/fake" || !g.Dynamic || g.Threshold != 0.9 || g.AckTimeout != 3*time.Second {
		t.Errorf("read %+v", g)
	}
}
