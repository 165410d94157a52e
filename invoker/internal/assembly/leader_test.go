package assembly_test

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
)

// TestSchedulerModeFollowsTheLeader: a scheduler's death costs no container.
func TestSchedulerModeFollowsTheLeader(t *testing.T) {
	f := newScheduling(t, "CONFIG_whisk_containerProxy_timeouts_pauseGrace=1 minute")
	r := f.start()
	f.Scheduler.Kill()
	f.Config.ID, f.Config.Lease = "1", time.Second
	var err error
	if f.Scheduler, err = fakescheduler.New(f.Config); err != nil {
		t.Fatal(err)
	}
	hello := f.function("hello", 256)
	f.AwaitSlot(f.invoke(hello))
	before := f.keys("namespace/")
	f.Scheduler.Kill()
	f.until("the leader's key is gone", func() bool { return len(f.keys("queue/")) == 0 })
	f.Config.ID = "2"
	if f.Scheduler, err = fakescheduler.New(f.Config); err != nil {
		t.Fatal(err)
	}
	f.AwaitSlot(f.invoke(hello))
	// The new scheduler may order one more container before it hears of the existing one.
	check.Equal(t, f.engine.counts().removed, 0)
	after := f.keys("namespace/")
	for _, key := range before {
		check.Includes(t, after, key)
	}
	r.End()
}
