package assembly_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// The whole life of a container: cold, warm, paused, resumed, with its keys.
func TestSchedulerModeFromColdToResumed(t *testing.T) {
	f := newScheduling(t, "CONFIG_whisk_containerPool_userMemory=256m") // for one, whatever is ordered
	r := f.start()
	hello := f.function("hello", 256)
	first := f.invoke(hello)
	f.succeeded(first)
	existing := f.keys("namespace/guest/guest/hello/" + f.Revisions["hello"] + "/invoker0/container/")
	if len(existing) != 1 {
		t.Fatalf("keys %v", existing)
	}
	f.AwaitSlot(f.invoke(hello))
	check.Equal(t, f.engine.counts().made, 1, "after a warm call")
	f.until("a warmed key", func() bool {
		return len(f.keys("warmed/guest/guest/hello/"+f.Revisions["hello"]+"/invoker/0/container/")) == 1 && len(f.keys("namespace/")) == 0
	})
	f.AwaitSlot(f.invoke(hello))
	check.Equal(t, f.engine.counts().made, 1)
	check.Equal(t, f.engine.counts().resumed, 1)
	f.until("the warmed key is gone", func() bool { return len(f.keys("warmed/")) == 0 })
	f.until("an ack of each creation", func() bool {
		seen, _ := f.Scheduler.Seen()
		return len(seen.Acks) == len(seen.Creations)
	})
	f.wantNothingLost()
	r.End()
	if keys := f.keys("invokers/"); len(keys) != 0 {
		t.Errorf("after the end: %v", keys)
	}
}

// A scheduler orders nothing from an invoker without free memory. The memory of containers
// without work counts as free long before they are paused, and these containers make way.
func TestSchedulerModeIdleContainersMakeWay(t *testing.T) {
	f := newScheduling(t, "CONFIG_whisk_containerProxy_timeouts_pauseGrace=1 hour", "CONFIG_whisk_containerPool_userMemory=512 m")
	r := f.start()
	for n := range 5 {
		f.AwaitSlot(f.invoke(f.function(fmt.Sprint("f", n), 256)))
	}
	check.Equal(t, f.engine.counts(), counts{made: 5, removed: 3})
	r.End()
}

func TestSchedulerModeManyAtOnce(t *testing.T) {
	f := newScheduling(t)
	f.Scheduler.SetLimit("guest", 5)
	r := f.start()
	f.engine.setRun(func() { <-time.After(20 * time.Millisecond) })
	hello := f.function("hello", 256)
	var all []string
	for range 60 {
		all = append(all, f.invoke(hello))
	}
	for _, id := range all {
		f.AwaitSlot(id)
	}
	f.until("everything is paused", func() bool { return len(f.keys("namespace/")) == 0 })
	again := f.invoke(hello) // the keys are gone: a new container is ordered
	f.AwaitSlot(again)
	for _, id := range append(all, again) {
		f.recorded(id)
	}
	seen, _ := f.Scheduler.Seen()
	// On a busy machine a scheduler orders more than its limit, because it counts its orders
	// late. The invoker's memory bounds the number.
	check.AtMost(t, seen.MostContainers, 8)
	check.Equal(t, seen.Lost, 0)
	check.Equal(t, seen.Unparsed, 0)
	r.End()
}

