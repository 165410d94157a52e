package assembly

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
)

// TestSchedulerModeGivesBackAtTheStop: fetched activations that wait for a GPU go back to
// their queue when the invoker stops, and the next invoker runs each of them once.
func TestSchedulerModeGivesBackAtTheStop(t *testing.T) {
	f := newScheduling(t, "CONFIG_whisk_gpu_simulated_devices=1")
	r := f.start()
	began, hold := make(chan struct{}, 10), make(chan struct{})
	f.engine.setRun(func() { began <- struct{}{}; <-hold })
	const gpu = `{"key":"gpu","value":true},{"key":"invoker-resources","value":["gpu"]}`
	var all []activation.ID
	functions := []fakescheduler.Function{f.function("a", "1-aa", "0.0.1", gpu, 256), f.function("b", "1-aa", "0.0.1", gpu, 256)}
	for range 2 {
		for _, of := range functions {
			all = append(all, f.invoke(of))
		}
	}
	<-began
	f.until("all are fetched", func() bool {
		for _, of := range functions {
			if q, ok := f.scheduler.Queue(of.Queue); !ok || q.Waiting > 0 {
				return false
			}
		}
		return true
	})
	r.stop()
	f.until("waiting activations are given back", func() bool {
		seen, _ := f.scheduler.Seen()
		return seen.Rescheduled > 0
	})
	close(hold)
	r.end(t)
	f.engine.setRun(nil)
	r = f.start()
	for _, id := range all {
		f.succeeded(id)
	}
	seen, _ := f.scheduler.Seen()
	check.Equal(t, seen.Lost, 0)
	check.Equal(t, len(seen.Failures), 0, "%+v", seen.Failures)
	r.end(t)
}

// TestSchedulerModeRunsSeveralInAContainer: a container runs as many activations at once as
// its action allows, and is not paused while one of them runs.
func TestSchedulerModeRunsSeveralInAContainer(t *testing.T) {
	// A scheduler whose counts are late may order more: there is memory for one.
	f := newScheduling(t, "CONFIG_whisk_concurrencyLimit_max=5", "CONFIG_whisk_containerPool_userMemory=256m")
	f.width = 5
	f.scheduler.SetLimit("guest", 1)
	r := f.start()
	of := f.function("wide", "1-aa", "0.0.1", "", 256)
	f.answered(f.invoke(of))
	began, hold, long := make(chan struct{}, 10), make(chan struct{}), make(chan struct{})
	f.engine.setRun(func() { began <- struct{}{}; <-hold })
	var all []activation.ID
	for range 5 {
		all = append(all, f.invoke(of))
	}
	for range all {
		<-began // all five overlap
	}
	close(hold)
	for _, id := range all {
		f.answered(id)
	}
	f.engine.setRun(func() { began <- struct{}{}; <-long })
	last := f.invoke(of)
	<-began
	f.engine.setRun(nil)
	before := f.engine.counts()
	f.answered(f.invoke(of))
	<-time.After(1500 * time.Millisecond) // thrice the pause grace
	check.Equal(t, f.engine.counts().paused, before.paused)
	check.Equal(t, f.engine.counts().made, 1)
	close(long)
	f.answered(last)
	r.end(t)
}
