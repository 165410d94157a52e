package gpucheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// bed is what the steps stand on: the programs, the shim's control, the
// monitor, and the books of what was promised of the card's memory.
type bed struct {
	s     Settings
	dir   string
	progs programs
	ctl   *shimctl.Control
	mon   *monitor
	about hello
	fake  bool
	free  int64 // of the card, before anything was taken
	began time.Time

	mu      sync.Mutex
	started []*program
	boxes   []*shimctl.Container
	names   int
	taken   int64
	epoch   uint64
}

// hello is the first line of worker.c.
type hello struct {
	Device     string `json:"device"`
	Bus        string `json:"bus"`
	Driver     int    `json:"driver"`
	Capability string `json:"capability"`
	Processors int    `json:"processors"`
	Managed    int    `json:"managed"`
	Concurrent int    `json:"concurrent"`
	Free       int64  `json:"free"`
	Total      int64  `json:"total"`
}

// contextBytes is what one context takes of a card beside its data, as a
// generous guess from CUDA 12 and 13 on large cards.
const contextBytes = 600 << 20

// silent hears nothing: the steps ask.
type silent struct{}

func (silent) Usage(string, int, gpu.Usage) {}
func (silent) Exited(string, int)           {}
func (silent) Silent(string, int, bool)     {}

func (silent) Refused(string, int, shimctl.Refusal) {}

// openBed looks whether there is a device and everything to try it with.
func openBed(ctx context.Context, s Settings) (_ *bed, err error) {
	// A short path: a socket's name has room for 107 bytes.
	dir, err := os.MkdirTemp("", "gwcheck")
	if err != nil {
		return nil, fmt.Errorf("make working directory: %w", err)
	}
	b := &bed{s: s, dir: dir, began: s.Now()}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.progs, err = findPrograms(ctx, s, dir); err != nil {
		return nil, err
	}
	if err := b.look(ctx); err != nil {
		return nil, err
	}
	b.mon = openMonitor(s, b.fake, b.about.Bus)
	b.ctl, err = shimctl.Open(filepath.Join(dir, "s"), shimctl.Settings{
		MaxResident: b.about.Total, Context: contextBytes,
	}, silent{}, s.Log)
	if err != nil {
		return nil, fmt.Errorf("open shim control: %w", err)
	}
	return b, nil
}

// look asks a worker what the device is, and whether it is what was asked for.
func (b *bed) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	p, err := startProgram(ctx, "worker", []string{b.progs.worker}, b.env(), &b.about)
	if err != nil {
		return fmt.Errorf("no device to check: %w: %w", err, ErrCannotRun)
	}
	p.leave()
	b.fake = strings.HasPrefix(b.about.Device, "Fake GPU")
	if b.s.FakeDriver != "" && !b.fake {
		return fmt.Errorf("a fake driver was asked for, and %s answered: %w", b.about.Device, ErrCannotRun)
	}
	if b.fake && b.s.FakeDriver == "" {
		return fmt.Errorf("the loader finds a fake driver: name it as such, or take it out of LD_LIBRARY_PATH: %w", ErrCannotRun)
	}
	b.free = b.about.Free
	return nil
}

// close ends everything and removes what was made.
func (b *bed) close() {
	b.release()
	var errs []error
	if b.ctl != nil {
		errs = append(errs, b.ctl.Close())
	}
	if b.mon != nil {
		errs = append(errs, b.mon.close())
	}
	errs = append(errs, os.RemoveAll(b.dir))
	if err := errors.Join(errs...); err != nil {
		b.s.Log.Warn("clean up after the check", "error", err)
	}
}

// release ends what a step left running.
func (b *bed) release() {
	b.mu.Lock()
	started, boxes := b.started, b.boxes
	b.started, b.boxes, b.taken = nil, nil, 0
	b.mu.Unlock()
	for _, p := range started {
		p.end()
	}
	for _, c := range boxes {
		if err := c.Close(); err != nil {
			b.s.Log.Warn("close container", "error", err)
		}
	}
}

// box opens a container: a socket for programs under the shim.
func (b *bed) box() (*shimctl.Container, error) {
	b.mu.Lock()
	b.names++
	name := fmt.Sprintf("check-%d", b.names)
	b.mu.Unlock()
	c, err := b.ctl.Container(name)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.boxes = append(b.boxes, c)
	b.mu.Unlock()
	return c, nil
}

// env is what programs inherit, with more put over it.
func (b *bed) env(more ...string) []string {
	var path string
	out := make([]string, 0, len(b.s.Environ)+len(more)+1)
	for _, v := range b.s.Environ {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case name == "LD_LIBRARY_PATH":
			path = value
		case name == "LD_PRELOAD" || name == "LD_AUDIT" || strings.HasPrefix(name, "GPUWHISK_SHIM"):
		default:
			out = append(out, v)
		}
	}
	if b.s.FakeDriver != "" {
		fake, err := filepath.Abs(b.s.FakeDriver)
		if err == nil {
			path = strings.TrimSuffix(fake+":"+path, ":")
		}
	}
	if path != "" {
		out = append(out, "LD_LIBRARY_PATH="+path)
	}
	if b.dir != "" { // CuPy keeps the kernels that it compiles: not in anybody's home
		out = append(out, "CUPY_CACHE_DIR="+filepath.Join(b.dir, "cupy"))
		if b.s.FakeDriver != "" { // one device for all programs, as a card is
			out = append(out, "FAKE_CUDA_STATE="+filepath.Join(b.dir, "device"))
		}
	}
	return append(out, more...)
}

// under is the environment of a program in a container.
func (b *bed) under(c *shimctl.Container, more ...string) []string {
	return append(b.env(more...),
		"LD_PRELOAD="+b.progs.shim, "GPUWHISK_SHIM_SOCKET="+c.Socket(), "GPUWHISK_SHIM_LOG=2")
}

// start runs a program until the step ends. hello takes its first line.
func (b *bed) start(ctx context.Context, name string, args, env []string, hello any) (*program, error) {
	p, err := startProgram(ctx, name, args, env, hello)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.started = append(b.started, p)
	b.mu.Unlock()
	return p, nil
}

// nextEpoch numbers the orders of all containers.
func (b *bed) nextEpoch() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.epoch++
	return b.epoch
}

// epochs sets a range of numbers aside and returns the last one before it.
func (b *bed) epochs(n uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.epoch
	b.epoch += n
	return before
}
