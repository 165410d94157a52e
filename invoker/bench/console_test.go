package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What the console is measured with: every flow has calls waiting, so that all
// of them move.
const (
	consoleFlows   = 1000
	consoleDevices = 16
	consoleQueued  = 4 // of each flow, at a time
	consoleTurns   = 12
	consoleRest    = 2 * time.Second // a page that opens hears all once
	consoleTurn    = 4 * time.Second
)

// BenchmarkConsole is what an open console costs an invoker, which is a process
// of its own with 1,000 flows on 16 devices, all of which have calls waiting. It
// takes turns between the console open and closed under the same load, and tells
// the median of what each pair of turns differs by, and the quartiles. Goal: 10 ms of a
// core in a second, which is 1 %.
func BenchmarkConsole(b *testing.B) {
	for b.Loop() {
		r := newRig(b)
		p := r.process("0", "CONFIG_whisk_gpu_simulated_devices="+fmt.Sprint(consoleDevices), "CONFIG_whisk_gpu_simulated_memory=80 g",
			"CONFIG_whisk_gpu_tokens=4", "CONFIG_whisk_containerPool_userMemory=1024g", "CONFIG_whisk_gpu_defaultMemory=256 m",
			"CONFIG_whisk_gpu_poolSize=200", "CONFIG_whisk_gpu_policy=mqfq-sticky", "CONFIG_whisk_gpu_overrun=1 second", "CONFIG_whisk_gpu_backlog=100000")
		stop := r.busy("invoker0", consoleFlows, consoleQueued)
		// Every flow has run once before anything is measured.
		r.await(func() bool {
			return strings.Count(string(p.ask("/metrics")), "gpuwhisk_gpu_seconds_total{") == consoleFlows
		})
		var closed, more []time.Duration
		sent := int64(0)
		for range consoleTurns {
			p.over(consoleRest)
			closed = append(closed, p.over(consoleTurn))
			ctx, end := context.WithCancel(b.Context())
			watched := p.watch(ctx)
			p.over(consoleRest)
			open := p.over(consoleTurn)
			end()
			sent += <-watched
			more = append(more, open-closed[len(closed)-1])
		}
		per := func(d, in time.Duration) float64 { return float64(d.Microseconds()) / 1e3 / in.Seconds() }
		b.ReportMetric(per(quantile(closed, 0.5), consoleTurn), "closed-ms/s")
		b.ReportMetric(per(quantile(more, 0.25), consoleTurn), "console-p25-ms/s")
		b.ReportMetric(per(quantile(more, 0.5), consoleTurn), "console-ms/s")
		b.ReportMetric(per(quantile(more, 0.75), consoleTurn), "console-p75-ms/s")
		b.ReportMetric(float64(sent)/1e3/(consoleTurns*(consoleRest+consoleTurn)).Seconds(), "console-KB/s")
		stop()
	}
}

// busy keeps n calls of each of so many functions in an invoker.
func (r *rig) busy(topic string, functions, n int) (stop func()) {
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
					}
				}
			}()
		}
	}
	return func() { close(ended) }
}

// await waits until something holds.
func (r *rig) await(holds func() bool) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		<-tick.C
	}
}

// over is what a process spends on all cores within a time.
func (p *invokerProcess) over(d time.Duration) time.Duration {
	before := p.spent()
	<-time.After(d)
	return p.spent() - before
}

// spent is the time on a core of all of a process's threads, to the nanosecond.
func (p *invokerProcess) spent() (all time.Duration) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.pid))
	if err != nil || len(threads) == 0 {
		p.b.Fatal("no threads of the process", err)
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(first, 10, 64)
		all += time.Duration(n)
	}
	return all
}

// watch has the console open until ctx ends, and tells how many bytes came.
func (p *invokerProcess) watch(ctx context.Context) <-chan int64 {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.door+"/console/events", nil)
	if err != nil {
		p.b.Fatal(err)
	}
	req.SetBasicAuth("invoker.user", "invoker.pass")
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		p.b.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		p.b.Fatal(res.Status)
	}
	out := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, res.Body)
		out <- n
		_ = res.Body.Close()
	}()
	return out
}
