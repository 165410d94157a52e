//go:build cgo && linux

package nvml

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Driver is NVIDIA's driver. It may be used from many goroutines.
type Driver struct {
	lib nvml.Interface
}

// Open loads the driver's library and starts it. The error is or wraps one of
// the sentinels of this package, or is the library's own.
func Open(o Options) (*Driver, error) {
	var opts []nvml.LibraryOption
	if o.Library != "" {
		opts = append(opts, nvml.WithLibraryPath(o.Library))
	}
	return open(nvml.New(opts...))
}

func open(lib nvml.Interface) (*Driver, error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, fmt.Errorf("start NVML: %w", startError(ret))
	}
	return &Driver{lib: lib}, nil
}

func startError(ret nvml.Return) error {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return fmt.Errorf("%w: libnvidia-ml.so.1 cannot be loaded", ErrNoDriver)
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return fmt.Errorf("%w: the kernel module nvidia is not loaded", ErrNoDriver)
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return ErrMismatch
	case nvml.ERROR_NO_PERMISSION:
		return ErrNoPermission
	}
	return errors.New(ret.Error())
}

// Close ends the use of the library. Watchers are closed before.
func (d *Driver) Close() error {
	if ret := d.lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("stop NVML: %w", ret)
	}
	return nil
}

// Versions returns the versions of the driver's parts.
func (d *Driver) Versions() Versions {
	var v Versions
	if s, ret := d.lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		v.Driver = s
	}
	if s, ret := d.lib.SystemGetNVMLVersion(); ret == nvml.SUCCESS {
		v.NVML = s
	}
	if n, ret := d.lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
		v.CUDA = fmt.Sprintf("%d.%d", n/1000, n%1000/10)
	}
	return v
}

// has reports whether the loaded library has a function. go-nvml binds lazily, so
// calling a function that an older driver lacks would end the process.
func (d *Driver) has(symbol string) bool {
	return d.lib.Extensions().LookupSymbol(symbol) == nil
}

// gone reports whether a call failed because the device or the whole driver has
// disappeared.
func gone(ret nvml.Return) bool {
	switch ret {
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED, nvml.ERROR_DRIVER_NOT_LOADED,
		nvml.ERROR_UNINITIALIZED, nvml.ERROR_GPU_NOT_FOUND, nvml.ERROR_IRQ_ISSUE:
		return true
	}
	return false
}

// why explains the last answer of a lost device to a person.
func why(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_GPU_IS_LOST:
		return "the GPU has fallen off the bus or is otherwise inaccessible"
	case nvml.ERROR_RESET_REQUIRED:
		return "the GPU must be reset before it can be used again"
	case nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_UNINITIALIZED:
		return "the driver is no longer loaded"
	case nvml.ERROR_NOT_FOUND, nvml.ERROR_GPU_NOT_FOUND:
		return "there is no such device any more"
	case nvml.ERROR_IRQ_ISSUE:
		return "the kernel found a problem with the GPU's interrupts"
	}
	return ret.Error()
}