func TestSchedulerModeRefusals(t *testing.T) {
	f := newScheduling(t, "METRICS_KAMON=true", "CONFIG_whisk_memory_max=2048 m")
	r := f.start()
	f.engine.create = func(container.Spec) error {
		return &container.CreateError{Blame: container.BlameDeveloper, Message: "Failed to pull container image 'x'."}
	}
	f.invoke(f.function("hello", 256))
	has := func(what activation.CreationError) func(fakescheduler.Ack) bool {
		return func(a fakescheduler.Ack) bool { return a.Error == what }
	}
	f.until("the ack of an image that is not there", func() bool {
		seen, _ := f.Scheduler.Seen()
		return slices.ContainsFunc(seen.Acks, has(activation.BlackboxFailed)) && len(seen.Failures) == 1
	})
	seen, _ := f.Scheduler.Seen()
	if !strings.Contains(seen.Failures[0].Reason, "Failed to pull container image") {
		t.Errorf("failure %+v", seen.Failures[0])
	}
	f.engine.mu.Lock()
	f.engine.create = nil
	f.engine.mu.Unlock()
	// All of the memory is in use: the next one is refused, and served when there is some.
	hold := make(chan struct{})
	f.engine.setRun(func() { <-hold })
	big := f.invoke(f.function("big", 1792))
	f.until("big has its container", func() bool { return len(f.keys("namespace/guest/guest/big/")) == 1 })
	other := f.function("other", 256)
	one := f.invoke(other)
	f.until("the memory is all in use", func() bool { return len(f.keys("namespace/guest/guest/other/")) == 1 })
	close(hold)
	f.AwaitSlot(big)
	f.AwaitSlot(one)
	if seen, _ := f.Scheduler.Seen(); seen.Unparsed != 0 {
		t.Errorf("unparsed %d", seen.Unparsed)
	}
	f.wantMetrics(r, `gpuwhisk_scheduler_creations_total{class="failed",outcome="BlackBoxError"} `,
		`counter_invoker_creation_counter_total{error="BlackBoxError",state="failed"} `, "gpuwhisk_scheduler_pulled_total 2",
		"histogram_invoker_containerPoolMemory_max_counter_count ", "counter_scheduler_keepAlive_counter_total{leaseId=")
	r.End()
}

// wantMetrics holds that metrics are there, the original's too.
func (f *scheduling) wantMetrics(r *harness.Running, want ...string) {
	f.T.Helper()
	got := string(r.Admin.Do(f.T, http.MethodGet, "/metrics"))
	for _, w := range want {
		if !strings.Contains(got, "\n"+w) {
			f.T.Errorf("/metrics has no %s", w)
		}
	}
	if f.T.Failed() {
		f.T.Log(got)
	}
}

func TestSchedulerModeDisableAndEnable(t *testing.T) {
	f := newScheduling(t)
	r := f.start()
	hello := f.function("hello", 256)
	f.AwaitSlot(f.invoke(hello))
	f.post(r, "/disable", "invoker0 is now disabled.")
	f.until("down, without a container", func() bool {
		return f.status() == activation.Down && len(f.keys("namespace/"))+len(f.keys("warmed/")) == 0
	})
	if got := string(r.Admin.Do(t, http.MethodGet, "/pool/count")); got != "0" {
		t.Errorf("/pool/count is %q", got)
	}
	f.post(r, "/enable", "invoker0 is now enabled.")
	f.until("up", func() bool { return f.status() == activation.Up })
	f.AwaitSlot(f.invoke(hello))
	r.End()
}

func (f *scheduling) post(r *harness.Running, path, want string) {
	f.T.Helper()
	if got := string(r.Admin.Do(f.T, http.MethodPost, path)); got != want {
		f.T.Errorf("%s: %q, want %q", path, got, want)
	}
}

// An update retires the queue of the old revision. Its containers leave the queue at once, as
// in the original, and the queue's remaining activations are given up after they have waited
// too long.
func TestSchedulerModeUpdateUnderLoad(t *testing.T) {
	f := newSchedulingOf(t, func(c *fakescheduler.Config) {
		harness.Patient(c)
		c.Queue.Drop, c.Queue.Retention = 100*time.Millisecond, 5*time.Second
	})
	f.Scheduler.SetLimit("guest", 4)
	r := f.start()
	f.engine.setRun(func() { <-time.After(10 * time.Millisecond) })
	var all []string
	old := f.function("hello", 256)
	for range 10 {
		all = append(all, f.invoke(old))
	}
	f.AwaitSlot(all[0])
	oldRevision := f.Revisions["hello"]
	f.version = "0.0.2"
	newer := f.function("hello", 256)
	check.NoError(t, f.Scheduler.Update(f.Function(newer)))
	for range 10 {
		all = append(all, f.invoke(newer))
	}
	for _, id := range all[1:] {
		f.AwaitSlot(id)
	}
	f.until("the old containers are gone", func() bool {
		return len(f.keys("namespace/guest/guest/hello/"+oldRevision+"/"))+len(f.keys("warmed/guest/guest/hello/"+oldRevision+"/")) == 0
	})
	if seen, _ := f.Scheduler.Seen(); seen.Lost != 0 {
		t.Errorf("lost %d", seen.Lost)
	}
	r.End()
}

