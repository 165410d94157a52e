package gpucheck

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// fixture is shared by the steps: the programs, the shim's control and NVML.
type fixture struct {
	s       Settings
	dir     string // of sockets, traces and the like; removed at the end
	shims   *shimctl.Control
	device  device
	modules []string // of the frameworks that are here
	began   time.Time
	count   atomic.Uint64 // of containers and orders so far, for their names and epochs

	nvml     *nvml.Driver // a second witness beside cuMemGetInfo; nil: none
	versions nvml.Versions
	witness  string // for the report: NVML's version, or why it is not asked
}

// device is a worker's first line.
type device struct {
	Device, Bus, Capability                 string
	Driver, Processors, Managed, Concurrent int
	Free, Total                             int64
}

// shimFile is the object that a hooked function must come from.
const shimFile = "libgpuwhisk.so"

// cudaContext is a generous guess at the memory of one context beside its data, from CUDA 12
// and 13 on large cards.
const cudaContext = 600 << 20

// openFixture finds the device and the parts of the check.
func openFixture(ctx context.Context, s Settings) (*fixture, error) {
	f := &fixture{s: s, began: time.Now()}
	for path, how := range map[string]string{f.path(shimFile): "make shim", f.path("check/worker"): "make -C shim/check"} {
		if !exists(path) {
			return nil, fmt.Errorf("%s is not there; build it with %s: %w", path, how, ErrCannotRun)
		}
	}
	var err error
	if f.dir, err = os.MkdirTemp("", "gwcheck"); err != nil { // a socket's path has at most 107 bytes
		return nil, fmt.Errorf("make working directory: %w", err)
	}
	if err = f.askDevice(ctx); err == nil {
		f.openNVML()
		f.findModules(ctx)
		f.shims, err = shimctl.Open(filepath.Join(f.dir, "s"), shimctl.Settings{
			MaxResident: f.device.Total, Context: cudaContext,
		}, nil, s.Log) // the steps ask
	}
	if err != nil {
		f.close()
	}
	return f, err
}

// path is where the shim and the check's programs are.
func (f *fixture) path(name string) string { return filepath.Join(f.s.Shim, name) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// askDevice has a worker report the device, and checks that it is the wanted one.
func (f *fixture) askDevice(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	p, err := startProgram(ctx, "worker", []string{f.path("check/worker")}, f.env())
	if err != nil {
		return fmt.Errorf("no device to check: %w: %w", err, ErrCannotRun)
	}
	p.end(endTime)
	err = json.Unmarshal(p.hello, &f.device)
	if fake := strings.HasPrefix(f.device.Device, "Fake GPU"); fake != f.fake() {
		return fmt.Errorf("the loader finds the driver of %q: name a fake driver by --fake-driver, or take it out of LD_LIBRARY_PATH: %w", f.device.Device, ErrCannotRun)
	}
	return err
}

func (f *fixture) fake() bool { return f.s.FakeDriver != "" }

func (f *fixture) close() {
	var err error
	if f.shims != nil {
		err = f.shims.Close()
	}
	if f.nvml != nil {
		err = errors.Join(err, f.nvml.Close())
	}
	_ = os.Remove(cgroup()) // most checks have none
	if err = errors.Join(err, os.RemoveAll(f.dir)); err != nil {
		f.s.Log.Warn("clean up after the check", "error", err)
	}
}

// contextBytes is the memory of a context. On the fake driver a context takes none.
func (f *fixture) contextBytes() int64 { return pick(f.fake(), int64(0), cudaContext) }

// env is the environment of programs. more overrides it.
func (f *fixture) env(more ...string) []string {
	// One device for all programs, as a card is; the environment may name another file.
	out, path := []string{"FAKE_CUDA_STATE=" + filepath.Join(f.dir, "device")}, f.s.FakeDriver
	for _, v := range f.s.Environ {
		switch name, value, _ := strings.Cut(v, "="); {
		case name == "LD_LIBRARY_PATH":
			path = strings.Trim(path+":"+value, ":")
		case name != "LD_PRELOAD" && name != "LD_AUDIT" && !strings.HasPrefix(name, "GPUWHISK_SHIM"):
			out = append(out, v)
		}
	}
	// CuPy caches the kernels that it compiles, by default in the home directory.
	return append(append(out, "LD_LIBRARY_PATH="+path, "CUPY_CACHE_DIR="+filepath.Join(f.dir, "cupy")), more...)
}

// start starts the program of a guest. A program under the shim has a container of its own,
// which is a socket. When start returns, its shim has connected, unless the guest is silent.
func (f *fixture) start(ctx context.Context, g guest) (*program, error) {
	env, args, name := f.env(g.Env...), g.Command, cmp.Or(g.Name, "worker")
	if len(args) == 0 {
		args = []string{f.path("check/worker")}
	}
	var c *shimctl.Container
	if g.Shim {
		var err error
		if c, err = f.shims.Container(fmt.Sprintf("check-%d", f.count.Add(1))); err != nil {
			return nil, err
		}
		env = append(env, "LD_PRELOAD="+f.path(shimFile), "GPUWHISK_SHIM_SOCKET="+c.Socket(), "GPUWHISK_SHIM_LOG=2")
	}
	p, err := startProgram(ctx, name, args, env)
	if err != nil {
		return nil, err
	}
	p.container = c
	for late := time.Now().Add(20 * time.Second); c != nil && !g.Silent && c.Processes() == 0; <-time.After(2 * time.Millisecond) {
		if time.Now().After(late) || ctx.Err() != nil {
			return nil, fmt.Errorf("%s: the shim has not connected%s", name, p.last())
		}
	}
	return p, nil
}

// findModules finds the modules of frameworks. The fake driver does not serve them.
func (f *fixture) findModules(ctx context.Context) {
	if !f.fake() || f.s.frameworks {
		found, _ := f.python(ctx, "import importlib.util; print(*filter(importlib.util.find_spec, ['torch', 'cupy', 'jax']))")
		f.modules = strings.Fields(string(found))
	}
}

// python runs a line of Python and returns its output.
func (f *fixture) python(ctx context.Context, line string) ([]byte, error) {
	return command(ctx, []string{f.s.Python, "-B", "-c", line}, f.env()).Output()
}
