package assembly_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// Functions stay on the host where they are warm. A function with more work than its host can
// do is served by all hosts.
func TestSchedulerModeSharesGPUHosts(t *testing.T) {
	f := newScheduling(t, "CONFIG_whisk_gpu_simulated_devices=1")
	f.Scheduler.SetLimit("guest", 1000)
	var hosts []*harness.Running
	var engines []*proxies
	for id := range 3 {
		engines = append(engines, newProxies(t))
		hosts = append(hosts, f.Start(id, engines[id].into))
	}
	made := func() (all []int) {
		for _, e := range engines {
			all = append(all, e.counts().made)
		}
		return all
	}
	var ids []string
	for round := range 3 {
		for n := range 12 {
			ids = append(ids, f.invoke(f.function(fmt.Sprint("f", n), 256, "gpu")))
		}
		for _, id := range ids[len(ids)-12:] {
			f.AwaitSlot(id)
		}
		f.until("a warmed key of each function", func() bool {
			functions := map[string]bool{}
			for _, key := range f.keys("warmed/") {
				name, _, _ := strings.Cut(key, "/invoker/")
				functions[name] = true
			}
			return len(functions) == 12 && len(f.keys("namespace/")) == 0
		})
		// A scheduler whose counts are late orders a function twice: it has two keys then.
		keys := len(f.keys("warmed/"))
		all := made()
		sum := all[0] + all[1] + all[2]
		check.AtLeast(check.Must(t), sum, 12, "round %d: containers of the hosts %v", round, all)
		check.AtMost(check.Must(t), sum, keys, "round %d: containers of the hosts %v, keys of 12 functions", round, all)
		check.Less(check.Must(t), slices.Max(all), 12, "round %d: containers of the hosts %v", round, all)
	}
	hold, before := make(chan struct{}), made()
	for _, e := range engines {
		e.setRun(func() { <-hold })
	}
	slow := f.function("slow", 256, "gpu")
	for range 12 {
		ids = append(ids, f.invoke(slow))
	}
	f.until("it runs on all hosts", func() bool {
		all := made()
		return all[0] > before[0] && all[1] > before[1] && all[2] > before[2]
	})
	close(hold)
	for _, id := range ids[len(ids)-12:] {
		f.AwaitSlot(id)
	}
	for _, id := range ids {
		f.recorded(id)
	}
	f.wantNothingLost()
	for _, h := range hosts {
		h.End()
	}
}
