package invoker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
	"github.com/prometheus/client_golang/prometheus"
)

// namedFunctions returns the distinct functions in series.
func namedFunctions(series []string) map[string]bool {
	named := map[string]bool{}
	for _, s := range series {
		if _, rest, ok := strings.Cut(s, `{action="`); ok {
			action, rest, _ := strings.Cut(rest, `"`)
			_, rest, _ = strings.Cut(rest, `namespace="`)
			namespace, _, _ := strings.Cut(rest, `"`)
			named[namespace+"/"+action] = true
		}
	}
	return named
}

// TestFunctionsHaveBoundedSeries: however many functions come, maxFunctions have series
// of their own, all others count together, and a forgotten one makes a place for another.
func TestFunctionsHaveBoundedSeries(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(prometheus.NewRegistry(), reg)
	id := func(i int) sched.FlowID { return sched.FlowID{Namespace: "ns", Function: fmt.Sprint("ns/f", i)} }
	use := func(f sched.FlowID) {
		m.queued(f, time.Second)
		m.served(f, time.Second)
		m.moved(f, gpu.Evict, 10)
		m.resident(f, assumedMemory{f: 1}, 3, true)
		m.resident(f, assumedMemory{f: 2}, 5, true)
	}
	others := func(residents int) {
		t.Helper()
		series := seriesOf(t, reg)
		check.Equal(t, len(namedFunctions(series)), maxFunctions+1)
		for _, want := range []string{
			`gpuwhisk_gpu_function_queue_seconds{action="other",namespace=""} 50`,
			`gpuwhisk_gpu_seconds_total{action="other",namespace=""} 50`,
			`gpuwhisk_gpu_moved_bytes_total{action="other",direction="evict",namespace=""} 500`,
			fmt.Sprintf(`gpuwhisk_gpu_resident_bytes{action="other",namespace="",source="assumed"} %d`, 2*residents),
			fmt.Sprintf(`gpuwhisk_gpu_resident_bytes{action="other",namespace="",source="measured"} %d`, 3*residents),
		} {
			check.Includes(t, series, want)
		}
	}
	for i := range maxFunctions + 50 {
		use(id(i))
	}
	others(50)
	m.forget(id(0))
	use(id(maxFunctions))
	others(49)
	m.forget(id(maxFunctions + 1))
	others(48)
}

// TestFloodOfFunctionsAddsNoSeries: callers choose namespaces, action names and parameters,
// and none of these values makes the number of series grow without bound.
func TestFloodOfFunctionsAddsNoSeries(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		s := env.gpuSettings(1)
		s.Pool.MemoryMB, s.GPU.Config.Pool.Size, s.GPU.Devices[0].MemoryBytes = 1<<20, 2*maxFunctions, 1<<40
		_, stop := env.start(s)
		total := func() int {
			families, err := env.registry.Gather()
			check.NoError(t, err)
			n := 0
			for _, f := range families {
				n += len(f.GetMetric())
			}
			return n
		}
		flood := func(from, to int, kind string, change func(*activation.Action)) {
			for i := from; i < to; i++ {
				name := fmt.Sprint(kind, i)
				env.action(name, change)
				env.invoke(name, func(m *activation.Message) {
					m.User.Namespace = activation.Namespace{Name: fmt.Sprint("ns", i), UUID: fmt.Sprint("u", i)}
					m.TransID = activation.NewTransID(fmt.Sprint("tid", i), time.Now().UnixMilli(), false)
				})
			}
			pass(10 * time.Second)
			synctest.Wait()
		}
		cpu := func(a *activation.Action) { a.Exec.Kind = "kind:" + a.Name }
		device := annotate(`{"memory":"1 GB"}`)
		invalid := annotate(`{"memory":"none of this"}`)
		flood(0, 1, "cpu", cpu)
		flood(0, 1, "invalid", invalid)
		before := total()
		flood(1, 300, "cpu", cpu)
		flood(1, 300, "invalid", invalid)
		check.Equal(t, total(), before, "series after 300 CPU actions and 300 refused ones")
		flood(0, maxFunctions+100, "gpu", device)
		check.Equal(t, len(namedFunctions(env.series())), maxFunctions+1, "functions with series")
		full := total()
		flood(maxFunctions+100, maxFunctions+200, "gpu", device)
		check.AtMost(t, total(), full, "series after 100 more functions")
		stop()
		check.AtLeast(t, len(env.acks), 900)
	})
}

// TestQueueDepthsAreBounded: the queues of functions beyond the bound are one series.
func TestQueueDepthsAreBounded(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		s := env.gpuSettings(1)
		s.InFlight = maxFunctions + 200
		env.lasting(time.Hour)
		iv, stop := env.start(s)
		for i := range maxFunctions + 100 {
			env.action(fmt.Sprint("f", i), annotate(`{"memory":"1 GB"}`))
			env.invoke(fmt.Sprint("f", i), nil)
		}
		pass(time.Second)
		synctest.Wait()
		st := env.status(iv)
		check.Equal(t, len(st.Queued), maxFunctions+1)
		check.AtLeast(t, st.Queued["other"], 90)
		stop()
	})
}
