package devices

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// A simulated device may have a driver, which takes the real one's place. All
// containers of the device share its state, a file: what one holds, no other
// can have.

// Where driver and state appear in containers with a file system of their own.
const (
	driverTarget = "/opt/gpuwhisk/driver"
	stateTarget  = "/run/gpuwhisk-device"
	stateName    = "state"
)

// placeDriver puts a copy of the simulated devices' driver beside the sockets,
// where containers have a file system of their own: see install.
func (m *Mover) placeDriver() error {
	if m.options.Driver == "" || !m.options.Mounted {
		return nil
	}
	dir := filepath.Join(m.options.Dir, "driver")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make driver directory: %w", err)
	}
	// It lies below a directory that is ours alone.
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("open driver directory to containers: %w", err)
	}
	if _, err := installFile(filepath.Join(m.options.Driver, driverName), filepath.Join(dir, driverName)); err != nil {
		return fmt.Errorf("fake driver: %w", err)
	}
	m.options.Driver = dir
	return nil
}

// deviceDir is where a simulated device's state is.
func (m *Mover) deviceDir(device gpu.Device) string {
	return filepath.Join(m.options.Dir, "device"+strconv.Itoa(device.Index))
}

// stateDir makes a simulated device's state, if it is not there. Any user of a
// container may write to it.
func (m *Mover) stateDir(device gpu.Device) (string, error) {
	dir := m.deviceDir(device)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make state of simulated device %d: %w", device.Index, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, stateName), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return "", fmt.Errorf("make state of simulated device %d: %w", device.Index, err)
	}
	err = errors.Join(os.Chmod(dir, 0o755), file.Chmod(0o666), file.Close())
	if err != nil {
		return "", fmt.Errorf("open state of simulated device %d to containers: %w", device.Index, err)
	}
	return dir, nil
}

// simulate gives a container its simulated device, where that has a driver.
func (m *Mover) simulate(g *container.GPU, device gpu.Device) error {
	if !device.Simulated || m.options.Driver == "" || m.options.Mounted && m.control == nil {
		return nil
	}
	driver, state := m.options.Driver, ""
	if m.control != nil {
		dir, err := m.stateDir(device)
		if err != nil {
			return err
		}
		state = filepath.Join(dir, stateName)
		if m.options.Mounted {
			g.Mounts = append(g.Mounts, container.Mount{Source: driver, Target: driverTarget})
			g.Shared = append(g.Shared, container.Mount{Source: dir, Target: stateTarget})
			driver, state = driverTarget, filepath.Join(stateTarget, stateName)
		}
	}
	link := gpu.DefaultLink().BytesPerSecond
	g.Env = append(g.Env,
		"CUDA_VISIBLE_DEVICES=0",
		"LD_LIBRARY_PATH="+driver,
		"FAKE_CUDA_MEMORY="+strconv.FormatInt(device.MemoryBytes, 10),
		"FAKE_CUDA_BANDWIDTH="+strconv.FormatInt(int64(link), 10),
		// A page that a kernel faults in comes at half the speed of one that
		// was fetched ahead.
		"FAKE_CUDA_FAULT_NS="+strconv.FormatInt(int64(2*faultUnit/link*1e9), 10),
		"FAKE_CUDA_STATE="+state,
	)
	return nil
}

// faultUnit is what the fake driver counts faults in.
const faultUnit = 64 << 10

// clearSimulated removes what simulate and placeDriver have made.
func (m *Mover) clearSimulated() error {
	if m.options.Driver == "" {
		return nil
	}
	var errs []error
	for _, d := range m.options.Devices {
		if d.Simulated {
			errs = append(errs, os.RemoveAll(m.deviceDir(d)))
		}
	}
	if m.options.Mounted {
		errs = append(errs, os.RemoveAll(m.options.Driver))
	}
	return errors.Join(errs...)
}
