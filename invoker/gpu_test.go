package invoker

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

func (env *fixture) gpuSettings(devices int) Settings {
	s := env.settings()
	cfg, _ := sched.Defaults("mqfq-sticky")
	s.GPU = GPUSettings{
		Config: scheduler.Config{
			Policy: "mqfq-sticky", Sched: cfg, Tokens: gpu.TokensConfig{Max: 2}, Pool: gpu.PoolConfig{Size: 32},
			PrefetchActive: true, Memory: 1 << 30, Context: 400 << 20,
		},
		BacklogBytes: 16 << 20,
	}
	for i := range devices {
		s.GPU.Devices = append(s.GPU.Devices, gpu.Device{Index: i, Name: "test", MemoryBytes: 16 << 30, Simulated: true})
	}
	return s
}

func gpuAnnotation(t *testing.T, r *activation.Record) (n struct {
	Device                  string
	Start                   string
	QueueTime, PrefetchTime int64
	GPUTime                 int64
	Memory                  int64
	Fallback                string
	MemoryMeasured          bool
}) {
	t.Helper()
	check.That(check.Must(t), r != nil, "no record")
	v, ok := r.Annotations.Get("gpu")
	check.That(check.Must(t), ok, "record without gpu annotation: %+v", r)
	check.NoError(t, json.Unmarshal(v, &n))
	return n
}

func TestGPURunsAreColdThenWarm(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("f", annotate(`{"memory":"2 GB"}`))
		env.lasting(100 * time.Millisecond)
		_, stop := env.start(env.gpuSettings(1))
		one := env.invokeAndWait("f", time.Second)
		two := env.invokeAndWait("f", time.Second)
		stop()
		n := gpuAnnotation(t, env.record(one))
		check.Equal(t, n.Start, "cold")
		check.Equal(t, n.GPUTime, 100)
		check.Equal(t, n.Memory, 2<<30)
		check.Equal(t, gpuAnnotation(t, env.record(two)).Start, "gpu-warm", "second run")
		check.That(check.Must(t), env.created[0].GPU != nil, "container spec %+v", env.created[0])
		check.That(t, env.created[0].GPU.Simulated, "container spec %+v", env.created[0])
	})
}

// TestContextsOfIdleContainersGiveWay: contexts stay on a device while their containers live.
// A device full of contexts takes no new container until idle containers are removed.
func TestContextsOfIdleContainersGiveWay(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		s := env.gpuSettings(1)
		s.GPU.Devices[0].MemoryBytes = 900 << 20
		var ids []activation.ID
		_, stop := env.start(s)
		for i := range 5 {
			name := fmt.Sprint("f", i)
			env.action(name, annotate(`{"memory":"100 MB"}`))
			ids = append(ids, env.invoke(name, nil))
		}
		synctest.Wait()
		stop()
		env.ok(ids...)
	})
}

func TestGPUActionTooLargeForTheDevice(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("f", annotate(`{"memory":"64 GB"}`))
		s := env.gpuSettings(1)
		s.GPU.Devices[0].MemoryBytes = 16e9
		_, stop := env.start(s)
		id := env.invokeAndWait("f", 0)
		stop()
		rec := env.record(id)
		check.That(check.Must(t), rec != nil, "record %+v", rec)
		check.Equal(check.Must(t), rec.Response.StatusCode, 1)
		const want = "The action asks for 64 GB of GPU memory (annotation gpu, key memory); " +
			"the device has 15258 MB, of which the context of a container takes 400 MB."
		check.Contains(t, string(rec.Response.Result), want)
	})
}

// TestDevicesOfSeveralSizes: an action goes to a device where it fits, by its request and by
// its observed memory. It waits for that device while the device is away.
func TestDevicesOfSeveralSizes(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("asks", annotate(`{"memory":"40 GB"}`))
		env.action("takes", annotate(`{"memory":"1 GB"}`))
		env.action("small", annotate(`{"memory":"1 GB"}`))
		env.gpu.hold = func(name string, need gpu.MemoryRequest) {
			if strings.Contains(name, "takes") {
				need.Bytes = 40 << 30
			}
			env.gpu.holds(name, need.Bytes, min(need.Bytes, 8<<30), need.Context)
		}
		s := env.gpuSettings(2)
		s.GPU.Devices[0].MemoryBytes, s.GPU.Devices[1].MemoryBytes = 8<<30, 80<<30
		iv, stop := env.start(s)
		on := func(name, device string) {
			t.Helper()
			id := env.invokeAndWait(name, time.Minute)
			check.Equal(t, gpuAnnotation(t, env.record(id)).Device[:1], device, "%s ran", name)
		}
		on("asks", "1")
		on("asks", "1")
		iv.DeviceLost(1, "for now")
		on("takes", "0") // nothing better is known yet
		on("small", "0")
		id := env.invokeAndWait("takes", time.Minute)
		check.That(t, env.record(id) == nil, "40 GB ran on 8")
		iv.DeviceBack(1)
		time.Sleep(time.Second)
		stop()
		check.Equal(t, gpuAnnotation(t, env.record(id)).Device[:1], "1")
	})
}

