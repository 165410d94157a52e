package gpucheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// fixture is what the steps share: the programs, the shim's control, the monitor,
// and the device memory that is in use by the step under way.
type fixture struct {
	s       Settings
	dir     string // of sockets, traces and the like; removed at the end
	shim    string // libgpuwhisk.so
	scripts string // directory of the check's programs
	shims   *shimctl.Control
	monitor *monitor
	device  hello
	fake    bool
	began   time.Time
	epoch   atomic.Uint64 // of the last order

	containers atomic.Int64 // so far

	mu       sync.Mutex // over what the step under way has
	cleanups []func()
	taken    int64 // bytes of device memory
}

// cudaContext is what one context takes of a card beside its data, as a generous
// guess from CUDA 12 and 13 on large cards.
const cudaContext = 600 << 20

// openFixture finds the device and everything to try it with.
func openFixture(ctx context.Context, s Settings) (_ *fixture, err error) {
	dir, err := os.MkdirTemp("", "gwcheck") // a socket's path has at most 107 bytes
	if err != nil {
		return nil, fmt.Errorf("make working directory: %w", err)
	}
	f := &fixture{s: s, dir: dir, began: time.Now()}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if err := f.findPrograms(); err != nil {
		return nil, err
	}
	if err := f.askDevice(ctx); err != nil {
		return nil, err
	}
	f.monitor = openMonitor(s, f.fake, f.device.Bus)
	f.shims, err = shimctl.Open(filepath.Join(dir, "s"), shimctl.Settings{
		MaxResident: f.device.Total, Context: cudaContext,
	}, nil, s.Log) // the steps ask
	if err != nil {
		return nil, fmt.Errorf("open shim control: %w", err)
	}
	return f, nil
}

// findPrograms takes the programs that lie beside the shim.
func (f *fixture) findPrograms() error {
	shim, err := filepath.Abs(f.s.Shim)
	if err != nil {
		return fmt.Errorf("find shim: %w", err)
	}
	f.shim, f.scripts = filepath.Join(shim, "libgpuwhisk.so"), filepath.Join(shim, "check")
	for path, how := range map[string]string{f.shim: "make shim", f.program("worker"): "make -C shim/check"} {
		if !exists(path) {
			return fmt.Errorf("%s is not there; build it with %s: %w", path, how, ErrCannotRun)
		}
	}
	return nil
}

// program is the path of one of the check's programs.
func (f *fixture) program(name string) string { return filepath.Join(f.scripts, name) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// askDevice has a worker report the device, and checks that it is the one that was
// asked for.
func (f *fixture) askDevice(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	p, err := startProgram(ctx, "worker", []string{f.program("worker")}, f.env())
	if err != nil {
		return fmt.Errorf("no device to check: %w: %w", err, ErrCannotRun)
	}
	p.end(endTime)
	f.device = p.hello
	f.fake = strings.HasPrefix(f.device.Device, "Fake GPU")
	if f.s.FakeDriver != "" && !f.fake {
		return fmt.Errorf("a fake driver was asked for, and %s answered: %w", f.device.Device, ErrCannotRun)
	}
	if f.fake && f.s.FakeDriver == "" {
		return fmt.Errorf("the loader finds a fake driver: name it as such, or take it out of LD_LIBRARY_PATH: %w", ErrCannotRun)
	}
	return nil
}

func (f *fixture) close() {
	f.release()
	var errs []error
	if f.shims != nil {
		errs = append(errs, f.shims.Close())
	}
	if f.monitor != nil && f.monitor.driver != nil {
		errs = append(errs, f.monitor.driver.Close())
	}
	errs = append(errs, os.RemoveAll(f.dir))
	if err := errors.Join(errs...); err != nil {
		f.s.Log.Warn("clean up after the check", "error", err)
	}
}

// cleanup has something done at the end of the step.
func (f *fixture) cleanup(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cleanups = append(f.cleanups, do)
}

// release cleans up after a step, in reverse order.
func (f *fixture) release() {
	f.mu.Lock()
	cleanups := f.cleanups
	f.cleanups, f.taken = nil, 0
	f.mu.Unlock()
	for _, do := range slices.Backward(cleanups) {
		do()
	}
}

// usable is the share of the free memory of a card that is taken. The rest is for
// everything else there: more managed memory than a card has free can hang it.
const usable = 0.9

// take reserves device memory for a step, and skips the step if there is too little.
func (f *fixture) take(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	most := int64(usable * float64(f.device.Free))
	if f.taken+bytes > most {
		skip("not enough free device memory: %s wanted beside %s in use, %s free at the start of which %s may be used",
			size(bytes), size(f.taken), size(f.device.Free), size(most))
	}
	f.taken += bytes
}

// contextBytes is what a context takes; the fake driver's takes nothing.
func (f *fixture) contextBytes() int64 { return pick(f, cudaContext, int64(0)) }

// pick is a value for a card, or for the fake driver.
func pick[T any](f *fixture, card, fake T) T {
	if f.fake {
		return fake
	}
	return card
}

// env is the environment of programs, with more put over it.
func (f *fixture) env(more ...string) []string {
	var path string
	out := make([]string, 0, len(f.s.Environ)+len(more)+3)
	if f.dir != "" && f.s.FakeDriver != "" { // one device for all programs, as a card is
		out = append(out, "FAKE_CUDA_STATE="+filepath.Join(f.dir, "device"))
	}
	for _, v := range f.s.Environ {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case name == "LD_LIBRARY_PATH":
			path = value
		case name == "LD_PRELOAD" || name == "LD_AUDIT" || strings.HasPrefix(name, "GPUWHISK_SHIM"):
		default:
			out = append(out, v)
		}
	}
	if fake := f.s.FakeDriver; fake != "" {
		if absolute, err := filepath.Abs(fake); err == nil {
			path = strings.TrimSuffix(absolute+":"+path, ":")
		}
	}
	if path != "" {
		out = append(out, "LD_LIBRARY_PATH="+path)
	}
	if f.dir != "" { // CuPy caches the kernels that it compiles, by default in the home directory
		out = append(out, "CUPY_CACHE_DIR="+filepath.Join(f.dir, "cupy"))
	}
	return append(out, more...)
}

