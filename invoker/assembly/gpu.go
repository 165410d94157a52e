package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/simulated"
)

// watchTime bounds the wait for the driver at the end: a call into one whose
// device died may never return.
const watchTime = 2 * time.Second

// gpus is the GPU side of this host.
type gpus struct {
	devices []gpu.Device
	mover   invoker.Mover
	host    *devices.Host  // nil with simulated devices
	shim    *devices.Mover // nil where memory is only simulated
	mps     *shared        // nil without MPS
	// fallbacks are the actions whose memory cannot be moved; nil without a shim.
	fallbacks *devices.Fallbacks
}

// openGPUs finds the devices, or makes simulated ones, and what keeps their
// memory.
func openGPUs(ctx context.Context, c *config.Config, prefix string, of Options) (gpus, error) {
	self, log := of.Self, of.Log
	var g gpus
	if n := c.GPU.SimulatedDevices; n > 0 {
		g.devices = simulated.Devices(n, int64(c.GPU.SimulatedMemory))
	} else {
		var err error
		if g.host, err = devices.OpenHost(c.GPU.Devices, nvml.Options{}, log); err != nil {
			return gpus{}, fmt.Errorf("whisk.gpu.devices: %w", err)
		}
		g.devices = g.host.Devices
	}
	fake, err := fakeDriver(c, log)
	if err != nil {
		return gpus{}, err
	}
	if len(g.devices) == 0 || c.GPU.SimulatedDevices > 0 && fake == "" {
		g.mover = simulated.NewMover(gpu.DefaultLink())
		return g, nil
	}
	o := devices.Options{
		Mounted: c.Runtimes.Kind != processRuntime, Driver: fake,
		Devices: g.devices, Context: int64(c.GPU.ContextMemory), Log: log,
		Outspoken: c.GPU.Shim.Log,
	}
	if fake == "" {
		o.Driver = of.LibraryPath
	}
	if o.Library, err = shimLibrary(ctx, c, self, log); err == nil && o.Library != "" {
		o.Dir, err = socketDir(c, prefix)
	}
	if err == nil {
		g.shim, err = devices.OpenMover(o)
	}
	if err != nil {
		return gpus{}, errors.Join(err, g.close())
	}
	g.mover = g.shim
	if err := g.shareMPS(ctx, c, prefix, log); err != nil {
		return gpus{}, errors.Join(err, g.close())
	}
	return g, nil
}

// processRuntime is the word for actions that run as plain processes.
const processRuntime = "process"

// fakeDriver is the directory of the driver that simulated devices have.
func fakeDriver(c *config.Config, log *slog.Logger) (string, error) {
	dir := c.GPU.FakeDriver
	if dir == "" {
		return "", nil
	}
	if c.GPU.SimulatedDevices == 0 {
		log.Warn("whisk.gpu.fake-driver has no effect: it is for simulated GPUs (whisk.gpu.simulated.devices)")
		return "", nil
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = devices.CheckDriver(dir)
	}
	if err != nil {
		return "", fmt.Errorf("whisk.gpu.fake-driver: %w (make shim-fake builds one in build/shim/fake12)", err)
	}
	return dir, nil
}

// shimLibrary finds the shim. One that the operator named must be fit; one
// that was only looked for is done without.
func shimLibrary(ctx context.Context, c *config.Config, self string, log *slog.Logger) (string, error) {
	const without = "GPU functions run without the shim: their memory is neither measured nor moved"
	named := c.GPU.Shim.Library
	if named == "none" {
		log.Info(without, "reason", "whisk.gpu.shim.library is none")
		return "", nil
	}
	path := devices.FindLibrary(self)
	if named != "" {
		path = named
	}
	if path == "" {
		log.Warn(without, "reason", "no "+devices.LibraryName+" was found", "fix", "make shim, or name it in whisk.gpu.shim.library")
		return "", nil
	}
	path, err := filepath.Abs(path)
	if err == nil {
		err = devices.CheckLibrary(path)
	}
	if err == nil && c.Runtimes.Kind == processRuntime {
		err = devices.TryLibrary(ctx, path)
	}
	if needs, nerr := devices.Needs(path); err == nil && nerr == nil && c.Runtimes.Kind != processRuntime && devices.Newer(needs) {
		log.Info("the shim needs glibc of this version: containers of images with an older one run without it",
			"version", needs, "library", path, "fix", "make shim with zig cc (pip install ziglang) gives one for "+devices.Everywhere)
	}
	switch {
	case err == nil:
		return path, nil
	case named != "":
		return "", fmt.Errorf("whisk.gpu.shim.library: %w", err)
	}
	log.Warn(without, "reason", err, "fix", "make shim, or name another in whisk.gpu.shim.library")
	return "", nil
}