// An action on a device gets the variables of its container's GPU with /init, and init
// arguments replace none of these variables. An action without a device gets all its init
// arguments.
func TestGPUActionsDoNotSteerTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.action("cpu", nil)
		w.action("gpu", annotate(`true`))
		env := map[string]map[string]string{}
		w.init = func(body []byte) proxy.Exchange {
			var got struct {
				Value struct {
					Name string
					Env  map[string]string
				}
			}
			if err := json.Unmarshal(body, &got); err != nil {
				t.Error(err)
			}
			maps.DeleteFunc(got.Value.Env, func(name, _ string) bool { return strings.HasPrefix(name, "__OW_") })
			w.mu.Lock()
			defer w.mu.Unlock()
			env[got.Value.Name] = got.Value.Env
			return proxy.Exchange{Status: 200, Body: []byte(`{}`), ContentLength: 2}
		}
		_, stop := w.start(w.gpuSettings(1))
		for _, name := range []string{"cpu", "gpu"} {
			w.invoke(name, func(m *activation.Message) {
				m.Content = json.RawMessage(`{"LD_PRELOAD":"/x","CUDA_VISIBLE_DEVICES":"1","MODEL":"a"}`)
				m.InitArgs = []string{"LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "MODEL"}
			})
		}
		time.Sleep(time.Second)
		stop()
		check.DeepEqual(t, env["cpu"], map[string]string{"LD_PRELOAD": "/x", "CUDA_VISIBLE_DEVICES": "1", "MODEL": "a"})
		check.DeepEqual(t, env["gpu"], map[string]string{"LD_PRELOAD": "/shim.so", "MODEL": "a"})
	})
}

// TestRecordShowsWhetherMemoryIsMeasured: reserved memory is not shown as measured.
func TestRecordShowsWhetherMemoryIsMeasured(t *testing.T) {
	for _, assumed := range []bool{false, true} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("f", annotate("true"))
			env.gpu.hold = func(name string, need gpu.MemoryRequest) {
				env.gpu.report(gpu.MemoryReport{Container: name, Assumed: assumed, Usage: gpu.Usage{Allocated: need.Bytes, Resident: need.Bytes}})
			}
			source := map[bool]string{true: "assumed", false: "measured"}
			_, stop := env.start(env.gpuSettings(1))
			for range 2 {
				id := env.invokeAndWait("f", time.Second)
				n := gpuAnnotation(t, env.record(id))
				check.That(t, n.MemoryMeasured != assumed, "assumed %t: %+v", assumed, n)
			}
			for source, want := range map[string]bool{source[assumed]: true, source[!assumed]: false} {
				series := `gpuwhisk_gpu_resident_bytes{action="guest/f",namespace="guest",source="` + source + `"} 0`
				zero := slices.Contains(env.series(), series)
				check.That(t, zero != want, "assumed %t: %s is zero %t, want %t", assumed, source, zero, !want)
			}
			stop()
		})
	}
}

// aSecond has each run take a second, one at a time.
func (env *fixture) aSecond() Settings {
	env.lasting(time.Second)
	s := env.gpuSettings(1)
	s.GPU.Tokens.Max = 1
	return s
}

// TestPausedFunctionIsReported: a function that fails in each run pauses, the status
// says so and why, and the end of the pause is seen without an event.
func TestPausedFunctionIsReported(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("gpu", annotate("true"))
		s := env.aSecond()
		env.setRun(func(int, []byte) proxy.Exchange {
			return proxy.Exchange{Failure: proxy.NoResponse, Err: errors.New("connection reset"), Sent: true}
		})
		iv, stop := env.start(s)
		const n = 5
		for range n {
			env.invoke("gpu", nil)
		}
		time.Sleep(8 * time.Second)
		st := env.status(iv)
		check.Equal(check.Must(t), len(st.Flows), 1)
		f := st.Flows[0]
		check.That(check.Must(t), f.Paused, "after failures in a row: %+v", f)
		check.Contains(t, f.Why, "backs off", "after failures in a row")
		time.Sleep(time.Hour)
		st = env.status(iv)
		for _, f := range st.Flows {
			check.That(t, !f.Paused, "an hour later: %+v", f)
			check.AtMost(t, f.Queued, 0, "an hour later")
		}
		stop()
		env.judge(0, n)
	})
}
