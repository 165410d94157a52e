package invoker

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
	"github.com/prometheus/client_golang/prometheus"
)

// TestContainerTakesSeveralRuns: as many at once as the annotation allows, and
// never more than the action's limit; each holds a token, and the proxy and the logs know.
func TestContainerTakesSeveralRuns(t *testing.T) {
	for _, c := range []struct {
		annotation string
		limit      int
		width      int
	}{
		{"true", 1, 1}, {"true", 3, 3}, {`{"concurrency":2}`, 3, 2}, {`{"concurrency":1}`, 3, 1}, {`{"concurrency":2}`, 1, 1},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("f", func(a *activation.Action) {
				annotate(c.annotation)(a)
				a.Limits.Concurrency = c.limit
			})
			s := env.gpuSettings(1)
			s.Bounds.Concurrency.Max = 3
			s.GPU.Tokens.Max = 4
			var at, most atomic.Int32
			env.run = func(int, []byte) proxy.Exchange {
				most.Store(max(most.Load(), at.Add(1)))
				pass(time.Second)
				at.Add(-1)
				return answer(200, `{}`)
			}
			iv, stop := env.start(s)
			env.invoke("f", nil)
			pass(time.Minute) // now it is warm
			var ids []activation.ID
			for range c.width + 1 {
				ids = append(ids, env.invoke("f", nil))
			}
			pass(500 * time.Millisecond)
			st := env.status(iv)
			check.Equal(t, st.Devices[0].InFlight, c.width+1, "%+v", c)
			check.Equal(t, env.made, 2, "%+v", c)
			check.Equal(t, int(most.Load()), c.width+1, "%+v", c)
			active := []int{st.Containers[0].Active, st.Containers[1].Active}
			if slices.Sort(active); !slices.Equal(active, []int{1, c.width}) {
				t.Errorf("%+v: %v active", c, active)
			}
			pass(time.Minute)
			stop()
			var starts []string
			for _, id := range ids {
				starts = append(starts, gpuAnnotation(t, env.record(id)).Start)
			}
			want := append([]string{"busy-cold"}, slices.Repeat([]string{"gpu-warm"}, c.width)...)
			if slices.Sort(starts); !slices.Equal(starts, want) {
				t.Errorf("%+v: starts %v", c, starts)
			}
			check.Equal(t, env.dialled[0], c.width, "%+v: dialled", c)
			check.That(t, env.asked[0].Alone == (c.width == 1), "%+v: dialled", c)
		})
	}
}

// TestSharedContainerFails: every run in it completes, no further activation comes, and
// it goes once, when the last has left.
func TestSharedContainerFails(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("f", func(a *activation.Action) {
			annotate(`{"concurrency":3}`)(a)
			a.Limits.Concurrency = 3
		})
		s := env.gpuSettings(1)
		s.Bounds.Concurrency.Max = 3
		s.GPU.Tokens.Max = 4
		env.run = func(n int, _ []byte) proxy.Exchange {
			pass(time.Duration(n) * time.Second)
			if n == 2 {
				return proxy.Exchange{Failure: proxy.NoResponse}
			}
			return answer(200, `{}`)
		}
		_, stop := env.start(s)
		env.invokeAndWait("f", time.Minute)
		for range 3 { // the second run of the container, the third, the fourth
			env.invoke("f", nil)
		}
		pass(2500 * time.Millisecond) // the second has failed
		check.Equal(t, env.removed, 0, "a container was removed while two runs were in it")
		last := env.invokeAndWait("f", time.Minute)
		check.Equal(t, gpuAnnotation(t, env.record(last)).Start, "busy-cold")
		check.Equal(t, env.made, 2)
		check.Equal(t, env.removed, 1)
		stop()
		env.judge(0, 5)
	})
}

// TestShimOffIsChargedAsReserved: memory that is not seen cannot be moved, so
// it is on the books as long as its container lives.
func TestShimOffIsChargedAsReserved(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("f", annotate(`{"memory":"10 GB","shim":"off"}`))
		env.large("g")
		env.gpu.hold = func(name string, need gpu.MemoryRequest) {
			if need.Bytes > 0 {
				env.gpu.holds(name, need.Bytes, need.Bytes, need.Context)
			}
		}
		iv, stop := env.start(env.gpuSettings(1))
		one := env.invokeAndWait("f", time.Minute)
		d := env.status(iv).Devices[0]
		check.Equal(t, d.Used, 10<<30+400<<20, "after the run")
		check.Equal(t, d.Resident, 0, "after the run")
		check.Equal(t, gpuAnnotation(t, env.record(one)).Memory, 10<<30)
		// A later report has more.
		name := env.created[0].Name
		env.gpu.report(gpu.MemoryReport{Container: name, PID: 5, Usage: gpu.Usage{Allocated: 12 << 30, Resident: 12 << 30, Context: 400 << 20}})
		two := env.invokeAndWait("f", time.Minute)
		check.Equal(t, env.status(iv).Devices[0].Used, 12<<30+400<<20, "after more was found")
		n := gpuAnnotation(t, env.record(two))
		check.Equal(t, n.Memory, 12<<30)
		check.Equal(t, n.Start, "gpu-warm")
		three := env.invokeAndWait("g", time.Minute)
		stop()
		check.That(check.Must(t), env.record(three) != nil, "record %+v, orders %v, %d removed", env.record(three), env.gpu.orders(), env.removed)
		check.Equal(t, len(env.gpu.orders()), 0)
		check.Equal(t, env.removed, 1)
		check.EqualSlices(t, env.gpu.shims, []string{activation.ShimOff, activation.ShimManaged})
	})
}

