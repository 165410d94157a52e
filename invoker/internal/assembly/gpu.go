package assembly

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/simulated"
)

// watchTime bounds the wait for the driver at the end: a call for a device that
// died may never return.
const watchTime = 2 * time.Second

// gpus has the GPUs of this host and the mover of their memory.
type gpus struct {
	*base
	devices []gpu.Device
	mover   invoker.MemoryMover
	host    *devices.Host  // nil with simulated devices
	shim    *devices.Mover // nil where memory is only simulated
	mps     *mpsMover      // nil without MPS
	// fallbacks are the actions whose memory cannot be moved; nil without a shim.
	fallbacks *devices.CountOnlyActions
	recording io.Writer // nil without whisk.gpu.record
}

// find finds the devices, or creates simulated ones, and opens the mover of their memory.
func (g *gpus) find(ctx context.Context) error {
	c, prefix, log := g.c, g.instance.ContainerPrefix(), g.Log
	if n := c.GPU.SimulatedDevices; n > 0 {
		g.devices = simulated.Devices(n, int64(c.GPU.SimulatedMemory))
	} else {
		var err error
		if g.host, err = devices.OpenHost(c.GPU.Devices, nvml.Options{}, log); err != nil {
			return fmt.Errorf("whisk.gpu.devices: %w", err)
		}
		g.devices = g.host.Devices
	}
	fake, err := fakeDriver(c, log)
	if err != nil {
		return err
	}
	if len(g.devices) == 0 || c.GPU.SimulatedDevices > 0 && fake == "" {
		g.mover = simulated.NewMover(gpu.DefaultTransferModel())
		return nil
	}
	o := devices.Options{
		Mounted: !c.Runtimes.Processes(), Driver: fake,
		Devices: g.devices, Context: int64(c.GPU.ContextMemory), Log: log,
		LogToStderr: c.GPU.Shim.Log, Cgroups: c.GPU.CgroupLimits,
	}
	if fake == "" {
		o.Driver = g.LibraryPath
	}
	switch o.Library, err = shimLibrary(ctx, c, g.Self, log); {
	case err != nil:
	case o.Library != "":
		o.Dir, err = socketDir(c, prefix)
	case fake != "" && o.Mounted:
		err = errors.New("whisk.gpu.fake-driver: containers get the fake driver only together with the shim, and there is no " +
			"shim library: make shim and name it in whisk.gpu.shim.library, or unset whisk.gpu.fake-driver")
	}
	if err == nil {
		g.shim, err = devices.OpenMover(o)
	}
	if err == nil {
		g.mover = g.shim
		err = g.startMPS(ctx)
	}
	if err != nil {
		return errors.Join(err, g.close())
	}
	return nil
}

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