// shimEnv is the environment of a program in a container.
func (f *fixture) shimEnv(c *shimctl.Container, more ...string) []string {
	return append(f.env(more...),
		"LD_PRELOAD="+f.shim, "GPUWHISK_SHIM_SOCKET="+c.Socket(), "GPUWHISK_SHIM_LOG=2")
}

// container opens a container: a socket for programs under the shim.
func (f *fixture) container() *shimctl.Container {
	c := value(f.shims.Container(fmt.Sprintf("check-%d", f.containers.Add(1))))
	f.cleanup(func() {
		if err := c.Close(); err != nil {
			f.s.Log.Warn("close container", "error", err)
		}
	})
	return c
}

// start runs a program until the step ends.
func (t *trial) start(name string, args, env []string) *program {
	p := value(startProgram(t.ctx, name, args, env))
	t.cleanup(func() { p.end(0) })
	return p
}

// plain starts worker.c without the shim.
func (t *trial) plain() *program {
	return t.start("plain worker", []string{t.program("worker")}, t.env())
}

// worker starts worker.c under the shim.
func (t *trial) worker(env ...string) *guest {
	return t.guest("worker", []string{t.program("worker")}, env...)
}

// guest is a program under the shim, in a container of its own, and the block of
// device memory that it works on.
type guest struct {
	*program
	container *shimctl.Container
	block     int
}

// guest starts a program under the shim and waits until the shim has connected: it
// does so after the driver's start, on a thread of its own.
func (t *trial) guest(name string, args []string, env ...string) *guest {
	c := t.container()
	p := t.start(name, args, t.shimEnv(c, env...))
	ctx, cancel := context.WithTimeout(t.ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for c.Processes() == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			check(fmt.Errorf("%s: the shim has not connected: %w%s", name, ctx.Err(), &p.stderr))
		}
	}
	return &guest{program: p, container: c}
}

// evict and prefetch carry out an order as the invoker would give it. Anything but
// a full success ends the step.
func (t *trial) evict(g *guest) shimctl.Done {
	d, err := g.container.Evict(t.ctx, t.epoch.Add(1))
	return complete("evict", d, err)
}

func (t *trial) prefetch(g *guest) shimctl.Done {
	d, err := g.container.Prefetch(t.ctx, t.epoch.Add(1), 0)
	return complete("prefetch", d, err)
}

func complete(order string, d shimctl.Done, err error) shimctl.Done {
	switch {
	case err != nil:
		check(fmt.Errorf("%s: %w", order, err))
	case d.Status != shimctl.OK:
		check(fmt.Errorf("%s: %s after %s, driver's answer %d", order, d.Status, size(d.Moved), d.Code))
	case d.Processes == 0:
		check(fmt.Errorf("%s: no process answered", order))
	}
	return d
}
