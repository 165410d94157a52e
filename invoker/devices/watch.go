package devices

import (
	"context"
	"errors"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// Observer is told how devices are. Its calls do not block for long.
type Observer interface {
	Observe(readings []gpu.Reading)
	DeviceLost(index int, why string)
	DeviceBack(index int)
}

// Watch begins to sample the devices and tells the observer; the mover hears
// of processes on the devices that no shim speaks for. Without devices it does
// nothing.
func (h *Host) Watch(o Observer, m *Mover) error {
	if h.driver == nil {
		return nil
	}
	w, err := h.driver.Watch(nvml.WatchOptions{
		Devices: h.Devices,
		Readings: func(readings []nvml.Reading) {
			o.Observe(translate(readings))
			m.look(readings)
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

// fault tells what went wrong on a device. After a fatal fault nothing more is
// started there until the driver says that the device answers again, or, of one
// that never stopped answering, that it needs no reset; where the driver cannot
// say that, the device stays out until the next start.
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
		log.Info("a program brought an error on itself")
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

// shown is the change of a process's memory that is worth telling.
const shown = 16 << 20

// look charges what NVML sees of processes that belong to a container, but for
// which no shim speaks: a static program, or one that got rid of its
// environment. Only what is on the device is seen, and none of it can be moved.
func (m *Mover) look(readings []nvml.Reading) {
	found := map[*box]map[int]sight{}
	for _, r := range readings {
		if !r.Told {
			return // nobody is missing because nobody was listed
		}
		for _, p := range r.Processes {
			name, ok := m.ownerOnce(p.PID)
			if b := m.box(name); ok && b != nil && b.device.Index == r.Device && p.Bytes > 0 {
				if found[b] == nil {
					found[b] = map[int]sight{}
				}
				at := m.place(p)
				found[b][at] = sight{found[b][at].bytes + p.Bytes, found[b][at].processes + 1}
			}
		}
	}
	m.forgetOwners(readings)
	for _, b := range m.all() {
		m.charge(b, found[b])
	}
}

// charge tells what a container's unheard processes hold.
func (m *Mover) charge(b *box, found map[int]sight) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for place, s := range found {
		if len(b.speakers(place)) == 0 {
			m.known(b)
			m.charged(b, place, s.bytes)
		} else if extra := b.hidden(place, s.bytes, m.options.Context); extra > 0 {
			m.charged(b, hiddenPID(place), extra)
		}
	}
	over := b.overBySight(found, m.options.Context)
	if over == "" {
		over = m.allot(b)
	}
	if over != "" {
		m.told(b, over)
	}
	for pid := range b.seen {
		place := max(pid, -pid)
		s, still := found[place]
		talks := len(b.speakers(place)) > 0
		switch {
		case pid < 0:
			still = still && talks && b.hidden(place, s.bytes, m.options.Context) > 0
		case place == shimctl.Outside:
			still = still && !talks
		}
		if !still {
			delete(b.seen, pid)
			m.hear(gpu.Held{Container: b.name, PID: pid, Exited: true})
		}
	}
}

func (m *Mover) all() []*box {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*box, 0, len(m.boxes))
	for _, b := range m.boxes {
		out = append(out, b)
	}
	return out
}
