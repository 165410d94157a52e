package gpucheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// fixture is shared by the steps: the programs, the shim's control and NVML.
type fixture struct {
	s      Settings
	dir    string // of sockets, traces and the like; removed at the end
	shims  *shimctl.Control
	device answer // a worker's first line
	began  time.Time
	count  atomic.Uint64 // of containers and orders so far, for their names and epochs

	nvml     *nvml.Driver // a second witness beside cuMemGetInfo; nil: none
	versions nvml.Versions
	witness  string // for the report: NVML's version, or why it is not asked
}

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
	f.device = p.hello
	switch fake := strings.HasPrefix(f.device.Device, "Fake GPU"); {
	case f.fake() && !fake:
		return fmt.Errorf("a fake driver was asked for, and %s answered: %w", f.device.Device, ErrCannotRun)
	case fake && !f.fake():
		return fmt.Errorf("the loader finds a fake driver: name it as such, or take it out of LD_LIBRARY_PATH: %w", ErrCannotRun)
	}
	return nil
}

func (f *fixture) fake() bool { return f.s.FakeDriver != "" }

func (f *fixture) close() {
	var errs []error
	if f.shims != nil {
		errs = append(errs, f.shims.Close())
	}
	if f.nvml != nil {
		errs = append(errs, f.nvml.Close())
	}
	if err := errors.Join(append(errs, os.RemoveAll(f.dir))...); err != nil {
		f.s.Log.Warn("clean up after the check", "error", err)
	}
}

// take is called once by a step, for all the device memory that it uses. It skips the step
// if there is too little. A tenth of the free memory is left for other programs: a card can
// hang when programs have more managed memory than it has free.
func (f *fixture) take(bytes int64) {
	if most := f.device.Free / 10 * 9; bytes > most {
		skip("not enough free device memory: %s wanted, %s free at the start of which %s may be used",
			size(bytes), size(f.device.Free), size(most))
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

// shimEnv is the environment of a program in a container.
func (f *fixture) shimEnv(c *shimctl.Container, more ...string) []string {
	return append(f.env(more...),
		"LD_PRELOAD="+f.path(shimFile), "GPUWHISK_SHIM_SOCKET="+c.Socket(), "GPUWHISK_SHIM_LOG=2")
}

// container opens a container: a socket for programs under the shim. The control closes it.
func (f *fixture) container() *shimctl.Container {
	return value(f.shims.Container(fmt.Sprintf("check-%d", f.count.Add(1))))
}

// hasFrameworks reports whether the driver serves frameworks. The fake driver does not.
func (f *fixture) hasFrameworks() bool { return !f.fake() || f.s.frameworks }

// python runs a line of Python in time.
func (f *fixture) python(ctx context.Context, line string) error {
	return command(ctx, []string{f.s.Python, "-B", "-c", line}, f.env()).Run()
}

// imports reports whether Python finds a framework's module. It does not load the module.
func (t *trial) imports(module string) bool {
	return t.hasFrameworks() &&
		t.python(t.ctx, "import importlib.util, sys; sys.exit(importlib.util.find_spec('"+module+"') is None)") == nil
}

// preload imports the frameworks while other steps run, so that their files are in the page
// cache when a step needs them. It does not touch the device.
func (f *fixture) preload(ctx context.Context) {
	for _, module := range []string{"torch", "cupy", "jax"} {
		_ = f.python(ctx, "import "+module) // the steps report missing modules
	}
}

// trial is one step under way.
type trial struct {
	*fixture
	*Result
	ctx context.Context

	mu      sync.Mutex
	started []*program
}

// failure carries an error out of a step.
type failure struct{ err error }

// require ends the step if there is an error.
func require(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// fail ends the step.
func fail(format string, args ...any) { require(fmt.Errorf(format, args...)) }

// value returns the value of a call that must not fail.
func value[T any](v T, err error) T {
	require(err)
	return v
}

// catch returns the error with which a function ended the step.
func catch(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// parallel runs n functions, at most atOnce at a time. When all have returned it ends the
// step with their first error.
func parallel(n, atOnce int, f func(i int)) {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error { return catch(func() { f(i) }) })
	}
	require(g.Wait())
}

// pause waits. The end of the step's time ends the step.
func (t *trial) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.ctx.Done():
		require(t.ctx.Err())
	}
}

// endLater ends a program at the end of the step.
func (t *trial) endLater(p *program) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.started = append(t.started, p)
}

// start runs a program until the step ends. A program under the shim has a container of its
// own. start waits until its shim has connected.
func (t *trial) start(name string, args []string, shim bool, env ...string) *program {
	environ := t.env(env...)
	var c *shimctl.Container
	if shim {
		c = t.container()
		environ = t.shimEnv(c, env...)
	}
	p := value(startProgram(t.ctx, name, args, environ))
	p.container = c
	t.endLater(p)
	for late := time.Now().Add(20 * time.Second); shim && c.Processes() == 0; t.pause(2 * time.Millisecond) {
		if time.Now().After(late) {
			fail("%s: the shim has not connected%s", name, p.last())
		}
	}
	return p
}

// worker starts worker.c.
func (t *trial) worker(shim bool) *program { return t.hold(holder{name: "worker"}, shim) }

// filled starts worker.c under the shim with a block of known contents.
func (t *trial) filled(bytes int64, seed int) *program {
	p := t.worker(true)
	p.fill(bytes, seed)
	return p
}

// evict and prefetch carry out an order as the invoker gives it. Only full success does not
// end the step.
func (t *trial) evict(p *program) shimctl.Done {
	d, err := p.container.Evict(t.ctx, t.count.Add(1))
	return complete("evict", d, err)
}

func (t *trial) prefetch(p *program) shimctl.Done {
	d, err := p.container.Prefetch(t.ctx, t.count.Add(1), 0)
	return complete("prefetch", d, err)
}

func complete(order string, d shimctl.Done, err error) shimctl.Done {
	switch {
	case err != nil:
		fail("%s: %w", order, err)
	case d.Status != shimctl.OK:
		fail("%s: %s after %s, driver's answer %d", order, d.Status, size(d.Moved), d.Code)
	case d.Processes == 0:
		fail("%s: no process answered", order)
	}
	return d
}
