//go:build cgo && linux

package devices

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// TestFakeNVML finds and watches devices by the real binding to a library that
// reports the contents of a file.
func TestFakeNVML(t *testing.T) {
	dir := shimDir(t)
	script := filepath.Join(t.TempDir(), "script")
	want := func(text string) {
		check.NoError(t, os.WriteFile(script+".new", []byte(text), 0o600))
		check.NoError(t, os.Rename(script+".new", script))
	}
	want("utilization 1 50\n")
	t.Setenv("FAKE_NVML_SCRIPT", script)
	t.Setenv("FAKE_NVML_DEVICES", "2")
	b := open(t, nil)
	bare := b.bare(name)
	t.Setenv("FAKE_CUDA_STATE", filepath.Join(b.deviceDir(simulatedDevice()), stateName))
	h, err := OpenHost("0,1", nvml.Options{Library: filepath.Join(dir, "nvml", "libnvidia-ml.so.1")}, nil)
	check.NoError(t, err)
	check.Equal(check.Must(t), len(h.Devices), 2)
	check.That(check.Must(t), !h.Devices[0].Simulated, "devices %+v", h.Devices)
	check.That(check.Must(t), h.Devices[0].MemoryBytes != 0, "devices %+v", h.Devices)
	o := make(report, 1000)
	check.NoError(t, h.Watch(o, b.Mover))
	b.seesWhatIsThere(bare)
	o.await(t, "utilization 0.5")
	want("utilization 1 50\nlost 1\n")
	o.await(t, "lost")
	want("utilization 1 20\n")
	o.await(t, "back")
	o.await(t, "utilization 0.2")
	check.NoError(t, h.Close(t.Context()))
}

// TestMemoryPastTheShim: NVML lists no managed memory of a process, and yet a container that
// takes device memory past the shim beyond its limit is ended.
func TestMemoryPastTheShim(t *testing.T) {
	for what, c := range map[string]struct {
		limit int64
		do    []string
		usage gpu.Usage // as the process reports it
	}{
		"managed memory": {2 * mib, []string{"managed 200", "fill 0 1"}, gpu.Usage{}},
		"plain memory":   {2 * mib, []string{"alloc 200"}, gpu.Usage{}},
		"plain memory beside managed memory at the limit": {
			100 * mib, []string{"alloc 100", "managed 100", "fill 1 1"},
			gpu.Usage{Allocated: 100 * mib, Resident: 100 * mib, Context: mib},
		},
	} {
		b := open(t, nil)
		b.watchFakeNVML()
		g := b.bare(name)
		b.mu.Lock()
		b.containers[name].limit = c.limit
		b.mu.Unlock()
		for _, line := range c.do {
			var verb string
			var n, seed int64
			_, _ = fmt.Sscan(line, &verb, &n, &seed)
			if verb == "fill" {
				g.Do("%s", line)
			} else {
				g.Do("%s %d", verb, n*mib)
			}
		}
		if c.usage.Allocated > 0 {
			events{b.Mover}.Usage(name, g.PID(), c.usage)
		}
		over := b.await(what, func(h gpu.MemoryReport) bool { return h.Over != "" })
		check.Equal(t, over.Container, name, what)
		g.Kill()
	}
}

// TestLateReport: memory that NVML lists before its process reports it counts once.
func TestLateReport(t *testing.T) {
	b := open(t, nil)
	b.prepare(name, "managed")
	charged := func() (sum int64) {
		usage := map[int]int64{}
		for len(b.reports) > 0 {
			h := check.Receive(t, b.reports)
			if usage[h.PID] = h.Usage.Allocated; h.Exited {
				delete(usage, h.PID)
			}
			sum = 0
			for _, n := range usage {
				sum += n
			}
		}
		return sum
	}
	const pid = 7
	events{b.Mover}.Usage(name, pid, gpu.Usage{})
	found := map[int]observed{pid: {200 * mib, 1}}
	for range readings {
		b.charge(b.container(name), found, 50*mib)
	}
	events{b.Mover}.Usage(name, pid, gpu.Usage{Allocated: 300 * mib, Resident: 300 * mib, Plain: 200 * mib})
	check.Equal(t, charged(), 300*mib, "bytes are charged in all")
}

// watchFakeNVML has the mover watch its device by the fake NVML.
func (b *fixture) watchFakeNVML() {
	b.t.Helper()
	t := b.t.(*testing.T)
	script := filepath.Join(t.TempDir(), "script")
	check.NoError(t, os.WriteFile(script, nil, 0o600))
	t.Setenv("FAKE_NVML_SCRIPT", script)
	t.Setenv("FAKE_NVML_DEVICES", "1")
	t.Setenv("FAKE_CUDA_STATE", filepath.Join(b.deviceDir(simulatedDevice()), stateName))
	h, err := OpenHost("0", nvml.Options{Library: filepath.Join(shimDir(t), "nvml", "libnvidia-ml.so.1")}, nil)
	check.NoError(t, err)
	check.NoError(t, h.Watch(make(report, 1<<14), b.Mover))
	t.Cleanup(func() { _ = h.Close(context.Background()) })
}