// The creation of a GPU function opens a slot for pulling, not a container. Pulled activations
// wait in the GPU queue, and the scheduler's limit is not reached.
func TestSchedulerModePullsForGPUs(t *testing.T) {
	f := newScheduling(t, "CONFIG_whisk_gpu_simulated_devices=1")
	r := f.start()
	if h, _ := f.Health(0); !slices.Equal(h.Tags, []string{"gpu"}) {
		t.Errorf("tags %q", h.Tags)
	}
	f.engine.setRun(func() { <-time.After(5 * time.Millisecond) })
	onGPU := f.function("gpu", 256, "gpu")
	var all []string
	for range 40 {
		all = append(all, f.invoke(onGPU))
	}
	for _, id := range all {
		f.succeeded(id)
	}
	seen, _ := f.Scheduler.Seen()
	check.AtMost(t, seen.MostContainers, 3)
	f.wantNothingLost()
	f.until("its slots end", func() bool { return len(f.keys("namespace/")) == 0 })
	r.End()
}

// Without a lease the keys are gone; they come back by themselves, and no call is lost.
func TestSchedulerModeOutlivesItsLease(t *testing.T) {
	f := newScheduling(t, "CONFIG_whisk_containerProxy_timeouts_pauseGrace=1 minute")
	r := f.start()
	hello := f.function("hello", 256)
	f.AwaitSlot(f.invoke(hello))
	before := f.keys("namespace/")
	_, old := f.Health(0)
	if _, err := f.Keys.Revoke(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	f.until("the keys are back on another lease", func() bool {
		_, lease := f.Health(0)
		return lease != 0 && lease != old && slices.Equal(f.keys("namespace/"), before)
	})
	f.AwaitSlot(f.invoke(hello))
	check.Equal(t, f.engine.counts().made, 1)
	f.wantMetrics(r, "gpuwhisk_etcd_leases_regained_total 1", "gpuwhisk_scheduler_waiting_creations 0")
	r.End()
}

// Calls of several functions, while their containers are paused, evicted and drained
// all the time: each has one record, and no scheduler is left a container that does
// not exist.
func TestSchedulerModeLosesNothing(t *testing.T) {
	f := newScheduling(t, "CONFIG_whisk_containerProxy_timeouts_pauseGrace=20 milliseconds", "CONFIG_whisk_containerPool_userMemory=1024 m")
	r := f.start()
	f.engine.setRun(func() { <-time.After(time.Millisecond) })
	var functions []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		functions = append(functions, f.function(name, 256))
	}
	var all []string
	for i := range 1000 {
		all = append(all, f.invoke(functions[(i*i)%len(functions)]))
		switch {
		case i%100 == 60:
			f.post(r, "/disable", "invoker0 is now disabled.")
		case i%100 == 65:
			f.post(r, "/enable", "invoker0 is now enabled.")
		case i%5 == 0:
			<-time.After(20 * time.Millisecond)
		}
	}
	for _, id := range all {
		f.AwaitSlot(id)
	}
	for _, of := range functions {
		f.AwaitSlot(f.invoke(of))
	}
	f.wantNothingLost()
	for _, id := range all {
		f.recorded(id)
	}
	f.until("an ack of each creation", func() bool {
		seen, _ := f.Scheduler.Seen()
		return len(seen.Acks) == len(seen.Creations)
	})
	r.End()
}

// The limits of a namespace are read once, and an action that exceeds them is answered
// in their words.
func TestSchedulerModeLimitsOfTheNamespace(t *testing.T) {
	f := newScheduling(t)
	f.DB.Store(t, harness.Names.Subjects, "guest/limits", []byte(`{"maxActionMemory":256}`))
	r := f.start()
	id := f.invoke(f.function("large", 384))
	a := f.ack(id)
	check.That(check.Must(t), a.Record != nil, "ack %+v", a)
	check.Equal(t, a.Record.Response.StatusCode, activation.StatusDeveloperError)
	check.Contains(t, string(a.Record.Response.Result), "memory size 384 MB exceeds allowed threshold of 256 MB")
	f.AwaitSlot(f.invoke(f.function("small", 256)))
	seen, _ := f.Scheduler.Seen()
	if seen.Unparsed != 0 {
		t.Errorf("unparsed %d", seen.Unparsed)
	}
	r.End()
}
