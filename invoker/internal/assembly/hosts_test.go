package assembly

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

const gpuFunction = `{"key":"gpu","value":true},{"key":"invoker-resources","value":["gpu"]},{"key":"rerun","value":true}`

// host is one of several invokers with a simulated GPU each.
type host struct {
	running
	engine *proxies
}

// startHost starts an invoker with an id of its own, until it is up.
func (f *scheduling) startHost(id string) host {
	f.Helper()
	environ := append(f.environ, "CONFIG_whisk_gpu_state="+f.TempDir())
	cfg, err := config.Load(config.Input{Environ: environ, Args: []string{"--id", id}})
	check.NoError(f, err)
	h := host{engine: &proxies{t: f, all: map[container.ID]*proxied{}, died: make(chan container.ID)}}
	h.running = start(f.T, environ, func(o *Options) { o.Config, o.Engine = cfg, h.engine })
	f.until("invoker "+id+" is up", func() bool {
		select {
		case err := <-h.ended:
			f.Fatalf("invoker %s ended: %v", id, err)
		default:
		}
		return len(f.keys("invokers/"+id)) == 1
	})
	return h
}

// Functions stay on the host where they are warm. A function with more work than its host can
// do is served by all hosts.
func TestSchedulerModeSharesGPUHosts(t *testing.T) {
	f := newScheduling(t, "CONFIG_whisk_gpu_simulated_devices=1")
	f.scheduler.SetLimit("guest", 1000)
	var hosts []host
	for _, id := range []string{"0", "1", "2"} {
		hosts = append(hosts, f.startHost(id))
	}
	made := func() (all []int) {
		for _, h := range hosts {
			all = append(all, h.engine.counts().made)
		}
		return all
	}
	var ids []activation.ID
	for round := range 3 {
		for n := range 12 {
			ids = append(ids, f.invoke(f.function(fmt.Sprint("f", n), "1-aa", "0.0.1", gpuFunction, 256)))
		}
		for _, id := range ids[len(ids)-12:] {
			f.answered(id)
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
	for _, h := range hosts {
		h.engine.setRun(func() { <-hold })
	}
	slow := f.function("slow", "1-aa", "0.0.1", gpuFunction, 256)
	for range 12 {
		ids = append(ids, f.invoke(slow))
	}
	f.until("it runs on all hosts", func() bool {
		all := made()
		return all[0] > before[0] && all[1] > before[1] && all[2] > before[2]
	})
	close(hold)
	for _, id := range ids[len(ids)-12:] {
		f.answered(id)
	}
	for _, id := range ids {
		f.recorded(id)
	}
	f.wantNothingLost()
	for _, h := range hosts {
		h.end(t)
	}
}

// Activations that a GPU host has not pulled go to another host. Activations that it has
// pulled are still there after the host is killed and restarted.
func TestSchedulerModeKillsAGPUHost(t *testing.T) {
	f := newScheduling(t, "CONFIG_whisk_gpu_simulated_devices=1")
	killed := f.startVictim()
	of := f.function("slow", "1-aa", "0.0.1", gpuFunction, 256)
	var all []activation.ID
	for range 6 {
		all = append(all, f.invoke(of))
	}
	killed.awaitRuns(2)
	other := f.startHost("1")
	answered := map[activation.ID]bool{}
	for len(answered) < 2 { // the first one pulls three before a run has ended
		select {
		case a := <-f.acks:
			answered[a.ActivationID] = true
		case <-time.After(peertest.WaitLimit):
			seen, _ := f.scheduler.Seen()
			t.Fatalf("%d are answered; the scheduler saw %+v", len(answered), seen)
		}
	}
	killed.kill()
	first := f.start()
	for _, id := range all {
		if !answered[id] {
			f.answered(id)
		}
		if rec := f.recorded(id); rec.Response.StatusCode != activation.StatusSuccess {
			t.Errorf("record %+v", rec.Response)
		}
	}
	first.end(t)
	other.end(t)
}
