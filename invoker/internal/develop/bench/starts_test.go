package bench

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
	engines "github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// BenchmarkStarts measures the waits of a user for cold and for paused containers,
// beside the time of the container alone.
func BenchmarkStarts(b *testing.B) {
	r := newRealController(b)
	bare := newBare(b)
	r.action("noop", noop, 10)
	r.action("crashes", "function main() { process.exit(1); }", 10)
	short := harness.Action{Name: "hangs", Kind: "nodejs:20", Code: "function main() { for (;;); }", Timeout: time.Second, LogsMB: 10, MemoryMB: 128, Annotations: map[string]any{"provide-api-key": false}}
	r.Put(short)
	short.Name, short.Kind, short.Code = "sleeps", "python:3.11", "import time\ndef main(p):\n    time.sleep(100)\n"
	r.Put(short)
	for i := range starts {
		r.action(fmt.Sprint("cold", i), noop, 10)
	}
	for b.Loop() {
		r.run()
		r.colds(bare)
		r.stop(syscall.SIGINT)
		// Later settings of a name win.
		r.Settings = append(r.Settings, "CONFIG_whisk_containerProxy_timeouts_pauseGrace=50 ms")
		r.run()
		r.pauses(bare)
		r.failures()
		r.stop(syscall.SIGINT)
	}
}

// starts is how many cold and how many paused containers are met: no more than
// there is memory for, so that none waits for another's end.
const starts = 14

func (r *realController) colds(bare *bare) {
	var floor, cold []time.Duration
	for i := range starts {
		floor = append(floor, bare.cold())
		result, _ := r.once(fmt.Sprint("cold", i))
		cold = append(cold, result)
	}
	r.quantiles("bare-cold", floor, 0.95)
	r.quantiles("cold", cold, 0.95)
}

func (r *realController) pauses(bare *bare) {
	var floor, paused []time.Duration
	r.once("noop")
	for range starts {
		peertest.Until(r.b, "paused", func() string {
			return peertest.Docker(r.b, "ps", "--quiet", "--filter", "status=running", "--filter", "name=wsk"+r.Unique)
		})
		floor = append(floor, bare.paused())
		result, _ := r.once("noop")
		paused = append(paused, result)
	}
	r.quantiles("bare-paused", floor, 0.95)
	r.quantiles("paused", paused, 0.95)
}

func (r *realController) failures() {
	var over, crash []time.Duration
	for _, action := range []string{"hangs", "sleeps"} {
		for range 5 {
			over = append(over, r.afterEnd(action))
		}
	}
	r.quantiles("limit-to-ack", over, 1)
	for range 10 {
		crash = append(crash, r.afterEnd("crashes"))
	}
	r.quantiles("crash-to-ack", crash, 1)
}

// afterEnd runs an activation and reports how long after its end, which is when
// its limit was reached or its container died, its result was received.
func (r *realController) afterEnd(action string) time.Duration {
	f := r.send(action)
	r.Await(f)
	return f.First.Sub(time.UnixMilli(r.DB.AwaitRecord(r.b, f.ID).End))
}

// bare is the lower bound for container operations: only Docker and the action proxy,
// used as by the invoker.
type bare struct {
	b      *testing.B
	engine *engines.Engine
	image  string
	prefix string
	made   int
	kept   container.Handle // runs between its pauses
	client *proxy.Client    // of kept
}

func newBare(b *testing.B) *bare {
	b.Helper()
	tag, err := peertest.Images()
	check.NoError(b, err)
	o := engines.DefaultOptions()
	o.Host, o.Prefix = peertest.NeedDocker(b), fmt.Sprintf("wskbare%d_", os.Getpid())
	engine, err := engines.New(b.Context(), o)
	check.NoError(b, err)
	f := &bare{b: b, engine: engine, image: "gpuwhisk/action-nodejs:" + tag, prefix: o.Prefix}
	b.Cleanup(func() {
		if err := engine.CleanUp(context.Background(), o.Prefix); err != nil {
			b.Error(err)
		}
		_ = engine.Close()
	})
	return f
}

// cold is the time from the request for a container to its first answer.
func (f *bare) cold() time.Duration {
	began := time.Now()
	handle, client := f.start()
	took := time.Since(began)
	client.Close()
	if err := f.engine.Remove(context.Background(), handle.ID); err != nil {
		f.b.Error(err)
	}
	return took
}

// paused is the time from the resuming of a paused container to its answer.
func (f *bare) paused() time.Duration {
	if f.client == nil {
		f.kept, f.client = f.start()
	}
	f.client.Close()
	check.NoError(f.b, f.engine.Pause(f.b.Context(), f.kept.ID))
	began := time.Now()
	check.NoError(f.b, f.engine.Resume(f.b.Context(), f.kept.ID))
	f.ask(f.client)
	return time.Since(began)
}

func (f *bare) start() (container.Handle, *proxy.Client) {
	f.made++
	handle, err := f.engine.Create(f.b.Context(), container.Spec{
		Name: fmt.Sprint(f.prefix, f.made), Kind: "nodejs:20", Image: f.image, MemoryMB: 128, CPUShares: 64,
	})
	check.NoError(f.b, err)
	client := proxy.New(handle.Addr, 1)
	init := fmt.Sprintf(`{"value":{"binary":false,"code":%q,"env":{},"main":"main","name":"noop"}}`, noop)
	x := client.Init(f.b.Context(), []byte(init), time.Minute, answers)
	check.That(check.Must(f.b), x.OK(), "init: %s, status %d", x.Failure, x.Status)
	f.ask(client)
	return handle, client
}

var answers = proxy.Limit{Max: 1 << 20, Truncation: 1 << 20}

func (f *bare) ask(client *proxy.Client) {
	x := client.Run(f.b.Context(), []byte(`{"value":{}}`), time.Minute, answers)
	check.That(check.Must(f.b), x.OK(), "run: %s, status %d", x.Failure, x.Status)
}