// shimLibrary finds the shim. A shim that the operator named must be usable. Without a shim
// found by default, GPU functions still run.
func shimLibrary(ctx context.Context, c *config.Config, self string, log *slog.Logger) (string, error) {
	const without = "GPU functions run without the shim: their memory is neither measured nor moved"
	named := c.GPU.Shim.Library
	if named == config.None {
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
	if err == nil && c.Runtimes.Processes() {
		err = devices.TryLibrary(ctx, path)
	}
	if needs, nerr := devices.Needs(path); err == nil && nerr == nil && !c.Runtimes.Processes() && devices.MinGlibc.Before(needs) {
		log.Info("the shim needs glibc of this version: containers of images with an older one run without it",
			"version", needs.String(), "library", path, "fix", "make shim with zig cc (pip install ziglang) gives one for "+devices.MinGlibc.String())
	}
	switch {
	case err == nil:
		return path, nil
	case named != "":
		return "", fmt.Errorf("whisk.gpu.shim.library: %w", err)
	}
	log.Warn(without, "error", err, "fix", "make shim, or name another in whisk.gpu.shim.library")
	return "", nil
}

// socketDir makes the directory of the shims' sockets.
func socketDir(c *config.Config, prefix string) (string, error) {
	dir, err := devices.SocketDir(c.SocketDirs(prefix, os.TempDir())...)
	if err != nil {
		return "", fmt.Errorf("whisk.gpu.shim.dir: find a directory for the sockets: %w", err)
	}
	return dir, nil
}

// deviceEngine is a container engine that gives devices to containers.
type deviceEngine interface {
	// CheckDevices is nil where every device can be given.
	CheckDevices(devices ...string) error
	// Processes lists those of a container, and the name space they are in.
	Processes(ctx context.Context, name string) (pids []int, space uint64, err error)
}

// check returns nil if the engine can give real devices to containers. A nil engine runs
// processes, which see all devices.
func (g *gpus) check(e deviceEngine) error {
	if e == nil {
		return nil
	}
	for _, d := range g.devices {
		if d.Simulated {
			continue
		}
		if err := e.CheckDevices(d.UUID); err != nil {
			return err
		}
	}
	return nil
}

// watch begins to sample the devices when the invoker works. The engine lists
// the processes of other name spaces.
func (g *gpus) watch(e deviceEngine) {
	iv := g.invoker.Load()
	if g.mps != nil {
		g.mps.invoker.Store(iv)
	}
	if g.shim == nil {
		return
	}
	if e != nil {
		g.shim.Ask(e.Processes)
	}
	if g.host == nil {
		g.shim.WatchSimulated(iv)
		return
	}
	if err := g.host.Watch(iv, g.shim); err != nil {
		g.Log.Warn("GPUs are not watched: their failure will not be seen", "error", err)
	}
}

// describe counts the devices, and names their model.
func (g *gpus) describe() string {
	if len(g.devices) == 0 {
		return "none"
	}
	how := g.devices[0].Name
	if g.devices[0].Simulated {
		how = "simulated"
	}
	return fmt.Sprintf("%d (%s)", len(g.devices), how)
}

// close closes the parts that find opened. Call it after the containers are gone.
func (g *gpus) close() error {
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

func (g *gpus) open(ctx context.Context) (hooks, error) {
	if err := g.find(ctx); err != nil {
		return hooks{}, err
	}
	if g.shim != nil {
		g.fallbacks = devices.OpenFallbacks(g.c.State.FallbackFile(g.instance.Topic()), g.Log)
	}
	return hooks{close: closer(g.close), status: g.addStatus, gauges: g.addGauges}, nil
}

// addGauges shows the devices, and how many containers are connected.
func (g *gpus) addGauges(s *status, m sink) {
	for _, d := range g.devices {
		m.gauge("gpu_info", "A device with its names as in dcgm-exporter; always 1.", 1,
			device(invoker.DeviceLabelValues(d), label{"sharing", d.Sharing.String()}, label{"simulated", strconv.FormatBool(d.Simulated)})...)
	}
	paused := 0
	for _, f := range s.Work.Flows {
		if f.Paused {
			paused++
		}
	}
	m.gauge("gpu_functions_paused", "Functions whose work waits for a while because they failed again and again.", float64(paused))
	for _, d := range s.Work.Devices {
		m.gauge("gpu_tokens", "D: runs that a device may take at once.", float64(d.Tokens), device(d.Names)...)
		m.gauge("gpu_runs_in_flight", "Runs that hold a token.", float64(d.InFlight), device(d.Names)...)
		m.gauge("gpu_containers", "Containers of a device.", float64(d.Containers), device(d.Names)...)
		memory := func(state string, bytes int64) {
			m.gauge("gpu_memory_bytes", "Device memory by state: used is the charged memory, measured is the device's own reading, capacity is the total.",
				float64(bytes), device(d.Names, label{"state", state})...)
		}
		memory("used", d.Used)
		memory("capacity", d.Memory)
		if d.Measured != nil {
			memory("measured", *d.Measured)
		}
	}
	if g.shim == nil {
		return
	}
	shim := g.shim.Stats()
	m.gauge("shim_fallbacks", "Actions whose GPU memory is only counted, because their libraries fail when it is moved.", float64(len(g.fallbacks.List())))
	m.gauge("shim_containers", "Containers that are prepared for a GPU.", float64(shim.Containers))
	m.gauge("shim_processes", "Processes of GPU containers that are connected by the shim.", float64(shim.Processes))
	m.gauge("shim_silent_processes", "Connected processes that do not answer.", float64(shim.Silent))
	m.gauge("shim_unhooked_containers", "GPU containers, counted since the start of the invoker, from which no process has connected.", float64(shim.Unhooked))
}

// addStatus adds the fallbacks, and the host memory that GPU containers have pinned.
func (g *gpus) addStatus(s *status) {
	s.Fallbacks = fallbackList{g}.all()
	for _, c := range s.Work.Containers {
		if g.shim != nil && c.Device != "" {
			c.Pinned = g.shim.Pinned(c.Name)
		}
	}
}

// device labels a metric with the names of a device, and more.
func device(values []string, more ...label) []label {
	var all []label
	for i, name := range invoker.DeviceLabels {
		all = append(all, label{name, values[i]})
	}
	return append(all, more...)
}

// fallbackList has the admin listener show and clear the fallbacks. The listener is
// open before the devices are.
type fallbackList struct{ *gpus }

func (f fallbackList) all() []devices.Fallback {
	if !f.ready.Load() || f.fallbacks == nil {
		return nil
	}
	return f.fallbacks.List()
}

// List returns the content of /fallbacks.
func (f fallbackList) List() any { return append([]devices.Fallback{}, f.all()...) }

// Clear forgets an action, or all for an empty name.
func (f fallbackList) Clear(action string) int {
	if len(f.all()) == 0 {
		return 0
	}
	n := f.fallbacks.Clear(action)
	if n > 0 {
		f.Log.Info("actions may have their GPU memory moved again", "actions", n, "action", action)
	}
	return n
}
