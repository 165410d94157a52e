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
	if g.Shim.Library != "/opt/l.so" || g.Shim.Dir != "/run/x" || g.Shim.Log || strings.Join(g.Shim.Modes, " ") != "managed count off" || g.FakeDriver != "/fake" || !g.Dynamic || g.Threshold != 0.9 || g.AckTimeout != 3*time.Second {
		t.Errorf("read %+v", g)
	}
}

func TestGPULimits(t *testing.T) {
	g := loaded(t, "CONFIG_whisk_gpu_limits=guest/pkg/f=4 GiB, guest=2 GiB,*=1 GiB", "CONFIG_whisk_gpu_shim_modes=managed, count", "CONFIG_whisk_gpu_namespaceLimits=guest=16 GB,*=8 GiB").GPU
	if len(g.Limits) != 3 || g.Limits["guest/pkg/f"] != 4<<30 || g.Limits["*"] != 1<<30 || strings.Join(g.Shim.Modes, " ") != "managed count" {
		t.Errorf("read %v, %v", g.Limits, g.Shim.Modes)
	}
	if len(g.NamespaceLimits) != 2 || g.NamespaceLimits["guest"] != 16e9 || g.NamespaceLimits["*"] != 8<<30 {
		t.Errorf("read %v", g.NamespaceLimits)
	}
	for _, wrong := range []string{"limits=guest", "limits==1 GB", "limits=guest=much", "shim_modes=count", "shim_modes=managed,vmm", "namespace_limits=guest/f=1 GB"} {
		_, err := Load(Input{Environ: full("CONFIG_whisk_gpu_" + wrong), Args: []string{"--id", "0"}})
		if err == nil || !strings.Contains(err.Error(), strings.SplitN(strings.ReplaceAll(wrong, "_", "."), "=", 2)[0]) {
			t.Errorf("%s: %v, want an error that names the key", wrong, err)
		}
	}
}
