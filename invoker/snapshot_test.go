package invoker

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// What a console is looked at with while its invoker is busy.
const (
	lookedFlows   = 1000
	lookedDevices = 16
	looks         = 1000
)

// BenchmarkSnapshot is how long the dispatcher is held up by what an open console
// asks of it: 1,000 looks at 1,000 functions on 16 devices, all of which have
// calls waiting. Between two looks 200 calls are answered. It tells the mean, the 99th percentile and the worst, by the clock and by
// the processor's time of the dispatcher's thread: of the longest part of each
// look, which is what a decision may have to wait for, and of all parts together.
// Goal: 2 ms for a part.
func BenchmarkSnapshot(b *testing.B) {
	for b.Loop() {
		c := newCrowdOf(b, "mqfq-sticky", lookedFlows, lookedDevices)
		all := c.looks(looks, 200)
		for _, of := range []struct {
			name string
			get  func(hold) time.Duration
		}{
			{"part-us", func(h hold) time.Duration { return h.longest.took }},
			{"part-cpu-us", func(h hold) time.Duration { return h.longest.cpu }},
			{"whole-us", func(h hold) time.Duration { return h.whole.took }},
			{"whole-cpu-us", func(h hold) time.Duration { return h.whole.cpu }},
		} {
			var each []time.Duration
			var sum time.Duration
			for _, h := range all {
				each, sum = append(each, of.get(h)), sum+of.get(h)
			}
			slices.Sort(each)
			us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
			b.ReportMetric(us(sum)/float64(len(each)), "mean-"+of.name)
			b.ReportMetric(us(each[len(each)/2]), "p50-"+of.name)
			b.ReportMetric(us(each[len(each)*99/100]), "p99-"+of.name)
			b.ReportMetric(us(each[len(each)-1]), "max-"+of.name)
		}
	}
}

// looks keeps four calls of each function waiting, and looks n times, each time
// after so many answers.
func (c *crowd) looks(n, between int) (all []hold) {
	c.setRun(func(int, []byte) proxy.Exchange { return answer(200, `{"ok":true}`) })
	room, enough, stop := make(chan struct{}, 4*len(c.names)), make(chan struct{}, 1), make(chan struct{})
	var calls sync.WaitGroup
	calls.Go(func() {
		for {
			select {
			case room <- struct{}{}:
				c.send()
			case <-stop:
				return
			}
		}
	})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for answers := 1; ; answers++ {
			if _, more := <-c.ended; !more {
				return
			}
			<-room
			if answers%between == 0 {
				select {
				case enough <- struct{}{}:
				default:
				}
			}
		}
	}()
	for range n {
		<-enough
		l := timed{make(chan hold, 1)}
		c.iv.tell(l)
		all = append(all, <-l.told)
	}
	close(stop)
	calls.Wait()
	for range cap(room) { // until all have been answered
		room <- struct{}{}
	}
	close(c.ended)
	<-gone
	return all
}

// timed is a look whose parts are timed.
type timed struct{ told chan hold }

type hold struct{ longest, whole spent }

type spent struct{ took, cpu time.Duration }

func (t timed) apply(d *dispatcher, _ time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var h hold
	part := func(do func()) {
		began, before := time.Now(), threadTime()
		do()
		s := spent{time.Since(began), threadTime() - before}
		h.longest.took, h.longest.cpu = max(h.longest.took, s.took), max(h.longest.cpu, s.cpu)
		h.whole.took, h.whole.cpu = h.whole.took+s.took, h.whole.cpu+s.cpu
	}
	var k *look
	part(func() { k = d.look(nil) })
	for last := false; !last; {
		part(func() { last = d.part(k) })
	}
	var s Status
	part(func() { s = d.snapshot(k) })
	if len(s.Flows) != lookedFlows || len(s.Devices) != lookedDevices {
		panic(fmt.Sprint(len(s.Flows), " flows on ", len(s.Devices), " devices"))
	}
	t.told <- h
}

// threadTime is the processor time that the calling thread took so far.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // Linux has it
	return time.Duration(t.Nano())
}
