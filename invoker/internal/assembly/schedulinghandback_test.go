package assembly_test

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestSchedulerModeRunsSeveralInAContainer: a container runs as many activations at once as
// its action allows, and is not paused while one of them runs.
func TestSchedulerModeRunsSeveralInAContainer(t *testing.T) {
	// A scheduler whose counts are late may order more: there is memory for one.
	f := newScheduling(t, "CONFIG_whisk_concurrencyLimit_max=5", "CONFIG_whisk_containerPool_userMemory=256m")
	f.width = 5
	f.Scheduler.SetLimit("guest", 1)
	r := f.start()
	of := f.function("wide", 256)
	f.AwaitSlot(f.invoke(of))
	began, hold, long := make(chan struct{}, 10), make(chan struct{}), make(chan struct{})
	f.engine.setRun(func() { began <- struct{}{}; <-hold })
	var all []string
	for range 5 {
		all = append(all, f.invoke(of))
	}
	for range all {
		<-began // all five overlap
	}
	close(hold)
	for _, id := range all {
		f.AwaitSlot(id)
	}
	f.engine.setRun(func() { began <- struct{}{}; <-long })
	last := f.invoke(of)
	<-began
	f.engine.setRun(nil)
	before := f.engine.counts()
	f.AwaitSlot(f.invoke(of))
	<-time.After(1500 * time.Millisecond) // thrice the pause grace
	check.Equal(t, f.engine.counts().paused, before.paused)
	check.Equal(t, f.engine.counts().made, 1)
	close(long)
	f.AwaitSlot(last)
	r.End()
}
