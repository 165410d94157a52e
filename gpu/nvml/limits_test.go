//go:build cgo && linux

package nvml

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestLimitsOfCgroups(t *testing.T) {
	b := newFixture(t)
	card := mocked(b, 3)
	set := map[string]uint64{}
	card.SetMemoryLimits_v1Func = func(path string, soft, hard uint64) nvml.Return {
		check.Equal(t, soft, 0, "the soft limit")
		set[path] = hard
		return b.ret("SetMemoryLimits")
	}
	card.GetMemoryLimits_v1Func = func(path string) (nvml.MemoryLimits_v1, nvml.Return) {
		return nvml.MemoryLimits_v1{HardLimit: set[path], CurrentUsed: giB}, b.ret("GetMemoryLimits")
	}
	d := b.open(t)
	check.NoError(t, d.LimitCgroup("GPU-3", "/sys/fs/cgroup/a", 5*giB))
	check.Equal(t, set["/sys/fs/cgroup/a"], 5*giB)
	used, err := d.CgroupUse("GPU-3", "/sys/fs/cgroup/a")
	check.NoError(t, err)
	check.Equal(t, used, giB)
	b.fail("SetMemoryLimits", nvml.ERROR_NO_PERMISSION)
	check.ErrorContains(t, d.LimitCgroup("GPU-3", "/sys/fs/cgroup/a", giB), "/sys/fs/cgroup/a")
	b.fail("GetMemoryLimits", nvml.ERROR_NOT_SUPPORTED)
	_, err = d.CgroupUse("GPU-3", "/sys/fs/cgroup/a")
	check.ErrorIs(t, err, ErrNoCgroups, "a device without limits")
	check.That(t, d.LimitCgroup("GPU-none", "/sys/fs/cgroup/a", giB) != nil, "an unknown device")
	b.missing = []string{"nvmlDeviceSetMemoryLimits_v1", "nvmlDeviceGetMemoryLimits_v1"}
	check.ErrorIs(t, d.LimitCgroup("GPU-3", "/sys/fs/cgroup/a", giB), ErrNoCgroups, "an old driver")
	_, err = d.CgroupUse("GPU-3", "/sys/fs/cgroup/a")
	check.ErrorIs(t, err, ErrNoCgroups, "an old driver")
}