// socketDir is where the shims' sockets lie. It belongs to this invoker alone,
// so it is named as its containers are. Processes keep theirs beside their
// other files; containers need a place that their host has under this name.
func socketDir(c *config.Config, prefix string) (string, error) {
	if c.GPU.Shim.Dir != "" {
		dir, err := devices.SocketDir(filepath.Join(c.GPU.Shim.Dir, prefix))
		if err != nil {
			return "", fmt.Errorf("whisk.gpu.shim.dir: %w", err)
		}
		return dir, nil
	}
	own, err := processDir(c, prefix)
	if err != nil {
		return "", err
	}
	own = filepath.Join(own, "shim")
	places := []string{own, devices.ShortDir(own)}
	if c.Runtimes.Kind != processRuntime {
		places = append([]string{filepath.Join("/var/run/gpuwhisk", prefix)}, places...)
	}
	dir, err := devices.SocketDir(places...)
	if err != nil {
		return "", fmt.Errorf("find a place for shim sockets (whisk.gpu.shim.dir names one): %w", err)
	}
	return dir, nil
}

// processDir is where an invoker keeps what belongs to its processes.
func processDir(c *config.Config, prefix string) (string, error) {
	dir := c.Process.Dir
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "gpuwhisk-processes")
	}
	dir, err := filepath.Abs(filepath.Join(dir, prefix))
	if err != nil {
		return "", fmt.Errorf("find process directory: %w", err)
	}
	return dir, nil
}

// check asks the engine, if it can tell, whether it can give the devices to
// containers.
func (g gpus) check(e Engine) error {
	giver, tells := e.(interface{ CheckDevices(...string) error })
	if !tells {
		return nil
	}
	for _, d := range g.devices {
		if d.Simulated {
			continue
		}
		if err := giver.CheckDevices(d.UUID); err != nil {
			return fmt.Errorf("whisk.gpu.docker.devices: %w", err)
		}
	}
	return nil
}

// watch begins to sample the devices for an invoker that works. An engine that
// can is asked for processes that we do not see.
func (g gpus) watch(iv *invoker.Invoker, e Engine, log *slog.Logger) {
	if g.mps != nil {
		g.mps.invoker.Store(iv)
	}
	if g.shim == nil {
		return
	}
	type teller interface {
		Processes(ctx context.Context, name string) (pids []int, space uint64, err error)
	}
	if engine, tells := e.(teller); tells {
		g.shim.Ask(engine.Processes)
	}
	if g.host == nil {
		g.shim.WatchSimulated(iv)
		return
	}
	if err := g.host.Watch(iv, g.shim); err != nil {
		log.Warn("GPUs are not watched: their failure will not be seen", "error", err)
	}
}

// describe says what devices there are, and how real they are.
func (g gpus) describe() string {
	if len(g.devices) == 0 {
		return "none"
	}
	how := g.devices[0].Name
	if g.devices[0].Simulated {
		how = "simulated"
	}
	return fmt.Sprintf("%d (%s)", len(g.devices), how)
}

// close ends what openGPUs opened. The containers are gone.
func (g gpus) close() error {
	var errs []error
	if g.host != nil {
		ctx, cancel := context.WithTimeout(context.Background(), watchTime)
		defer cancel()
		errs = append(errs, g.host.Close(ctx))
	}
	if g.shim != nil {
		errs = append(errs, g.shim.Close())
	}
	if g.mps != nil {
		errs = append(errs, g.mps.daemons.Close())
	}
	return errors.Join(errs...)
}
