package invoker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

func (w *world) gpuSettings(devices int) Settings {
	s := w.settings()
	cfg, _ := sched.Defaults("mqfq-sticky")
	s.GPU = GPUSettings{
		Policy: "mqfq-sticky", Sched: cfg, Tokens: 2, Pool: gpu.PoolConfig{Size: 32}, Prefetch: true,
		DefaultMem: 1 << 30, ContextMem: 400 << 20, Backlog: Backlog{1000, 1 << 20},
	}
	for i := range devices {
		s.GPU.Devices = append(s.GPU.Devices, gpu.Device{Index: i, Name: "test", MemoryBytes: 16 << 30, Simulated: true})
	}
	return s
}

func gpuNote(t *testing.T, r *activation.Record) (n struct {
	Device                  string
	Start                   string
	QueueTime, PrefetchTime int64
	GPUTime                 int64
	Memory                  int64
	Fallback                string
	MemoryMeasured          bool
}) {
	t.Helper()
	if r == nil {
		t.Fatal("no record")
	}
	v, ok := r.Annotations.Get("gpu")
	if !ok {
		t.Fatalf("record without gpu annotation: %+v", r)
	}
	if err := json.Unmarshal(v, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestGPURunsAreColdThenWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("f", annotate(`{"memory":"2 GB"}`))
		w.run = func(int, []byte) proxy.Exchange {
			began := time.Now()
			time.Sleep(100 * time.Millisecond)
			return proxy.Exchange{Status: 200, Body: []byte(`{}`), ContentLength: 2, Start: began, End: time.Now()}
		}
		_, stop := w.start(w.gpuSettings(1))
		one := w.invoke("f", nil)
		time.Sleep(time.Second)
		two := w.invoke("f", nil)
		time.Sleep(time.Second)
		stop()
		if n := gpuNote(t, w.record(one)); n.Start != "cold" || n.GPUTime != 100 || n.Memory != 2<<30 {
			t.Errorf("first run: %+v", n)
		}
		if n := gpuNote(t, w.record(two)); n.Start != "gpu-warm" {
			t.Errorf("second run: %+v", n)
		}
		if w.created[0].GPU == nil || !w.created[0].GPU.Simulated {
			t.Errorf("container spec %+v", w.created[0])
		}
	})
}

func TestGPUMemoryIsSwapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, name := range []string{"f", "g"} {
			w.action(name, annotate(`{"memory":"10 GB"}`))
		}
		_, stop := w.start(w.gpuSettings(1))
		w.invoke("f", nil)
		time.Sleep(time.Second)
		w.invoke("g", nil)
		time.Sleep(time.Second)
		id := w.invoke("f", nil)
		time.Sleep(time.Second)
		stop()
		if n := gpuNote(t, w.record(id)); n.Start != "host-warm" {
			t.Errorf("start %q, want host-warm after a swap; moves %v", n.Start, w.gpu.orders())
		}
	})
}

// TestContextsOfIdleContainersGiveWay: contexts stay on a device while their
// containers live, so a device full of them takes nothing new until idle
// containers are given up.
func TestContextsOfIdleContainersGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.gpuSettings(1)
		s.GPU.Devices[0].MemoryBytes = 900 << 20
		var ids []activation.ID
		_, stop := w.start(s)
		for i := range 5 {
			name := fmt.Sprint("f", i)
			w.action(name, annotate(`{"memory":"100 MB"}`))
			ids = append(ids, w.invoke(name, nil))
		}
		synctest.Wait()
		stop()
		for i, id := range ids {
			if rec := w.record(id); rec == nil || rec.Response.StatusCode != 0 {
				t.Errorf("function %d: record %+v", i, rec)
			}
		}
	})
}

func TestGPUActionTooLargeForTheDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("f", annotate(`{"memory":"64 GB"}`))
		s := w.gpuSettings(1)
		s.GPU.Devices[0].MemoryBytes = 16e9
		_, stop := w.start(s)
		id := w.invoke("f", nil)
		synctest.Wait()
		stop()
		rec := w.record(id)
		if rec == nil || rec.Response.StatusCode != 1 {
			t.Fatalf("record %+v", rec)
		}
		const want = "The action asks for 64 GB of GPU memory (annotation gpu, key memory); " +
			"the device has 15258 MB, of which the context of a container takes 400 MB."
		if !strings.Contains(string(rec.Response.Result), want) {
			t.Errorf("result %s, want %q in it", rec.Response.Result, want)
		}
	})
}

// TestDevicesOfSeveralSizes: an action goes where it fits, by what it asks for
// and by what it was seen to need, and waits for that device when it is away.
func TestDevicesOfSeveralSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("asks", annotate(`{"memory":"40 GB"}`))
		w.action("takes", annotate(`{"memory":"1 GB"}`))
		w.action("small", annotate(`{"memory":"1 GB"}`))
		w.gpu.hold = func(name string, need gpu.Need) {
			if strings.Contains(name, "takes") {
				need.Bytes = 40 << 30
			}
			w.gpu.holds(name, need.Bytes, min(need.Bytes, 8<<30), need.Context)
		}
		s := w.gpuSettings(2)
		s.GPU.Devices[0].MemoryBytes, s.GPU.Devices[1].MemoryBytes = 8<<30, 80<<30
		iv, stop := w.start(s)
		on := func(name, device string) {
			t.Helper()
			id := w.invoke(name, nil)
			time.Sleep(time.Minute)
			if n := gpuNote(t, w.record(id)); n.Device[:1] != device {
				t.Errorf("%s ran on %s", name, n.Device)
			}
		}
		on("asks", "1")
		on("asks", "1")
		iv.DeviceLost(1, "for now")
		on("takes", "0") // nobody knows better yet
		on("small", "0")
		id := w.invoke("takes", nil)
		time.Sleep(time.Minute)
		if w.record(id) != nil {
			t.Error("40 GB ran on 8")
		}
		iv.DeviceBack(1)
		time.Sleep(time.Second)
		stop()
		if n := gpuNote(t, w.record(id)); n.Device[:1] != "1" {
			t.Errorf("ran on %s", n.Device)
		}
	})
}
