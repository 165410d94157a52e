package config

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// TestGPUDevices: a host finds its devices, or settings name them, simulate them or turn them
// off. Named devices beside simulated ones are refused.
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
		if c.refusal != "" {
			refused(t, c.refusal, c.env...)
		} else if got := loaded(t, c.env...); got.GPU.Devices != c.devices {
			t.Errorf("%q: %s", c.env, got.GPU.Devices)
		}
	}
}

func TestGPUMemoryKeys(t *testing.T) {
	c := loaded(t, "CONFIG_whisk_gpu_shim_library=/opt/l.so", "CONFIG_whisk_gpu_shim_dir=/run/x", "CONFIG_whisk_gpu_fakeDriver=/fake",
		"CONFIG_whisk_gpu_dynamicTokens=true", "CONFIG_whisk_gpu_ackTimeout=3 s")
	wantSettings(t, c, map[string]string{
		"whisk.gpu.shim.library":          "/opt/l.so",
		"whisk.gpu.shim.dir":              "/run/x",
		"whisk.gpu.shim.log":              "false",
		"whisk.gpu.shim.modes":            "managed,vmm,count,off",
		"whisk.gpu.fake-driver":           "/fake",
		"whisk.gpu.dynamic-tokens":        "true",
		"whisk.gpu.utilization-threshold": "0.9",
		"whisk.gpu.ack-timeout":           "3 seconds",
	})
}

func TestGPULimits(t *testing.T) {
	c := loaded(t, "CONFIG_whisk_gpu_limits=guest/pkg/f=4 GiB, guest=2 GiB,*=1 GiB", "CONFIG_whisk_gpu_shim_modes=managed, count", "CONFIG_whisk_gpu_namespaceLimits=guest=16 GB,*=8 GiB")
	wantSettings(t, c, map[string]string{
		"whisk.gpu.limits":           "*=1 GiB,guest=2 GiB,guest/pkg/f=4 GiB",
		"whisk.gpu.shim.modes":       "managed,count",
		"whisk.gpu.namespace-limits": "*=8 GiB,guest=15625000 KiB",
	})
	for _, wrong := range []string{"limits=guest", "limits==1 GB", "limits=guest=much", "shim_modes=count", "shim_modes=managed,mapped", "namespace_limits=guest/f=1 GB"} {
		key, _, _ := strings.Cut(strings.ReplaceAll(wrong, "_", "."), "=")
		refused(t, key, "CONFIG_whisk_gpu_"+wrong)
	}
}

// TestRivalPoliciesAreRefused: the policies that only the simulator has are no values of
// whisk.gpu.policy, and the error lists the valid ones.
func TestRivalPoliciesAreRefused(t *testing.T) {
	for _, policy := range []string{"mqfq", "sfq", "batch", "paella", "sjf", "eevdf", "naive"} {
		err := refused(t, "CONFIG_whisk_gpu_policy", "CONFIG_whisk_gpu_policy="+policy)
		for _, valid := range []string{policy, "sticky-plus", "mqfq-sticky", "fcfs"} {
			check.ErrorContains(t, err, valid, "%s", policy)
		}
	}
}

// TestPolicy: explicit settings override the policy's defaults.
func TestPolicy(t *testing.T) {
	plus, _ := sched.Defaults("sticky-plus")
	fcfs, _ := sched.Defaults("fcfs")
	for _, c := range []struct {
		name string
		env  []string
		want func(g *GPU) bool
	}{
		{"default", nil, func(g *GPU) bool { return g.Sched == plus && g.Pool.Rule == gpu.DemandAware && g.Pool.Size == 32 }},
		{"another", []string{"policy=fcfs"}, func(g *GPU) bool { return g.Sched == fcfs && g.Pool.Rule == gpu.LRU }},
		{"part", []string{"shortest=false", "charge_setup=true"}, func(g *GPU) bool {
			return !g.Sched.Shortest && g.Sched.Wait && g.Sched.CountSetup && g.Sched.Correct
		}},
		{"overrun without gap", []string{"overrun=3 s"}, func(g *GPU) bool { return g.Sched.Overrun == 3*time.Second && g.Sched.Gap == 0 }},
		{"overrun and gap", []string{"overrun=3 s", "gap=9 s"}, func(g *GPU) bool { return g.Sched.Overrun == 3*time.Second && g.Sched.Gap == 9*time.Second }},
		{"gap alone", []string{"gap=9 s"}, func(g *GPU) bool { return g.Sched.Overrun == plus.Overrun && g.Sched.Gap == 9*time.Second }},
		{"retention", []string{"retention=flow-lru"}, func(g *GPU) bool { return g.Pool.Rule == gpu.FlowLRU }},
	} {
		var env []string
		for _, e := range c.env {
			env = append(env, "CONFIG_whisk_gpu_"+e)
		}
		if g := loaded(t, env...).GPU; !c.want(&g) {
			t.Errorf("%s: %+v, pool %+v", c.name, g.Sched, g.Pool)
		}
	}
}

// TestSocketDirs: a configured directory is the only candidate. Otherwise the last
// candidate is short for every prefix, and differs between prefixes.
func TestSocketDirs(t *testing.T) {
	c := Default()
	c.Process.Dir = "/p"
	short := map[string]bool{}
	for _, prefix := range []string{"wsk0_", "wsk" + strings.Repeat("x", 200) + "0_"} {
		c.GPU.Shim.Dir, c.Runtimes.Kind = "/named", "docker"
		check.EqualSlices(t, c.SocketDirs(prefix, "/tmp"), []string{"/named/" + prefix})
		c.GPU.Shim.Dir = ""
		got := c.SocketDirs(prefix, "/tmp")
		last := got[len(got)-1]
		check.EqualSlices(t, got, []string{"/var/run/gpuwhisk/" + prefix, "/p/" + prefix + "/shim", last})
		check.AtMost(t, len(last), 40, "%s", last)
		c.Runtimes.Kind = "process"
		check.EqualSlices(t, c.SocketDirs(prefix, "/tmp"), got[1:], "processes")
		short[last] = true
	}
	check.Equal(t, len(short), 2, "%v", short)
}
