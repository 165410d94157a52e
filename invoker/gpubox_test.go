package invoker

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// TestContainerTakesSeveralRuns: as many at once as the annotation says, and
// never more than the action's limit; each holds a token, and the proxy and the logs know.
func TestContainerTakesSeveralRuns(t *testing.T) {
	for _, c := range []struct {
		note  string
		limit int
		width int
	}{
		{"true", 1, 1}, {"true", 3, 3}, {`{"concurrency":2}`, 3, 2}, {`{"concurrency":1}`, 3, 1}, {`{"concurrency":2}`, 1, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.action("f", func(a *activation.Action) {
				annotate(c.note)(a)
				a.Limits.Concurrency = c.limit
			})
			s := w.gpuSettings(1)
			s.Bounds.Concurrency.Max = 3
			s.GPU.Tokens = 4
			var at, most atomic.Int32
			w.run = func(int, []byte) proxy.Exchange {
				most.Store(max(most.Load(), at.Add(1)))
				time.Sleep(time.Second)
				at.Add(-1)
				return answer(200, `{}`)
			}
			iv, stop := w.start(s)
			w.invoke("f", nil)
			time.Sleep(time.Minute) // now it is warm
			var ids []activation.ID
			for range c.width + 1 {
				ids = append(ids, w.invoke("f", nil))
			}
			time.Sleep(500 * time.Millisecond)
			st := w.status(iv)
			if st.Devices[0].InFlight != c.width+1 || w.made != 2 || int(most.Load()) != c.width+1 {
				t.Errorf("%+v: %d tokens, %d containers, %d runs at once", c, st.Devices[0].InFlight, w.made, most.Load())
			}
			active := []int{st.Containers[0].Active, st.Containers[1].Active}
			if slices.Sort(active); !slices.Equal(active, []int{1, c.width}) {
				t.Errorf("%+v: %v active", c, active)
			}
			time.Sleep(time.Minute)
			stop()
			var starts []string
			for _, id := range ids {
				starts = append(starts, gpuNote(t, w.record(id)).Start)
			}
			want := append([]string{"busy-cold"}, slices.Repeat([]string{"gpu-warm"}, c.width)...)
			if slices.Sort(starts); !slices.Equal(starts, want) {
				t.Errorf("%+v: starts %v", c, starts)
			}
			if w.dialled[0] != c.width || w.asked[0].Alone != (c.width == 1) {
				t.Errorf("%+v: dialled for %d, logs %+v", c, w.dialled[0], w.asked[0])
			}
		})
	}
}

// TestSharedContainerFails: every run in it completes, nobody new comes, and
// it goes once, when the last has left.
func TestSharedContainerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("f", func(a *activation.Action) {
			annotate(`{"concurrency":3}`)(a)
			a.Limits.Concurrency = 3
		})
		s := w.gpuSettings(1)
		s.Bounds.Concurrency.Max = 3
		s.GPU.Tokens = 4
		w.run = func(n int, _ []byte) proxy.Exchange {
			time.Sleep(time.Duration(n) * time.Second)
			if n == 2 {
				return proxy.Exchange{Failure: proxy.NoResponse}
			}
			return answer(200, `{}`)
		}
		_, stop := w.start(s)
		w.invoke("f", nil)
		time.Sleep(time.Minute)
		for range 3 { // the second run of the container, the third, the fourth
			w.invoke("f", nil)
		}
		time.Sleep(2500 * time.Millisecond) // the second has failed
		if w.removed != 0 {
			t.Error("a container was removed while two runs were in it")
		}
		last := w.invoke("f", nil)
		time.Sleep(time.Minute)
		if n := gpuNote(t, w.record(last)); n.Start != "busy-cold" || w.made != 2 || w.removed != 1 {
			t.Errorf("%+v in %d containers, %d removed", n, w.made, w.removed)
		}
		stop()
		w.judge(0, 5)
	})
}

// TestShimOffIsChargedAsReserved: memory that is not seen cannot be moved, so
// it is on the books as long as its container lives.
func TestShimOffIsChargedAsReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("f", annotate(`{"memory":"10 GB","shim":"off"}`))
		w.large("g")
		w.gpu.hold = func(name string, need gpu.Need) {
			if need.Bytes > 0 {
				w.gpu.holds(name, need.Bytes, need.Bytes, need.Context)
			}
		}
		iv, stop := w.start(w.gpuSettings(1))
		one := w.invoke("f", nil)
		time.Sleep(time.Minute)
		if d := w.status(iv).Devices[0]; d.Used != 10<<30+400<<20 || d.Resident != 0 {
			t.Errorf("after the run: %+v", d)
		}
		if n := gpuNote(t, w.record(one)); n.Memory != 10<<30 {
			t.Errorf("%+v", n)
		}
		// Somebody else finds that it is more.
		name := w.created[0].Name
		w.gpu.hear(gpu.Held{Container: name, PID: 5, Usage: gpu.Usage{Allocated: 12 << 30, Resident: 12 << 30, Context: 400 << 20}})
		two := w.invoke("f", nil)
		time.Sleep(time.Minute)
		if d := w.status(iv).Devices[0]; d.Used != 12<<30+400<<20 {
			t.Errorf("after more was found: %+v", d)
		}
		if n := gpuNote(t, w.record(two)); n.Memory != 12<<30 || n.Start != "gpu-warm" {
			t.Errorf("%+v", n)
		}
		three := w.invoke("g", nil)
		time.Sleep(time.Minute)
		stop()
		if w.record(three) == nil || len(w.gpu.orders()) != 0 || w.removed != 1 {
			t.Errorf("record %+v, orders %v, %d removed", w.record(three), w.gpu.orders(), w.removed)
		}
		if want := []string{activation.ShimOff, activation.ShimManaged}; !slices.Equal(w.gpu.shims, want) {
			t.Errorf("prepared for %v, want %v", w.gpu.shims, want)
		}
	})
}

