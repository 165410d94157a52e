//go:build cgo && linux

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// LimitCgroup limits the device memory of the processes in a control group, which is named
// by its path below /sys/fs/cgroup. The driver refuses allocations beyond the limit. It
// counts the group's use from the first limit on. The limit ends with the group. Slices of
// a divided card have no such limits.
func (d *Driver) LimitCgroup(uuid, path string, bytes int64) error {
	h, err := d.limited(uuid, "nvmlDeviceSetMemoryLimits_v1")
	if err != nil {
		return err
	}
	return limitError("limit", path, h.SetMemoryLimits_v1(path, 0, uint64(max(bytes, 0))))
}

// CgroupUse returns the device memory that the processes of a limited control group use.
func (d *Driver) CgroupUse(uuid, path string) (int64, error) {
	h, err := d.limited(uuid, "nvmlDeviceGetMemoryLimits_v1")
	if err != nil {
		return 0, err
	}
	limits, ret := h.GetMemoryLimits_v1(path)
	return size(limits.CurrentUsed), limitError("read use of", path, ret)
}

// limited returns the device's handle if the driver has a function for limits.
func (d *Driver) limited(uuid, symbol string) (nvml.Device, error) {
	if !d.has(symbol) {
		return nil, ErrNoCgroups
	}
	h, ret := d.lib.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("find device %s: %w", uuid, ret)
	}
	return h, nil
}

func limitError(action, path string, ret nvml.Return) error {
	switch ret {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND:
		return ErrNoCgroups
	}
	return fmt.Errorf("%s control group %s: %w", action, path, ret)
}
