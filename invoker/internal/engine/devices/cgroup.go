package devices

import (
	"cmp"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// NVML 13.4 limits the device memory of a control group and counts its use. A container
// has a control group of its own, so the driver itself then refuses memory beyond the
// limit, and managed memory past the shim is found however many containers share the
// device. Options.Cgroups switches this on.

const cgroupRoot = "/sys/fs/cgroup"

// joinCgroup stores the control group of a container, once one of its processes is on the
// device. Only observe calls it.
func (m *Mover) joinCgroup(b *gpuContainer, pid int) {
	if m.cgroups == nil || b.cgroup != "" {
		return
	}
	own := m.cgroupOf("self")
	group := m.cgroupOf(strconv.Itoa(pid))
	if group == "" || group == own || strings.HasPrefix(own, group+"/") {
		return // it is not the container's alone
	}
	for _, o := range m.all() {
		if o != b && o.cgroup == group {
			return
		}
	}
	b.cgroup = group
}

// cgroupOf returns the path of a process's control group below /sys/fs/cgroup. It is empty
// if the process is in the root group or out of sight.
func (m *Mover) cgroupOf(pid string) string {
	text, err := os.ReadFile(filepath.Join(m.options.proc, pid, "cgroup"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		name, found := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		if found && name != "" && !strings.Contains(name, "..") {
			return path.Join(cgroupRoot, name)
		}
	}
	return ""
}

// cgroupUse limits the container's control group and returns the device memory that the
// group uses. It returns false if the driver does not count it.
func (m *Mover) cgroupUse(b *gpuContainer, found map[int]observed) (used int64, known bool) {
	if m.cgroups == nil || b.cgroup == "" {
		return 0, false
	}
	limit := cmp.Or(b.limit, b.device.MemoryBytes)
	for _, s := range found {
		limit += int64(s.processes) * (m.options.Context + shimctl.LibraryBytes)
	}
	limit = min(limit, b.device.MemoryBytes)
	var err error
	if limit != b.cgroupLimit {
		err = m.cgroups.LimitCgroup(b.device.UUID, b.cgroup, limit)
	}
	if err == nil {
		b.cgroupLimit = limit
		used, err = m.cgroups.CgroupUse(b.device.UUID, b.cgroup)
	}
	if err != nil {
		// A container that ends takes its control group along. Other errors concern all.
		if _, gone := os.Stat(b.cgroup); gone == nil || errors.Is(err, nvml.ErrNoCgroups) {
			m.log.Warn("the driver refuses limits of control groups: whisk.gpu.cgroup-limits is off until the next start, the shim's limits remain", "container", b.name, "cgroup", b.cgroup, "error", err)
			m.cgroups = nil
		}
		return 0, false
	}
	return used, true
}