// TestFootprintIsMeasured: the annotation's memory counts for the first run.
// Then what was measured does, for new containers as well.
func TestFootprintIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("f", annotate(`{"memory":"12 GB"}`))
		w.gpu.hold = func(name string, _ gpu.Need) { w.gpu.holds(name, 2<<30, 2<<30, 0) }
		iv, stop := w.start(w.gpuSettings(1))
		w.invoke("f", nil)
		time.Sleep(time.Minute)
		w.setRun(func(int, []byte) proxy.Exchange { time.Sleep(time.Second); return answer(200, `{}`) })
		one, two := w.invoke("f", nil), w.invoke("f", nil)
		time.Sleep(500 * time.Millisecond)
		if d := w.status(iv).Devices[0]; d.InFlight != 2 || d.Used != 2*(2<<30+400<<20) {
			t.Errorf("two runs: %+v", d)
		}
		time.Sleep(time.Minute)
		stop()
		for _, id := range []activation.ID{one, two} {
			if n := gpuNote(t, w.record(id)); n.Memory != 2<<30 {
				t.Errorf("%+v", n)
			}
		}
	})
}

// TestGreedyContainerIsServedWithTheDevice: who claims to hold more than there
// is gets all there is, and no more; others are served after it.
func TestGreedyContainerIsServedWithTheDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("liar", annotate("true"))
		w.action("f", annotate("true"))
		w.gpu.hold = func(name string, need gpu.Need) {
			if strings.Contains(name, "liar") {
				for pid := range 40 {
					w.gpu.hear(gpu.Held{Container: name, PID: pid, Usage: gpu.Usage{Allocated: 1 << 60, Resident: 1 << 60, Context: 1 << 60}})
				}
				return
			}
			w.gpu.holds(name, need.Bytes, need.Bytes, 0)
		}
		_, stop := w.start(w.gpuSettings(1))
		var ids []activation.ID
		for range 3 {
			ids = append(ids, w.invoke("liar", nil), w.invoke("f", nil))
			time.Sleep(10 * time.Minute)
		}
		stop()
		for _, id := range ids {
			if rec := w.record(id); rec == nil || rec.Response.StatusCode != 0 {
				t.Errorf("record %+v", rec)
			}
		}
	})
}

// TestForgottenFlowsLeaveNoSeries: an invoker sees very many functions in its
// life, and keeps the figures of those that it has something of.
func TestForgottenFlowsLeaveNoSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.large("f", "g")
		iv, stop := w.start(w.gpuSettings(1))
		for range 2 {
			w.invoke("f", nil)
			time.Sleep(time.Second)
			w.invoke("g", nil)
			time.Sleep(time.Second)
		}
		iv.Observe([]gpu.Reading{{Utilization: 0.5, Used: 1}})
		time.Sleep(time.Second)
		for _, want := range []string{
			`gpuwhisk_gpu_moved_bytes_total{action="guest/f",direction="evict",namespace="guest"} 2.147483648e+10`,
			`gpuwhisk_gpu_moved_bytes_total{action="guest/f",direction="prefetch",namespace="guest"} 1.073741824e+10`,
			`gpuwhisk_gpu_resident_bytes{action="guest/f",namespace="guest",source="measured"} 0`,
			`gpuwhisk_gpu_resident_bytes{action="guest/g",namespace="guest",source="measured"} 1.073741824e+10`,
			`gpuwhisk_gpu_seconds_total{action="guest/g",namespace="guest"} 0`,
			`gpuwhisk_gpu_utilization{UUID="",gpu="0",modelName="test (simulated)"} 0.5`,
		} {
			if got := w.series(); !slices.Contains(got, want) {
				t.Errorf("no %s in %v", want, got)
			}
		}
		time.Sleep(10 * time.Hour)
		iv.DeviceLost(0, "x")
		time.Sleep(time.Second)
		stop()
		want := []string{`gpuwhisk_gpu_lost{UUID="",gpu="0",modelName="test (simulated)"} 1`, `gpuwhisk_gpu_utilization{UUID="",gpu="0",modelName="test (simulated)"} 0.5`}
		if got := w.series(); !slices.Equal(got, want) {
			t.Errorf("after all are forgotten: %v", got)
		}
	})
}

// series lists the GPU figures that have labels of flows or devices.
func (w *world) series() (out []string) {
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			text := fmt.Sprintf("%s{%s} %v", f.GetName(), strings.Join(labels, ","), m.GetCounter().GetValue()+m.GetGauge().GetValue())
			if strings.Contains(text, "action=") || strings.Contains(text, "modelName=") {
				out = append(out, text)
			}
		}
	}
	return out
}
