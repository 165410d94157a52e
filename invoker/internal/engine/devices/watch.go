package devices

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// Observer receives the state of devices. Its calls do not block for long.
type Observer interface {
	Observe(readings []gpu.Reading)
	DeviceLost(index int, why string)
	DeviceBack(index int)
}

// Watch begins to sample the devices and reports to the observer; the mover gets
// the processes on the devices that do not report by a shim. Without devices it does
// nothing.
func (h *Host) Watch(o Observer, m *Mover) error {
	if h.driver == nil {
		return nil
	}
	if m.options.Cgroups {
		m.cgroups = h.driver
	}
	w, err := h.driver.Watch(nvml.WatchOptions{
		Devices: h.Devices,
		Readings: func(readings []nvml.Reading) {
			o.Observe(translate(readings))
			m.observe(readings)
		},
		Fault: func(f nvml.Fault) { h.fault(o, f) },
	})
	if err != nil {
		return err
	}
	h.watcher = w
	return nil
}

func translate(readings []nvml.Reading) []gpu.Reading {
	out := make([]gpu.Reading, 0, len(readings))
	for _, r := range readings {
		if !r.Lost {
			out = append(out, gpu.Reading{Device: r.Device, Utilization: r.Utilization, Used: r.Memory.Used})
		}
	}
	return out
}

// fault logs a fault of a device and passes it to the observer. After a fatal fault, no run
// is started on the device until the driver reports that the device answers again. If the
// device never stopped answering, the driver must report that the device needs no reset. If
// the driver cannot report that, the device is not used until the invoker starts again.
func (h *Host) fault(o Observer, f nvml.Fault) {
	log := h.log.With("device", f.Device, "fault", f.Kind.String(), "severity", f.Severity.String(), "reason", f.Text)
	switch {
	case f.Kind == nvml.Found:
		log.Warn("gpu is back")
		o.DeviceBack(f.Device)
	case f.Severity == nvml.Fatal:
		log.Error("gpu is lost")
		o.DeviceLost(f.Device, f.Text)
	case f.Severity == nvml.Degraded:
		log.Warn("gpu is degraded")
	default:
		log.Info("a program made an error on the gpu")
	}
}

// Close ends the sampling and the use of the driver. A call into a driver
// whose device died may never return: then the driver is left as it is.
func (h *Host) Close(ctx context.Context) error {
	if h.driver == nil {
		return nil
	}
	var err error
	if h.watcher != nil {
		err = h.watcher.Close(ctx)
	}
	if err != nil {
		return err
	}
	return errors.Join(err, h.driver.Close())
}

// minChange is the change of a process's memory that is worth a report.
const minChange = 16 << 20

// observe charges containers with the memory of processes that do not report it by a
// shim: static programs, and those that cleared their environment. NVML lists their plain
// memory, of which nothing can be moved. Of managed memory it shows only the sum over all
// processes: that is charged to a container that is alone on its device, or by the use of
// its control group.
func (m *Mover) observe(readings []nvml.Reading) {
	found, unlisted := map[*gpuContainer]map[int]observed{}, map[int]bool{}
	beyond := map[*gpuContainer]int64{}
	for _, r := range readings {
		if !r.Listed { // a process is not missing there because none was listed
			unlisted[r.Device] = true
			continue
		}
		alone, others, listed := (*gpuContainer)(nil), false, int64(0)
		for _, p := range r.Processes {
			listed += max(p.Bytes, 0)
			if p.PID == 0 { // it cannot be seen from here
				others = true
				continue
			}
			name, ok := m.ownerOnce(p.PID)
			b := m.container(name)
			if !ok || b == nil || b.device.Index != r.Device {
				others = true
				continue
			}
			others = others || alone != nil && alone != b
			alone = b
			m.joinCgroup(b, p.PID)
			if p.Bytes > 0 {
				if found[b] == nil {
					found[b] = map[int]observed{}
				}
				at := m.processKey(p)
				found[b][at] = observed{found[b][at].bytes + p.Bytes, found[b][at].processes + 1}
			}
		}
		if alone != nil && !others {
			beyond[alone] = m.unlisted(r.Memory.Used, listed, m.on(r.Device)...)
		}
	}
	m.forgetOwners(readings)
	for _, b := range m.all() {
		if used, known := m.cgroupUse(b, found[b]); known {
			beyond[b] = m.unlisted(used, sumOf(found[b]), b)
		}
		if !unlisted[b.device.Index] {
			m.charge(b, found[b], beyond[b])
		}
	}
}

// charge reports the memory that a container's processes use and do not report: the
// memory that is listed for them, and unlisted memory that can only be theirs.
func (m *Mover) charge(b *gpuContainer, found map[int]observed, unlisted int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b.listing = found
	if b.unlisted.add(unlisted); b.unlisted.least() > 0 {
		m.charged(b, unlistedPID, b.unlisted.least())
	} else {
		m.unseen(b, unlistedPID)
	}
	for key, s := range found {
		if len(b.reportedBy(key)) == 0 {
			m.known(b)
			m.charged(b, key, s.bytes)
		} else if extra := b.hidden(key, s.bytes, m.options.Context); extra > 0 {
			m.charged(b, hiddenPID(key), extra)
		}
	}
	if over := b.overByNVML(found, m.options.Context); over != "" {
		m.reportOver(b, over)
	}
	m.allot(b)
	for pid := range b.listedOnly {
		if pid == unlistedPID {
			continue
		}
		key := max(pid, -pid)
		s, still := found[key]
		reports := len(b.reportedBy(key)) > 0
		switch {
		case pid < 0:
			still = still && reports && b.hidden(key, s.bytes, m.options.Context) > 0
		case key == shimctl.Outside:
			still = still && !reports
		}
		if !still {
			m.unseen(b, pid)
		}
	}
}

func (m *Mover) all() []*gpuContainer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.containers))
}

// on returns the containers of a device.
func (m *Mover) on(device int) []*gpuContainer {
	return slices.DeleteFunc(m.all(), func(b *gpuContainer) bool { return b.device.Index != device })
}
