package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// shimEngine hands out the action server as containers, each beside a process
// that really holds memory under the shim, where its container is to load it.
type shimEngine struct {
	*engine
	guest string

	mu  sync.Mutex
	all []*exec.Cmd
}

func (e *shimEngine) Create(ctx context.Context, s container.Spec) (container.Handle, error) {
	if s.GPU != nil && slices.ContainsFunc(s.GPU.Env, func(v string) bool { return strings.HasPrefix(v, "LD_PRELOAD=") }) {
		if err := e.hold(s.GPU.Env); err != nil {
			return container.Handle{}, &container.CreateError{Message: "no guest", Err: err}
		}
	}
	return e.engine.Create(ctx, s)
}

// hold starts the process and has it allocate.
func (e *shimEngine) hold(env []string) error {
	cmd := exec.Command(e.guest)
	cmd.Env, cmd.Stderr = env, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	e.mu.Lock()
	e.all = append(e.all, cmd)
	e.mu.Unlock()
	if _, err := fmt.Fprintln(in, "alloc 33554432\nfill 0 1"); err != nil {
		return err
	}
	answers := bufio.NewScanner(out)
	for range 3 { // start, alloc, fill
		if !answers.Scan() {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

func (e *shimEngine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, cmd := range e.all {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return e.engine.Close()
}

// gpuInvoker runs an invoker with one simulated device.
func (r *controller) gpuInvoker(id, guest string, more ...string) {
	env := append(r.environment(), "CONFIG_whisk_gpu_simulated_devices=1", "CONFIG_whisk_gpu_runtime=process")
	cfg, err := config.Load(config.Input{Args: []string{"--id", id, "--uniqueName", "bench"}, Environ: append(env, more...)})
	check.NoError(r.b, err)
	r.serve(func(ctx context.Context, ready func()) error {
		return assembly.Run(ctx, assembly.Options{
			Config: cfg, Log: slog.New(slog.DiscardHandler), Ready: ready,
			Engine: &shimEngine{engine: &engine{addr: r.action, died: make(chan container.ID)}, guest: guest},
		})
	})
}

// BenchmarkGPUWarm compares, in turns, an invoker that only simulates memory with one
// whose containers run under the shim on the fake driver. It reports the time until the
// result, for which a caller waits, and the time until the completion, which frees the
// slot at the controller. Under the shim the container also reports its memory. Goal:
// the shim adds at most 200 us to a warm run.
func BenchmarkGPUWarm(b *testing.B) {
	dir := shimtest.Dir(b)
	guest := filepath.Join(dir, "guest")
	r := newController(b)
	r.gpuInvoker("0", guest)
	r.gpuInvoker("1", guest, "CONFIG_whisk_gpu_process_dir="+b.TempDir(),
		"CONFIG_whisk_gpu_shim_library="+filepath.Join(dir, "libgpuwhisk.so"),
		"CONFIG_whisk_gpu_fakeDriver="+filepath.Join(dir, "fake12"))
	for range 200 {
		r.timed("invoker0")
		r.timed("invoker1")
	}
	var result, whole [2][]time.Duration
	for b.Loop() {
		for side, topic := range []string{"invoker0", "invoker1"} {
			first, last := r.timed(topic)
			result[side], whole[side] = append(result[side], first), append(whole[side], last)
		}
	}
	report := func(name string, of [2][]time.Duration) {
		us := func(d time.Duration) float64 { return float64(d) / 1e3 }
		b.ReportMetric(us(quantile(of[0], 0.5)), name+"-simulated-p50-us")
		b.ReportMetric(us(quantile(of[1], 0.5)-quantile(of[0], 0.5)), name+"-added-p50-us")
		b.ReportMetric(us(quantile(of[1], 0.99)-quantile(of[0], 0.99)), name+"-added-p99-us")
	}
	report("result", result)
	report("completion", whole)
}

// timed invokes the GPU action and reports when its first and its last ack came.
func (r *controller) timed(topic string) (first, last time.Duration) {
	f := r.flight(topic, "gpu1")
	return f.First.Sub(f.Sent), time.Since(f.Sent)
}
