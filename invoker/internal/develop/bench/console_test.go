package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/gauge"
)

// The workload of the console's benchmark: calls of every flow wait, so every flow
// changes.
const (
	consoleFlows   = 1000
	consoleDevices = 16
	consoleQueued  = 4 // of each flow, at a time
	consolePairs   = 8
	consoleRest    = 1200 * time.Millisecond // a page that opens receives all once
	consoleRound   = 2 * time.Second
)

// BenchmarkConsole measures the cost of an open console to an invoker in its own
// process, with 1,000 flows on 16 devices. Calls of every flow wait.
//
// The console is closed and open in turns under the same load. Each turn measures the
// processor time and the number of answered calls. An open console slows the load down,
// because the load waits for its answers. An open turn is therefore compared with the
// cost of the same number of calls in a closed turn. The benchmark reports the median
// of the pairs, and the second lowest and second highest pair, between which the true
// median lies in 93 of 100 runs. Goal: at most 10 ms of a core per second, which is 1 %.
func BenchmarkConsole(b *testing.B) {
	for b.Loop() {
		r := newController(b)
		p := r.gpuProcess(0, "CONFIG_whisk_gpu_simulated_devices="+fmt.Sprint(consoleDevices), "CONFIG_whisk_gpu_simulated_memory=80 g",
			"CONFIG_whisk_gpu_tokens=4", "CONFIG_whisk_containerPool_userMemory=1024g", "CONFIG_whisk_gpu_defaultMemory=256 m",
			"CONFIG_whisk_gpu_poolSize=200", "CONFIG_whisk_gpu_policy=mqfq-sticky", "CONFIG_whisk_gpu_overrun=1 second", "CONFIG_whisk_gpu_backlogSize=1g")
		answered, stop := r.busy("invoker0", consoleFlows, consoleQueued)
		// Every flow has run once before anything is measured.
		peertest.UntilWithin(b, time.Hour, "flows have run", func() string {
			n := strings.Count(string(p.admin.Do(b, http.MethodGet, "/metrics")), "gpuwhisk_gpu_seconds_total{")
			if n != consoleFlows {
				return fmt.Sprint(n)
			}
			return ""
		})
		var closed, console []float64 // ms of CPU a second
		sent := int64(0)
		for range consolePairs {
			p.over(consoleRest, answered)
			alone := p.over(consoleRound, answered)
			ctx, end := context.WithCancel(b.Context())
			watched := p.watch(ctx)
			p.over(consoleRest, answered)
			open := p.over(consoleRound, answered)
			end()
			sent += <-watched
			closed = append(closed, alone.cpu*1e3)
			console = append(console, (open.cpu-alone.cpu*open.calls/alone.calls)*1e3)
		}
		slices.Sort(closed)
		slices.Sort(console)
		b.ReportMetric(closed[consolePairs/2], "closed-ms/s")
		b.ReportMetric(console[1], "console-low-ms/s")
		b.ReportMetric((console[consolePairs/2-1]+console[consolePairs/2])/2, "console-ms/s")
		b.ReportMetric(console[consolePairs-2], "console-high-ms/s")
		b.ReportMetric(float64(sent)/1e3/(consolePairs*(consoleRest+consoleRound)).Seconds(), "console-KB/s")
		stop()
	}
}

// busy keeps n calls of each of so many functions in an invoker, and counts the
// answers.
func (r *controller) busy(topic string, functions, n int) (answered *atomic.Int64, stop func()) {
	answered = new(atomic.Int64)
	ended := make(chan struct{})
	for i := range functions {
		for range n {
			go func() {
				for {
					select {
					case <-ended:
						return
					default:
						r.invoke(topic, fmt.Sprint(takes, i))
						answered.Add(1)
					}
				}
			}()
		}
	}
	return answered, func() { close(ended) }
}

// round holds a process's work per second of a turn.
type round struct{ cpu, calls float64 } // seconds of all cores, answers

// over measures the work of a process during a time.
func (p *invokerProcess) over(d time.Duration, answered *atomic.Int64) round {
	began, before, calls := time.Now(), gauge.CPU(p.b, p.PID), answered.Load()
	<-time.After(d)
	spent, calls, took := gauge.CPU(p.b, p.PID)-before, answered.Load()-calls, time.Since(began).Seconds()
	return round{spent.Seconds() / took, float64(calls) / took}
}

// watch has the console open until ctx ends, and reports how many bytes came.
func (p *invokerProcess) watch(ctx context.Context) <-chan int64 {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.admin.URL+"/console/events", nil)
	check.NoError(p.b, err)
	req.SetBasicAuth(p.admin.User, p.admin.Password)
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := http.DefaultTransport.RoundTrip(req)
	check.NoError(p.b, err)
	check.Equal(check.Must(p.b), res.StatusCode, http.StatusOK)
	out := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, res.Body)
		out <- n
		_ = res.Body.Close()
	}()
	return out
}