// TestFootprintIsMeasured: the annotation's memory counts for the first run. From then on the
// measured memory counts, also for new containers.
func TestFootprintIsMeasured(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("f", annotate(`{"memory":"12 GB"}`))
		env.gpu.hold = func(name string, _ gpu.MemoryRequest) { env.gpu.holds(name, 2<<30, 2<<30, 0) }
		iv, stop := env.start(env.gpuSettings(1))
		env.invokeAndWait("f", time.Minute)
		env.lasting(time.Second)
		one, two := env.invoke("f", nil), env.invokeAndWait("f", 500*time.Millisecond)
		d := env.status(iv).Devices[0]
		check.Equal(t, d.InFlight, 2)
		check.Equal(t, d.Used, 2*(2<<30+400<<20))
		pass(time.Minute)
		stop()
		for _, id := range []activation.ID{one, two} {
			check.Equal(t, gpuAnnotation(t, env.record(id)).Memory, 2<<30)
		}
	})
}

// TestGreedyContainerIsServedWithTheDevice: a container that claims to hold more than there
// is gets all there is, and no more; others are served after it.
func TestGreedyContainerIsServedWithTheDevice(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("liar", annotate("true"))
		env.action("f", annotate("true"))
		env.gpu.hold = func(name string, need gpu.MemoryRequest) {
			if strings.Contains(name, "liar") {
				for pid := range 40 {
					env.gpu.report(gpu.MemoryReport{Container: name, PID: pid, Usage: gpu.Usage{Allocated: 1 << 60, Resident: 1 << 60, Context: 1 << 60}})
				}
				return
			}
			env.gpu.holds(name, need.Bytes, need.Bytes, 0)
		}
		_, stop := env.start(env.gpuSettings(1))
		var ids []activation.ID
		for range 3 {
			ids = append(ids, env.invoke("liar", nil), env.invoke("f", nil))
			pass(10 * time.Minute)
		}
		stop()
		env.ok(ids...)
	})
}

// TestForgottenFlowsLeaveNoSeries: an invoker sees very many functions in its life, and keeps
// series only for functions that are present.
func TestForgottenFlowsLeaveNoSeries(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.large("f", "g")
		iv, stop := env.start(env.gpuSettings(1))
		for range 2 {
			env.invokeAndWait("f", time.Second)
			env.invokeAndWait("g", time.Second)
		}
		iv.Observe([]gpu.Reading{{Utilization: 0.5, Used: 1}})
		pass(time.Second)
		for _, want := range []string{
			`gpuwhisk_gpu_moved_bytes_total{action="guest/f",direction="evict",namespace="guest"} 2.147483648e+10`,
			`gpuwhisk_gpu_moved_bytes_total{action="guest/f",direction="prefetch",namespace="guest"} 1.073741824e+10`,
			`gpuwhisk_gpu_resident_bytes{action="guest/f",namespace="guest",source="measured"} 0`,
			`gpuwhisk_gpu_resident_bytes{action="guest/g",namespace="guest",source="measured"} 1.073741824e+10`,
			`gpuwhisk_gpu_seconds_total{action="guest/g",namespace="guest"} 0`,
			`gpuwhisk_gpu_utilization{UUID="",gpu="0",modelName="test (simulated)"} 0.5`,
		} {
			check.Includes(t, env.series(), want)
		}
		pass(10 * time.Hour)
		iv.DeviceLost(0, "x")
		pass(time.Second)
		stop()
		want := []string{`gpuwhisk_gpu_lost{UUID="",gpu="0",modelName="test (simulated)"} 1`, `gpuwhisk_gpu_utilization{UUID="",gpu="0",modelName="test (simulated)"} 0.5`}
		check.EqualSlices(t, env.series(), want, "after all are forgotten")
	})
}

// series lists the GPU figures that have labels of flows or devices.
func (env *fixture) series() []string { return seriesOf(env.t, env.registry) }

func seriesOf(t testing.TB, from prometheus.Gatherer) (out []string) {
	families, err := from.Gather()
	check.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			text := fmt.Sprintf("%s{%s} %v", f.GetName(), strings.Join(labels, ","), value)
			if strings.Contains(text, "action=") || strings.Contains(text, "modelName=") {
				out = append(out, text)
			}
		}
	}
	return out
}