// TestMemoryOfControlGroups: where the driver limits and counts the memory of control
// groups, a container that takes managed memory past the shim beyond its limit is ended,
// although it is not alone on the device, and the driver refuses it more.
func TestMemoryOfControlGroups(t *testing.T) {
	const device = 16 << 30
	for _, c := range []struct {
		manner string
		found  bool
	}{{"all", true}, {"plain", false}, {"", false}} {
		t.Setenv("FAKE_NVML_LIMITS", c.manner)
		b := open(t, func(o *Options) {
			o.proc, o.Cgroups = t.TempDir(), true
			o.Devices[0].MemoryBytes = device
			o.Devices[0].UUID = "GPU-fa4e0000-0000-0000-0000-000000000000"
		})
		start := func(name string, limit int64) *shimtest.Guest {
			g, err := b.Prepare(name, b.options.Devices[0], container.DeviceRequest{Shim: "managed", Limit: limit})
			check.NoError(t, err)
			cmd := exec.Command(filepath.Join(shimDir(t), "guest"))
			cmd.Env = append(slices.DeleteFunc(g.Env, func(v string) bool { return strings.HasPrefix(v, "LD_PRELOAD=") }),
				"FAKE_CUDA_CGROUP=/sys/fs/cgroup/"+name)
			guest := shimtest.Start(t, cmd)
			b.shows(guest.PID(), "environ", b.container(name).shim.Dir())
			b.shows(guest.PID(), "cgroup", "4:memory:/other\n0::/"+name+"\n")
			return guest
		}
		other := start("other", 0)
		other.Do("alloc %d", 200*mib)
		guest := start(name, 20*mib)
		guest.Do("managed %d", 300*mib)
		guest.Do("fill 0 1")
		t.Setenv("FAKE_CUDA_STATE", filepath.Join(b.deviceDir(simulatedDevice()), stateName))
		h, err := OpenHost("0", nvml.Options{Library: filepath.Join(shimDir(t), "nvml", "libnvidia-ml.so.1")}, nil)
		check.NoError(t, err)
		b.Mover.cgroups = h.driver
		for range 2 * readings {
			cards, err := h.driver.Cards()
			check.NoError(t, err)
			b.observe([]nvml.Reading{{Listed: true, Memory: cards[0].Memory, Processes: cards[0].Processes}})
		}
		check.NoError(t, h.Close(t.Context()))
		check.Equal(t, strings.Contains(b.last(assumedPID).Over, "limit of 20 MB"), c.found, "%q: the container is ended", c.manner)
		// Beyond a limit there is room for a context and libraries.
		check.Equal(t, guest.Do("try %d", 4<<30) == 2, c.manner != "", "%q: memory beyond the limit is refused", c.manner)
		check.Equal(t, other.Do("try %d", 4<<30), 0, "%q: memory of a container without a limit", c.manner)
		guest.Kill()
		other.Kill()
	}
}

// TestLimitsOfControlGroupsAreRefused: where the driver refuses the limits of control groups,
// or does not tell a group's use, the shim's own limit holds, plain memory past the shim is
// still found, and the log says it once.
func TestLimitsOfControlGroupsAreRefused(t *testing.T) {
	for manner, reason := range map[string]string{
		"": nvml.ErrNoCgroups.Error(), "refused": "limit control group", "unread": "read use of control group",
	} {
		t.Setenv("FAKE_NVML_LIMITS", manner)
		b := open(t, func(o *Options) {
			o.Cgroups = true
			o.Devices[0].UUID = "GPU-fa4e0000-0000-0000-0000-000000000000"
		})
		g, err := b.Prepare("limited", b.options.Devices[0], container.DeviceRequest{Shim: "managed", Limit: 20 * mib})
		check.NoError(t, err)
		guest, bare := b.guest(g), b.bare(name)
		b.mu.Lock()
		b.containers[name].limit = 2 * mib
		b.mu.Unlock()
		bare.Do("alloc %d", 200*mib)
		for _, c := range []string{name, "limited"} {
			b.container(c).cgroup = t.TempDir()
		}
		b.watchFakeNVML()
		over := b.await("plain memory past the shim", func(h gpu.MemoryReport) bool { return h.Over != "" })
		check.Equal(t, over.Container, name, "%q: the container that is ended", manner)
		check.Equal(t, guest.Do("try %d", 30*mib), 2, "%q: memory beyond the shim's limit", manner)
		check.Equal(t, guest.Do("try %d", 10*mib), 0, "%q: memory below the shim's limit", manner)
		check.Equal(t, b.log.count("the driver refuses limits of control groups"), 1, "%q: lines in the log", manner)
		check.Equal(t, b.log.count(reason), 1, "%q: the reason in the log", manner)
		guest.Kill()
		bare.Kill()
	}
}
