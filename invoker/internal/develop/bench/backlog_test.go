package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/gauge"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// backlogSize is how many activations wait; GPUWHISK_BACKLOG sets another
// number.
func backlogSize(b *testing.B) int {
	n := harness.Number(b, "GPUWHISK_BACKLOG", 100_000)
	b.Logf("%d activations wait", n)
	return n
}

// BenchmarkBacklog lets 100,000 activations of 100 GPU functions wait for a device, in
// an invoker in its own process.
//
//	hangs: the runs on the device do not end
//	lost:  the same, and then the only device is lost (needs the fake driver of
//	       make shim-fake)
//
// It reports the memory of the waiting activations in units of 2^20 bytes: live memory,
// and resident memory before and after unused memory was returned (swept). It also
// reports the time of a CPU action, as a ratio to an invoker without a backlog that is
// measured in turns. Goal: a ratio of at most 1.1.
func BenchmarkBacklog(b *testing.B) {
	b.Run("hangs", func(b *testing.B) {
		for b.Loop() {
			r := newController(b)
			benchmarkBacklog(b, r, r.gpuProcess(0), func(*invokerProcess) {})
		}
	})
	b.Run("lost", func(b *testing.B) {
		library := filepath.Join(shimtest.Dir(b), "nvml")
		for b.Loop() {
			r, script := newController(b), filepath.Join(b.TempDir(), "nvml")
			busy := r.gpuProcess(0, "CONFIG_whisk_gpu_simulated_devices=0", "LD_LIBRARY_PATH="+library, "FAKE_NVML_SCRIPT="+script, "FAKE_NVML_DEVICES=1", "CONFIG_whisk_gpu_deviceTimeout=1h")
			benchmarkBacklog(b, r, busy, func(p *invokerProcess) {
				check.NoError(b, os.WriteFile(script, []byte("lost 0\n"), 0o600))
				p.allLost()
			})
		}
	})
}

// benchmarkBacklog lets something happen to an invoker once its backlog is there.
func benchmarkBacklog(b *testing.B, r *controller, busy *invokerProcess, happen func(*invokerProcess)) {
	idle := r.gpuProcess(1)
	r.warm(busy, idle)
	live := busy.sweep()
	before := gauge.Resident(b, busy.PID)
	n := backlogSize(b)
	began := time.Now()
	r.hang("invoker0", n)
	busy.backlog(n)
	b.ReportMetric(float64(n)/time.Since(began).Seconds(), "pulled/s")
	happen(busy)
	b.ReportMetric(gauge.Resident(b, busy.PID)-before, "added-MiB")
	b.ReportMetric(busy.sweep()-live, "added-live-MiB")
	b.ReportMetric(gauge.Resident(b, busy.PID)-before, "added-swept-MiB")
	r.beside(busy, idle)
}

// gpuProcess is an invoker with a simulated device, or as more settings have it.
func (r *controller) gpuProcess(id int, more ...string) *invokerProcess {
	return r.process(os.Args[0], id, append([]string{"CONFIG_whisk_gpu_simulated_devices=1", "CONFIG_whisk_gpu_shim_library=none", "CONFIG_whisk_gpu_backlogSize=1g"}, more...)...)
}

// warm runs a CPU action often enough that both invokers are warm.
func (r *controller) warm(all ...*invokerProcess) {
	for range 3000 {
		for _, p := range all {
			r.invoke(p.topic, "a1")
		}
	}
}

// beside takes turns between an invoker with a backlog and one without.
func (r *controller) beside(busy, idle *invokerProcess) {
	var with, without []time.Duration
	for range 3000 {
		without = append(without, r.invoke(idle.topic, "a1"))
		with = append(with, r.invoke(busy.topic, "a1"))
	}
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	for name, q := range map[string]float64{"p50": 0.5, "p90": 0.9} {
		r.b.ReportMetric(us(quantile(with, q)), "cpu-"+name+"-us")
		r.b.ReportMetric(float64(quantile(with, q))/float64(quantile(without, q)), "cpu-"+name+"-ratio")
	}
}

// hang puts activations of a hundred functions on a topic, whose runs never end.
func (r *controller) hang(topic string, n int) {
	sent := make(chan error, n)
	for i := range n {
		m := message(fmt.Sprint(hangs, i%100), activation.ID(fmt.Sprintf("%031xf", i)))
		r.Produce(r.b.Context(), &kgo.Record{Topic: topic, Value: m.Encode()}, func(_ *kgo.Record, err error) { sent <- err })
	}
	for range n {
		check.NoError(r.b, <-sent)
	}
}

// backlog waits until an invoker has accepted n activations that wait for a GPU.
func (p *invokerProcess) backlog(n int) {
	p.admin.AwaitWithin(p.b, time.Hour, "the backlog", func(s harness.Status) bool { return s.Work.Backlog.Activations == n })
}

// allLost blocks until the invoker has lost its last device.
func (p *invokerProcess) allLost() {
	p.admin.Await(p.b, "a device that is lost", func(s harness.Status) bool {
		return !slices.ContainsFunc(s.Work.Devices, func(d harness.Device) bool { return d.Lost == "" })
	})
}
